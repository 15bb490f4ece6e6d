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
import { routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The embeddings request (wire reference B.3). Fields that are not named here are forwarded
 * unchanged.
 */

/** The most texts, token lists or contents of a call: OpenAI accepts as many, others fewer. */
const MAX_INPUTS = 2_048
/** The most tokens of one input. OpenAI accepts 300,000 in all. */
const MAX_TOKENS = 300_000

// A larger JSON number changes when it is parsed.
const Token = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Tokens = list(Token, { minItems: 1, maxItems: MAX_TOKENS })

const Media = Type.Object(
  { data: SomeContent, format: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })) },
  open,
)

const EmbeddingsContentPart = Type.Union([
  Type.Object({ type: Type.Literal('text'), text: SomeContent }, open),
  Type.Object(
    { type: Type.Literal('image_url'), image_url: Type.Object({ url: SomeContent }, open) },
    open,
  ),
  Type.Object({ type: Type.Literal('input_audio'), input_audio: Media }, open),
  Type.Object({ type: Type.Literal('input_video'), input_video: Media }, open),
  Type.Object({ type: Type.Literal('input_file'), input_file: Media }, open),
])
export type EmbeddingsContentPart = Static<typeof EmbeddingsContentPart>

const Content = Type.Object(
  { content: list(EmbeddingsContentPart, { minItems: 1, maxItems: MAX_INPUTS }) },
  open,
)

/** A text, a text as tokens, or a list of texts, of token lists or of contents. */
const EmbeddingsInput = Type.Union([
  SomeContent,
  list(SomeContent, { minItems: 1, maxItems: MAX_INPUTS }),
  Tokens,
  list(Tokens, { minItems: 1, maxItems: MAX_INPUTS }),
  list(Content, { minItems: 1, maxItems: MAX_INPUTS }),
])
export type EmbeddingsInput = Static<typeof EmbeddingsInput>

const { user, session_id, trace, provider } = routingFields

/** The body of `POST /embeddings`. */
export const EmbeddingsRequest = Type.Object(
  {
    model: SomeName,
    input: EmbeddingsInput,
    dimensions: optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
    encoding_format: optional(oneOf('float', 'base64')),
    input_type: optional(Type.String({ minLength: 1, maxLength: 64 })),
    provider,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  open,
)
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>
