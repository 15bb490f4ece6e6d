import type { Endpoint } from '../../catalog/models.ts'
import { count, isObject, type Json, member, text } from '../../kernel/json.ts'
import type { EmbeddingCall, EmbeddingPart } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import { failure } from '../cohere-chat/failure.ts'
import {
  answerOf,
  atMost,
  blocksOf,
  type Purpose,
  purposeOf,
  refuse,
  textsOf,
  whole,
} from '../embeddings.ts'
import { unreadable } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'

/** Cohere's embed, version 2: `POST {base_url}/embed` (https://docs.cohere.com/reference/embed). */
export const cohereEmbeddings: Protocol<'embedding'> = {
  ...whole,
  takesUrls: [],
  request,
  parts,
  failure,
}

function request(call: EmbeddingCall, endpoint: Endpoint): UpstreamRequest {
  return {
    path: '/embed',
    body: { ...bodyOf(call), model: endpoint.upstreamModel, embedding_types: ['float'] },
  }
}

const MOST_INPUTS = 96

/**
 * Builds the part of the body that all hosts of Cohere's models share. Unknown parameters come
 * first, so that none of them can replace a known one.
 */
export function bodyOf(call: EmbeddingCall): Json {
  atMost(MOST_INPUTS, call)
  const { dimensions, input_type } = call.params
  return {
    ...call.extra,
    ...(call.inputs.every(({ type }) => type === 'text')
      ? { texts: textsOf(call) }
      : { inputs: call.inputs.map(contentOf) }),
    input_type: purposeIn(input_type),
    ...(dimensions === undefined ? {} : { output_dimension: dimensions }),
  }
}

const PURPOSES: Partial<Record<Purpose, string>> = {
  query: 'search_query',
  document: 'search_document',
  classification: 'classification',
  clustering: 'clustering',
}

// Cohere requires a purpose. Most texts that are embedded are documents to be searched.
function purposeIn(input_type: string | undefined): string {
  const purpose = purposeOf(input_type)
  return (purpose === undefined ? input_type : PURPOSES[purpose]) ?? 'search_document'
}

const contentOf = (input: EmbeddingCall['inputs'][number]) => ({
  content: blocksOf(input).map(part),
})

function part(block: Block): Json {
  if (block.type === 'text') return { type: 'text', text: block.text }
  return block.type === 'image'
    ? { type: 'image_url', image_url: { url: block.url } }
    : refuse(block.type)
}

/** Returns the parts of an answer of any host. Older models answer with a plain list of vectors. */
export function parts(body: unknown, call: EmbeddingCall): EmbeddingPart[] {
  if (!isObject(body)) throw unreadable()
  const vectors = isObject(body.embeddings) ? body.embeddings.float : body.embeddings
  if (!Array.isArray(vectors)) throw unreadable()
  return answerOf(call, {
    upstream_id: text(body.id),
    vectors,
    usage: usageOf(member(body, 'meta')),
  })
}

function usageOf(meta: Json): Usage | undefined {
  const { input_tokens, image_tokens } = member(meta, 'billed_units')
  const texts = count(input_tokens)
  const images = count(image_tokens)
  return texts === undefined && images === undefined
    ? undefined
    : textUsage((texts ?? 0) + (images ?? 0), 0)
}
