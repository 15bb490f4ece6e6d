import type { Actor } from '../../identity/actor.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import type { EmbeddingCall, EmbeddingInput, EmbeddingParams } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import type { CallContext } from '../dialect.ts'
import { callBase } from '../routing.ts'
import { readUnknown } from '../schema.ts'
import type { DialectWorld } from '../world.ts'
import { EmbeddingsRequest, type Input, type Part } from './schema.ts'

/** Translates a checked body into a call. Throws 400 for an empty list of allowed providers. */
export function understand(
  gateway: DialectWorld,
  actor: Actor,
  body: EmbeddingsRequest,
  context: CallContext,
): EmbeddingCall {
  const { model, provider, user, session_id, trace } = body
  return {
    ...callBase(
      gateway,
      actor,
      { model, ...given({ provider, user, session_id, trace }) },
      context,
    ),
    kind: 'embedding',
    inputs: inputsOf(body.input),
    params: paramsOf(body),
    extra: readUnknown(body, OURS) ?? {},
  }
}

/** The fields that providers do not get, or get in another form. Vectors do not stream. */
const OURS = new Set([...Object.keys(EmbeddingsRequest.properties), 'stream', 'models'])

type Given<T> = { [Name in keyof T]?: Exclude<T[Name], undefined> }

const given = <T extends object>(fields: T): Given<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>

function paramsOf({ dimensions, input_type, encoding_format }: EmbeddingsRequest): EmbeddingParams {
  const params: EmbeddingParams = {}
  if (dimensions != null) params.dimensions = dimensions
  if (input_type != null) params.input_type = input_type
  if (encoding_format != null) params.encoding_format = encoding_format
  return params
}

function inputsOf(input: Input): EmbeddingInput[] {
  if (typeof input === 'string') return [{ type: 'text', text: input }]
  return isTokens(input) ? [{ type: 'tokens', tokens: input }] : input.map(inputOf)
}

const isTokens = (input: Exclude<Input, string>): input is number[] => typeof input[0] === 'number'

function inputOf(given: string | number[] | { content: Part[] }): EmbeddingInput {
  if (typeof given === 'string') return { type: 'text', text: given }
  return Array.isArray(given)
    ? { type: 'tokens', tokens: given }
    : { type: 'content', blocks: given.content.map(blockOf) }
}

function blockOf(part: Part): Block {
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
      return { type: 'video', url: urlOf(part.input_video, 'video', 'mp4') }
    case 'input_file':
      return { type: 'file', file: { file_data: urlOf(part.input_file, 'application', 'pdf') } }
  }
}

/** Returns a URL unchanged, and base64 as a data URL. `format` is `mp4`, or a whole media type. */
function urlOf(
  { data, format }: { data: string; format?: string },
  family: string,
  usual: string,
): string {
  if (isDataUrl(data) || /^https?:/i.test(data)) return data
  const subtype = format ?? usual
  return `data:${subtype.includes('/') ? subtype : `${family}/${subtype}`};base64,${data}`
}
