import type { Actor } from '../../identity/actor.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type { EmbeddingCall, EmbeddingInput, EmbeddingParams } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, CONVERSATION_FIELDS, refuseConversationFields } from '../routing.ts'
import { readExtraFields } from '../schema.ts'
import type { DialectWorld } from '../world.ts'
import { type EmbeddingsContentPart, type EmbeddingsInput, EmbeddingsRequest } from './schema.ts'

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
