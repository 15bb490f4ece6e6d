import { invalid } from '../../base/errors.ts'
import { type Json, parseCount } from '../../base/json.ts'
import type { RerankCall, RerankDocument, RerankPart } from '../../language/rerank.ts'
import type { Usage } from '../../language/usage.ts'
import { unreadableAnswer } from './failure.ts'
import type { Protocol } from './protocol.ts'
import { findCounts } from './reader.ts'

/**
 * What the rerank protocols share: documents have no names that would need a field, and a streamed
 * answer is an error.
 */
export const rerankDefaults = {
  framing: 'sse',
  acceptsNames: true,
  urlMedia: [],
  createReader: () => {
    throw unreadableAnswer()
  },
} satisfies Partial<Protocol<'rerank'>>

/** Returns the documents as texts, for providers that only take text. Throws 400 for pictures. */
export const readTexts = ({ documents }: RerankCall): string[] => documents.map(readText)

function readText({ text, image }: RerankDocument, index: number): string {
  if (image === undefined) return text ?? ''
  throw invalid(
    `documents.${index}: an image is a kind of content that this model’s provider does not take`,
    `documents.${index}`,
  )
}

/** Returns the number of results to request: no more than there are documents. */
export const countResults = ({ params: { top_n }, documents }: RerankCall): number =>
  Math.min(top_n ?? documents.length, documents.length)

/** One result as the provider sent it. */
interface ProviderRanking {
  index: unknown
  relevance_score: unknown
}

/** The answer of a provider. */
interface ProviderAnswer {
  upstream_id?: string | null
  rankings: ProviderRanking[]
  usage: Usage | undefined
}

/**
 * Returns an answer's parts. Throws `provider_unavailable` if there is no result, or if one names
 * no document, names the same as another or has no score.
 */
export function toRerankParts(
  { documents }: RerankCall,
  { upstream_id = null, rankings, usage }: ProviderAnswer,
): RerankPart[] {
  const parts = rankings.map(ranking => toRankingPart(ranking, documents.length))
  if (parts.length === 0 || new Set(parts.map(({ index }) => index)).size < parts.length)
    throw unreadableAnswer()
  return [
    { type: 'start', upstream_id, system_fingerprint: null, service_tier: null },
    ...parts,
    ...(usage ? [{ type: 'usage' as const, usage }] : []),
  ]
}

function toRankingPart({ index, relevance_score }: ProviderRanking, documents: number) {
  const position = parseCount(index)
  if (position === undefined || position >= documents) throw unreadableAnswer()
  if (typeof relevance_score !== 'number' || !Number.isFinite(relevance_score))
    throw unreadableAnswer()
  return { type: 'ranking' as const, index: position, relevance_score }
}

/** Reads the usage of an answer: where its server counts tokens alone, there are no ranking units. */
export function readAnyUsage(answer: Json): Usage | undefined {
  const usage = findCounts(answer)
  if (!usage || usage.isImpossible) return usage
  return { ...usage, units: { search_unit: 0, ...usage.units } }
}
