import { isObject, type Json, readString } from '../../../base/json.ts'
import type { EmbeddingCall, EmbeddingPart } from '../../../language/embedding.ts'
import type { Block } from '../../../language/message.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure } from '../cohere-chat/failure.ts'
import {
  assertInputCount,
  embeddingDefaults,
  listBlocks,
  parsePurpose,
  readTexts,
  refuseContent,
  toEmbeddingParts,
} from '../embeddings.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { findCounts } from '../reader.ts'
import { COHERE_PURPOSES } from './capabilities.ts'

/** Cohere's embed, version 2: `POST {base_url}/embed` (https://docs.cohere.com/reference/embed). */
export const cohereEmbeddings: Protocol<'embedding'> = {
  ...embeddingDefaults,
  urlMedia: [],
  getMostItems: () => MAX_INPUTS,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: EmbeddingCall, endpoint: Endpoint): UpstreamRequest {
  return {
    path: '/embed',
    body: { ...buildBody(call), model: endpoint.upstreamModel, embedding_types: ['float'] },
  }
}

/** The most texts of one request. */
export const MAX_INPUTS = 96

/**
 * Builds the part of the body that all hosts of Cohere's models share. Unknown parameters come
 * first, so that none of them can replace a known one.
 */
export function buildBody(call: EmbeddingCall): Json {
  assertInputCount(MAX_INPUTS, call)
  const { dimensions, input_type } = call.params
  return {
    ...call.extra,
    ...(call.inputs.every(({ type }) => type === 'text')
      ? { texts: readTexts(call) }
      : { inputs: call.inputs.map(renderContent) }),
    input_type: renderPurpose(input_type),
    ...(dimensions === undefined ? {} : { output_dimension: dimensions }),
  }
}

// Cohere requires a purpose. Most texts that are embedded are documents to be searched.
function renderPurpose(input_type: string | undefined): string {
  const purpose = parsePurpose(input_type)
  return (purpose === undefined ? input_type : COHERE_PURPOSES[purpose]) ?? 'search_document'
}

const renderContent = (input: EmbeddingCall['inputs'][number]) => ({
  content: listBlocks(input).map(renderPart),
})

function renderPart(block: Block): Json {
  if (block.type === 'text') return { type: 'text', text: block.text }
  return block.type === 'image'
    ? { type: 'image_url', image_url: { url: block.url } }
    : refuseContent(block.type)
}

/** Returns the parts of an answer of any host. Older models answer with a plain list of vectors. */
export function parseAnswer(body: unknown, call: EmbeddingCall): EmbeddingPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  const vectors = isObject(body.embeddings) ? body.embeddings.float : body.embeddings
  if (!Array.isArray(vectors)) throw unreadableAnswer()
  return toEmbeddingParts(call, {
    upstream_id: readString(body.id),
    vectors,
    usage: findCounts(body),
  })
}
