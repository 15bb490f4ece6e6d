import { type Static, Type } from '@sinclair/typebox'
import { oneOf, open, optional } from '../../kernel/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The embeddings request (wire reference B.3). Fields that are not named here are forwarded
 * unchanged.
 */

const Text = Type.String({ minLength: 1 })

// A larger JSON number changes when it is parsed.
const Token = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Tokens = Type.Array(Token, { minItems: 1 })

const Media = Type.Object(
  { data: Text, format: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })) },
  open,
)

const EmbeddingsContentPart = Type.Union([
  Type.Object({ type: Type.Literal('text'), text: Text }, open),
  Type.Object(
    { type: Type.Literal('image_url'), image_url: Type.Object({ url: Text }, open) },
    open,
  ),
  Type.Object({ type: Type.Literal('input_audio'), input_audio: Media }, open),
  Type.Object({ type: Type.Literal('input_video'), input_video: Media }, open),
  Type.Object({ type: Type.Literal('input_file'), input_file: Media }, open),
])
export type EmbeddingsContentPart = Static<typeof EmbeddingsContentPart>

const Content = Type.Object({ content: Type.Array(EmbeddingsContentPart, { minItems: 1 }) }, open)

/** A text, a text as tokens, or a list of texts, of token lists or of contents. */
const EmbeddingsInput = Type.Union([
  Text,
  Type.Array(Text, { minItems: 1 }),
  Tokens,
  Type.Array(Tokens, { minItems: 1 }),
  Type.Array(Content, { minItems: 1 }),
])
export type EmbeddingsInput = Static<typeof EmbeddingsInput>

const { user, session_id, trace, provider } = routingFields

/** The body of `POST /embeddings`. */
export const EmbeddingsRequest = Type.Object(
  {
    model: Text,
    input: EmbeddingsInput,
    dimensions: optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
    encoding_format: optional(oneOf('float', 'base64')),
    input_type: optional(Type.String({ minLength: 1, maxLength: 64 })),
    provider,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, open)),
  },
  open,
)
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>
