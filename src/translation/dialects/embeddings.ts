import { type Static, Type } from '@sinclair/typebox'
import { isDataUrl } from '../../base/data-url.ts'
import { decodeFloats, encodeFloats } from '../../base/floats.ts'
import { omitUndefined } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type {
  EmbeddingCall,
  EmbeddingInput,
  EmbeddingParams,
  Vector,
} from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import { countInputTokens, type Receipt } from '../../language/usage.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, Dialect } from './dialect.ts'
import {
  buildCallBase,
  CONVERSATION_FIELDS,
  readExtraFields,
  refuseConversationFields,
  routingFields,
} from './routing.ts'
import { dryRunFields } from './schema.ts'
import type { DialectWorld } from './world.ts'

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
type EmbeddingsContentPart = Static<typeof EmbeddingsContentPart>

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
type EmbeddingsInput = Static<typeof EmbeddingsInput>

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

/** The embeddings API: vectors of texts and of other content that models accept (reference B.3). */
export const embeddings: Dialect<'embedding', EmbeddingsRequest> = {
  name: 'embeddings',
  kind: 'embedding',
  path: '/embeddings',
  operation: { id: 'createEmbeddings', tag: 'Embeddings', summary: 'Turn texts into vectors' },
  body: EmbeddingsRequest,
  toCall: toEmbeddingCall,
  collectResponse: (answer, { params }) =>
    collectEmbeddingsResponse(answer, params.encoding_format ?? 'float'),
}

/**
 * Collects the parts of an answer into one list of vectors in the encoding that the client
 * requested. Throws the error of a failed answer.
 */
async function collectEmbeddingsResponse(
  answer: Answer<'embedding'>,
  encoding: 'float' | 'base64',
) {
  const data: { object: 'embedding'; index: number; embedding: Vector }[] = []
  let receipt: Receipt | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'receipt') receipt = part.receipt
      if (part.type === 'embedding')
        data.push({
          object: 'embedding',
          index: part.index,
          embedding: encodeVector(part.vector, encoding),
        })
    }
  }
  return {
    id: answer.id,
    object: 'list' as const,
    data,
    model: answer.model,
    provider: answer.provider,
    ...(receipt ? { usage: renderUsage(receipt) } : {}),
  }
}

function encodeVector(vector: Vector, encoding: 'float' | 'base64'): Vector {
  if (encoding === 'base64') return typeof vector === 'string' ? vector : encodeFloats(vector)
  return typeof vector === 'string' ? decodeFloats(vector) : vector
}

/** Renders the usage of embeddings (wire reference B.3). Details need at least two token types. */
function renderUsage({ usage, cost, cost_details, is_byok }: Receipt) {
  const prompt_tokens = countInputTokens(usage)
  const { audio, video } = usage.input
  const details = {
    text_tokens: prompt_tokens - audio - video,
    audio_tokens: audio,
    video_tokens: video,
  }
  const counted = Object.entries(details).filter(([, tokens]) => tokens > 0)
  return {
    prompt_tokens,
    total_tokens: prompt_tokens,
    ...(counted.length > 1 ? { prompt_tokens_details: Object.fromEntries(counted) } : {}),
    // Left out if unknown: the official clients accept a number or nothing.
    ...(cost === null ? {} : { cost: toUsd(cost) }),
    is_byok,
    ...(cost_details
      ? {
          cost_details: {
            upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
            upstream_inference_prompt_cost: toUsd(cost_details.prompt),
            upstream_inference_completions_cost: toUsd(cost_details.completion),
          },
        }
      : {}),
  }
}

/** Translates a checked body into a call. Throws 400 for an empty list of allowed providers. */
export function toEmbeddingCall(
  world: DialectWorld,
  actor: Actor,
  body: EmbeddingsRequest,
  context: CallContext,
): EmbeddingCall {
  refuseConversationFields(body)
  const { model, provider, user, session_id, trace } = body
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace }) },
      context,
    ),
    kind: 'embedding',
    inputs: toInputs(body.input),
    params: toParams(body),
    extra: readExtraFields(body, KNOWN_FIELDS),
  }
}

/** The fields that providers do not get, or get in another form. Vectors do not stream. */
const KNOWN_FIELDS = new Set([
  ...Object.keys(EmbeddingsRequest.properties),
  ...CONVERSATION_FIELDS,
  'stream',
])

function toParams({ dimensions, input_type, encoding_format }: EmbeddingsRequest): EmbeddingParams {
  const params: EmbeddingParams = {}
  if (dimensions != null) params.dimensions = dimensions
  if (input_type != null) params.input_type = input_type
  if (encoding_format != null) params.encoding_format = encoding_format
  return params
}

function toInputs(input: EmbeddingsInput): EmbeddingInput[] {
  if (typeof input === 'string') return [{ type: 'text', text: input }]
  return isTokens(input) ? [{ type: 'tokens', tokens: input }] : input.map(toInput)
}

const isTokens = (input: Exclude<EmbeddingsInput, string>): input is number[] =>
  typeof input[0] === 'number'

function toInput(input: string | number[] | { content: EmbeddingsContentPart[] }): EmbeddingInput {
  if (typeof input === 'string') return { type: 'text', text: input }
  return Array.isArray(input)
    ? { type: 'tokens', tokens: input }
    : { type: 'content', blocks: input.content.map(toBlock) }
}

function toBlock(part: EmbeddingsContentPart): Block {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text }
    case 'image_url':
      return { type: 'image', url: part.image_url.url }
    case 'input_audio':
      return {
        type: 'audio',
        data: part.input_audio.data,
        format: part.input_audio.format ?? 'wav',
      }
    case 'input_video':
      return { type: 'video', url: toMediaUrl(part.input_video, 'video', 'mp4') }
    case 'input_file':
      return {
        type: 'file',
        file: { file_data: toMediaUrl(part.input_file, 'application', 'pdf') },
      }
  }
}

/** Returns a URL unchanged, and base64 as a data URL. `format` is `mp4`, or a whole media type. */
function toMediaUrl(
  { data, format }: { data: string; format?: string },
  family: string,
  defaultSubtype: string,
): string {
  if (isDataUrl(data) || /^https?:/i.test(data)) return data
  const subtype = format ?? defaultSubtype
  return `data:${subtype.includes('/') ? subtype : `${family}/${subtype}`};base64,${data}`
}
