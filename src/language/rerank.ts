/** Reranking: the request to sort documents by their relevance to a query, and the answer. */

import type { CallBase } from './call.ts'
import type { CommonPart, StartPart } from './part.ts'

declare module './work.ts' {
  interface Work {
    rerank: { call: RerankCall; part: RerankPart }
  }
}

/** A request to sort the documents by their relevance to the query. */
export interface RerankCall extends CallBase {
  kind: 'rerank'
  query: string
  documents: RerankDocument[]
  params: RerankParams
  /** Parameters that the gateway does not know. They are forwarded unchanged. */
  extra: Record<string, unknown>
}

/** A text, a picture by URL, or both. */
export interface RerankDocument {
  text?: string
  image?: string
}

/** The parameters of wire reference B.3, under their wire names. */
interface RerankParams {
  /** The number of most relevant documents to return. Absent for all. */
  top_n?: number
}

/**
 * A piece of an answer. A ranking is the relevance of the document at this position of the call:
 * higher scores are more relevant; their range is the model's own. A method comes first if the
 * scores are not those of a model that ranks.
 */
export type RerankPart =
  | StartPart
  | { type: 'method'; method: 'cosine' }
  | { type: 'ranking'; index: number; relevance_score: number }
  | CommonPart
