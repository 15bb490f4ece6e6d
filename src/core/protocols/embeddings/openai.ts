import type { Endpoint } from '../../catalog/models.ts'
import { dataUrl, isDataUrl } from '../../kernel/data-url.ts'
import { isObject, objects, text } from '../../kernel/json.ts'
import type { EmbeddingCall, EmbeddingInput, EmbeddingPart } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import type { Usage } from '../../language/usage.ts'
import { answerOf, type Purpose, purposeOf, whole } from '../embeddings.ts'
import { unreadable } from '../failure.ts'
import { failure, failureInside } from '../openai-chat/failure.ts'
import { inItsWords, pathOf } from '../openai-chat/request.ts'
import { usageOf } from '../openai-chat/usage.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'

/** How OpenAI-compatible servers differ: the names of their parameters and of the purposes. */
interface Words {
  dimensions: string
  input_type: string
  /** The server's names by purpose; null if `input_type` is sent unchanged. */
  purposes: Partial<Record<Purpose, string>> | null
}

/** Creates a protocol for `POST {base_url}/embeddings` at OpenAI and compatible servers. */
const speaking = (words: Words): Protocol<'embedding'> => ({
  ...whole,
  takesUrls: ['image', 'audio', 'video', 'file'],
  request: (call, endpoint) => request(call, endpoint, words),
  parts,
  failure,
})

export const openaiEmbeddings = speaking({
  dimensions: 'dimensions',
  input_type: 'input_type',
  purposes: null,
})

/** https://docs.voyageai.com/reference/embeddings-api */
export const voyageEmbeddings = speaking({
  dimensions: 'output_dimension',
  input_type: 'input_type',
  purposes: { query: 'query', document: 'document' },
})

/** https://jina.ai/embeddings */
export const jinaEmbeddings = speaking({
  dimensions: 'dimensions',
  input_type: 'task',
  purposes: {
    query: 'retrieval.query',
    document: 'retrieval.passage',
    similarity: 'text-matching',
    classification: 'classification',
    clustering: 'separation',
  },
})

/**
 * Builds the request. Unknown parameters come first, so that none of them can replace a known one.
 */
function request(call: EmbeddingCall, endpoint: Endpoint, words: Words): UpstreamRequest {
  const { dimensions, encoding_format } = call.params
  const input_type = purposeIn(words, call)
  const body: Record<string, unknown> = {
    ...call.extra,
    model: endpoint.upstreamModel,
    input: inputOf(call.inputs),
    ...(dimensions === undefined ? {} : { [words.dimensions]: dimensions }),
    ...(input_type === undefined ? {} : { [words.input_type]: input_type }),
    // Every server returns floats by default, and some refuse to have them requested.
    ...(encoding_format === 'base64' ? { encoding_format } : {}),
    ...(call.user === null ? {} : { user: call.user }),
  }
  return { path: pathOf(endpoint, '/embeddings'), body: inItsWords(body, endpoint.provider.quirks) }
}

function purposeIn(
  { purposes }: Words,
  { params: { input_type } }: EmbeddingCall,
): string | undefined {
  if (input_type === undefined || purposes === null) return input_type
  const purpose = purposeOf(input_type)
  return purpose === undefined ? input_type : purposes[purpose]
}

// A single input is sent as it is, several as a list.
function inputOf(inputs: EmbeddingInput[]): unknown {
  const [only] = inputs
  if (inputs.length === 1 && only && only.type !== 'content') return shown(only)
  return inputs.map(shown)
}

function shown(input: EmbeddingInput): unknown {
  if (input.type === 'content') return { content: input.blocks.map(part) }
  return input.type === 'text' ? input.text : input.tokens
}

function part(block: Block): unknown {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text }
    case 'image':
      return { type: 'image_url', image_url: { url: block.url } }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: block.data, format: block.format } }
    case 'video':
      return { type: 'input_video', input_video: media(block.url) }
    case 'file':
      return { type: 'input_file', input_file: media(block.file.file_data ?? '') }
    default:
      return undefined
  }
}

function media(url: string) {
  if (!isDataUrl(url)) return { data: url }
  const { media_type, data } = dataUrl(url)
  return { data, format: media_type.slice(media_type.indexOf('/') + 1) }
}

function parts(body: unknown, call: EmbeddingCall): EmbeddingPart[] {
  if (!isObject(body)) throw unreadable()
  if (body.error) throw failureInside(body.error)
  return answerOf(call, {
    upstream_id: text(body.id),
    vectors: inOrder(body.data),
    usage: countOf(body.usage),
  })
}

/**
 * Returns the vectors in the order of their indexes, or as they stand for servers without indexes.
 */
function inOrder(data: unknown): unknown[] {
  const vectors: unknown[] = []
  const given = objects(data)
  for (const [i, { index, embedding }] of given.entries())
    vectors[placeOf(index, i, given.length)] = embedding
  return vectors
}

const placeOf = (index: unknown, at: number, length: number): number =>
  typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < length ? index : at

// Some servers only send a total, which is all input.
const countOf = (given: unknown): Usage | undefined =>
  isObject(given)
    ? usageOf({ prompt_tokens: given.total_tokens, ...given, completion_tokens: 0 })
    : undefined
