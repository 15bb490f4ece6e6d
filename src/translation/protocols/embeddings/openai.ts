import { isDataUrl, parseDataUrl } from '../../../base/data-url.ts'
import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import type { EmbeddingCall, EmbeddingInput, EmbeddingPart } from '../../../language/embedding.ts'
import type { Block } from '../../../language/message.ts'
import { countInputTokens, type Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { embeddingDefaults, type Purpose, parsePurpose, toEmbeddingParts } from '../embeddings.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import { readUsage } from '../openai-chat/reader.ts'
import { applyParameterQuirks, buildPath } from '../openai-chat/request.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { findCounts } from '../reader.ts'
import { VOYAGE_PURPOSES } from './capabilities.ts'

/** How OpenAI-compatible servers differ: the names of their parameters and of the purposes. */
interface ParameterNames {
  dimensions: string
  input_type: string
  /** The server's names by purpose; null if `input_type` is sent unchanged. */
  purposes: Partial<Record<Purpose, string>> | null
  /** Whether the server has a field for the caller's user: others refuse what they do not know. */
  user: boolean
  /** The most inputs of one request: as many as a call may have unless there is a row. */
  most?: number
}

/** Creates a protocol for `POST {base_url}/embeddings` at OpenAI and compatible servers. */
const createEmbeddings = (names: ParameterNames): Protocol<'embedding'> => ({
  ...embeddingDefaults,
  urlMedia: ['image', 'audio', 'video', 'file'],
  getMostItems: () => names.most ?? MAX_INPUTS,
  buildRequest: (call, endpoint) => buildRequest(call, endpoint, names),
  parseAnswer,
  readFailure,
})

/** OpenAI's bound, and that of the public API. */
const MAX_INPUTS = 2_048

export const openaiEmbeddings = createEmbeddings({
  dimensions: 'dimensions',
  input_type: 'input_type',
  purposes: null,
  user: true,
})

/** https://docs.voyageai.com/reference/embeddings-api */
export const voyageEmbeddings = createEmbeddings({
  dimensions: 'output_dimension',
  input_type: 'input_type',
  purposes: VOYAGE_PURPOSES,
  user: false,
  most: 1_000,
})

/** https://jina.ai/embeddings */
export const jinaEmbeddings = createEmbeddings({
  dimensions: 'dimensions',
  input_type: 'task',
  purposes: {
    query: 'retrieval.query',
    document: 'retrieval.passage',
    similarity: 'text-matching',
    classification: 'classification',
    clustering: 'separation',
  },
  user: false,
})

/**
 * Builds the request. Unknown parameters come first, so that none of them can replace a known one.
 */
function buildRequest(
  call: EmbeddingCall,
  endpoint: Endpoint,
  names: ParameterNames,
): UpstreamRequest {
  const { dimensions, encoding_format } = call.params
  const input_type = renderPurpose(names, call)
  const body: Record<string, unknown> = {
    ...call.extra,
    model: endpoint.upstreamModel,
    input: renderInput(call.inputs),
    ...(dimensions === undefined ? {} : { [names.dimensions]: dimensions }),
    ...(input_type === undefined ? {} : { [names.input_type]: input_type }),
    // Every server returns floats by default, and some refuse to have them requested.
    ...(encoding_format === 'base64' ? { encoding_format } : {}),
    ...(call.user === null || !names.user ? {} : { user: call.user }),
  }
  return {
    path: buildPath(endpoint, '/embeddings'),
    body: applyParameterQuirks(body, endpoint.provider.quirks),
  }
}

function renderPurpose(
  { purposes }: ParameterNames,
  { params: { input_type } }: EmbeddingCall,
): string | undefined {
  if (input_type === undefined || purposes === null) return input_type
  const purpose = parsePurpose(input_type)
  return purpose === undefined ? input_type : purposes[purpose]
}

// A single input is sent as it is, several as a list.
function renderInput(inputs: EmbeddingInput[]): unknown {
  const [only] = inputs
  if (inputs.length === 1 && only && only.type !== 'content') return renderInputItem(only)
  return inputs.map(renderInputItem)
}

function renderInputItem(input: EmbeddingInput): unknown {
  if (input.type === 'content') return { content: input.blocks.map(renderPart) }
  return input.type === 'text' ? input.text : input.tokens
}

function renderPart(block: Block): unknown {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text }
    case 'image':
      return { type: 'image_url', image_url: { url: block.url } }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: block.data, format: block.format } }
    case 'video':
      return { type: 'input_video', input_video: renderMedia(block.url) }
    case 'file':
      return { type: 'input_file', input_file: renderMedia(block.file.file_data ?? '') }
    default:
      return undefined
  }
}

function renderMedia(url: string) {
  if (!isDataUrl(url)) return { data: url }
  const { media_type, data } = parseDataUrl(url)
  return { data, format: media_type.slice(media_type.indexOf('/') + 1) }
}

function parseAnswer(body: unknown, call: EmbeddingCall): EmbeddingPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (body.error) throw readStreamFailure(body.error)
  return toEmbeddingParts(call, {
    upstream_id: readString(body.id),
    vectors: orderVectors(body.data),
    usage: readUsageOrCounts(body),
  })
}

/**
 * Returns the vectors in the order of their indexes, if those name each place once. Some servers have
 * none, the same for all, or count from one: then they stand in their order.
 */
function orderVectors(data: unknown): unknown[] {
  const entries = readObjects(data)
  const vectors: unknown[] = []
  for (const { index, embedding } of entries) {
    const isPlace = typeof index === 'number' && index >= 0 && index < entries.length
    if (!isPlace || !Number.isInteger(index) || index in vectors)
      return entries.map(entry => entry.embedding)
    vectors[index] = embedding
  }
  return vectors
}

// Its own usage has details: sound and video are counted apart.
function readUsageOrCounts(body: Json): Usage | undefined {
  const usage = readTotalUsage(body.usage)
  return usage && countInputTokens(usage) > 0 ? usage : (findCounts(body) ?? usage)
}

// Some servers only send a total, which is all input.
const readTotalUsage = (usage: unknown): Usage | undefined =>
  isObject(usage)
    ? readUsage({ prompt_tokens: usage.total_tokens, ...usage, completion_tokens: 0 })
    : undefined
