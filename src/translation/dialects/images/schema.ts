import { type Static, Type } from '@sinclair/typebox'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../../base/schema-builders.ts'
import { IMAGE_FIELDS } from '../../image-params.ts'
import { providerWithOptions, routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The images request (specification E8, wire reference E.1). Fields that are not named here are
 * refused: one that a provider reads may ask for more pictures than were paid for.
 */

/** The most pictures to change or to draw alike. */
export const MAX_REFERENCES = 16

const Reference = Type.Object(
  {
    type: Type.Literal('image_url'),
    image_url: Type.Object({ url: SomeContent }, open),
  },
  open,
)

const { user, session_id, trace, stream } = routingFields

/** OpenAI's clients may say how they want the pictures: there is one way. */
const ResponseFormat = optional(oneOf('b64_json'))

/** OpenAI's own fields: endpoints that do not have them do without. */
const OPENAI_FIELDS = {
  partial_images: optional(Type.Integer({ minimum: 0, maximum: 3 })),
  moderation: optional(oneOf('auto', 'low')),
  input_fidelity: optional(oneOf('high', 'low')),
  style: optional(oneOf('vivid', 'natural')),
  // The last two are of OpenAI's older models.
  quality: optional(oneOf('auto', 'low', 'medium', 'high', 'xhigh', 'max', 'standard', 'hd')),
}

/** The body of `POST /images`. */
export const ImagesRequest = Type.Object(
  {
    model: SomeName,
    prompt: SomeContent,
    ...IMAGE_FIELDS,
    ...OPENAI_FIELDS,
    response_format: ResponseFormat,
    input_references: optional(list(Reference, { maxItems: MAX_REFERENCES })),
    provider: providerWithOptions,
    stream,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)
export type ImagesRequest = Static<typeof ImagesRequest>

/** The fields of the same as a form, as OpenAI's clients send it, beside its pictures. */
export const ImagesForm = Type.Object(
  {
    model: SomeName,
    prompt: SomeContent,
    ...IMAGE_FIELDS,
    ...OPENAI_FIELDS,
    response_format: ResponseFormat,
    stream,
    user,
  },
  closed,
)
export type ImagesForm = Static<typeof ImagesForm> & { debug?: null }
