import { invalid } from '../../../base/errors.ts'
import { decodeFloats } from '../../../base/floats.ts'
import type { EmbeddingCall, EmbeddingPart, Vector } from '../../../language/embedding.ts'
import type { Block } from '../../../language/message.ts'
import type { RerankCall, RerankDocument, RerankPart } from '../../../language/rerank.ts'
import type { Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol } from '../protocol.ts'
import { toRerankParts } from '../rerank.ts'

/**
 * Returns the protocol with which models rank that only compute vectors: the query and all
 * documents are embedded in one request, and the score of a document is the cosine of its vector
 * and the query's. The answer says so. Models that rank do so by `rerank`.
 */
export function rankByVectors(
  embedding: Protocol<'embedding'>,
  rerank: Protocol<'rerank'> = refuseRanking(embedding),
): Protocol<'rerank'> {
  const byVectors: Translation = {
    // The query is an input too, in each request.
    getMostItems: endpoint => Math.max((embedding.getMostItems?.(endpoint) ?? 2_048) - 1, 1),
    buildRequest: (call, endpoint) => embedding.buildRequest(toEmbeddingCall(call), endpoint),
    parseAnswer: (body, call, endpoint) =>
      toRankings(call, embedding.parseAnswer(body, toEmbeddingCall(call), endpoint)),
  }
  const pick = (endpoint: Endpoint) => (ranks(endpoint) ? rerank : byVectors)
  return {
    ...rerank,
    getMostItems: endpoint => pick(endpoint).getMostItems?.(endpoint) ?? Number.POSITIVE_INFINITY,
    buildRequest: (call, endpoint) => pick(endpoint).buildRequest(call, endpoint),
    parseAnswer: (body, call, endpoint) => pick(endpoint).parseAnswer(body, call, endpoint),
  }
}

type Translation = Pick<Protocol<'rerank'>, 'getMostItems' | 'buildRequest' | 'parseAnswer'>

const ranks = ({ output_modalities }: Endpoint) => output_modalities.includes('rerank')

/** Returns a protocol that refuses models that rank: the family has no form for it. */
const refuseRanking = ({ framing, readFailure }: Protocol<'embedding'>): Protocol<'rerank'> => ({
  framing,
  acceptsNames: true,
  urlMedia: [],
  buildRequest() {
    throw invalid('model: this model’s provider has no interface for reranking', 'model')
  },
  parseAnswer() {
    throw unreadableAnswer()
  },
  createReader() {
    throw unreadableAnswer()
  },
  readFailure,
})

function toEmbeddingCall({ query, documents, ...call }: RerankCall): EmbeddingCall {
  return {
    ...call,
    kind: 'embedding',
    inputs: [{ type: 'text', text: query }, ...documents.map(toInput)],
    params: {},
  }
}

const toInput = ({ text, image }: RerankDocument): EmbeddingCall['inputs'][number] =>
  image === undefined
    ? { type: 'text', text: text ?? '' }
    : { type: 'content', blocks: [...toTextBlocks(text), { type: 'image', url: image }] }

const toTextBlocks = (text: string | undefined): Block[] =>
  text === undefined ? [] : [{ type: 'text', text }]

function toRankings(call: RerankCall, parts: EmbeddingPart[]): RerankPart[] {
  const vectors: number[][] = []
  let usage: Usage | undefined
  let upstream_id: string | null = null
  for (const part of parts) {
    if (part.type === 'embedding') vectors[part.index] = readVector(part.vector)
    if (part.type === 'usage') usage = { ...part.usage, units: { search_unit: 0 } }
    if (part.type === 'start') upstream_id = part.upstream_id
  }
  const [query, ...documents] = vectors
  const rankings = documents.map((vector, index) => ({
    index,
    relevance_score: computeCosine(query ?? [], vector),
  }))
  return [
    { type: 'method', method: 'cosine' },
    ...toRerankParts(call, { upstream_id, rankings, usage }),
  ]
}

const readVector = (vector: Vector): number[] =>
  typeof vector === 'string' ? decodeFloats(vector) : vector

/** Computes the cosine of two vectors. Throws `provider_unavailable` if it has no meaning. */
function computeCosine(one: number[], other: number[]): number {
  if (one.length !== other.length) throw unreadableAnswer()
  let product = 0
  let ofOne = 0
  let ofOther = 0
  for (let axis = 0; axis < one.length; axis++) {
    const a = one[axis] ?? 0
    const b = other[axis] ?? 0
    product += a * b
    ofOne += a * a
    ofOther += b * b
  }
  const lengths = Math.sqrt(ofOne) * Math.sqrt(ofOther)
  return lengths === 0 ? 0 : product / lengths
}
