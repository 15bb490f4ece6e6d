import { type Static, Type } from '@sinclair/typebox'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../kernel/schema-builders.ts'
import { ASPECT_RATIOS } from '../../language/image.ts'
import { routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The images request (specification E8, wire reference E.1). Fields that are not named here are
 * refused: one that a provider reads may ask for more pictures than were paid for.
 */

/** The most pictures to change or to draw alike. */
const MAX_REFERENCES = 16

const Reference = Type.Object(
  {
    type: Type.Literal('image_url'),
    image_url: Type.Object({ url: SomeContent }, open),
  },
  open,
)

const { user, session_id, trace, provider, stream } = routingFields

/** The body of `POST /images`. */
export const ImagesRequest = Type.Object(
  {
    model: SomeName,
    prompt: SomeContent,
    aspect_ratio: optional(oneOf(...ASPECT_RATIOS, 'auto')),
    background: optional(oneOf('auto', 'transparent', 'opaque')),
    input_references: optional(list(Reference, { maxItems: MAX_REFERENCES })),
    n: optional(Type.Integer({ minimum: 1, maximum: 10 })),
    output_compression: optional(Type.Integer({ minimum: 0, maximum: 100 })),
    output_format: optional(oneOf('png', 'jpeg', 'webp', 'svg')),
    quality: optional(oneOf('auto', 'low', 'medium', 'high', 'xhigh', 'max')),
    resolution: optional(oneOf('512', '1K', '2K', '4K')),
    seed: optional(
      Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
    ),
    size: optional(
      Type.String({ pattern: '^(512|1K|2K|4K|auto|[1-9]\\d{0,4}x[1-9]\\d{0,4})$', maxLength: 11 }),
    ),
    provider,
    stream,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, open)),
  },
  closed,
)
export type ImagesRequest = Static<typeof ImagesRequest>
