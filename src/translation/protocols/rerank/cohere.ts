import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import type { RerankCall, RerankPart } from '../../../language/rerank.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure } from '../cohere-chat/failure.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { countResults, readAnyUsage, readTexts, rerankDefaults, toRerankParts } from '../rerank.ts'

/** Cohere's rerank, version 2: `POST {base_url}/rerank` (https://docs.cohere.com/reference/rerank). */
export const cohereRerank: Protocol<'rerank'> = {
  ...rerankDefaults,
  getMostItems: () => MAX_DOCUMENTS,
  buildRequest,
  parseAnswer,
  readFailure,
}

const MAX_DOCUMENTS = 10_000

function buildRequest(call: RerankCall, { upstreamModel: model }: Endpoint): UpstreamRequest {
  return { path: '/rerank', body: { ...buildBody(call), model } }
}

/**
 * Builds the part of the body that all hosts of Cohere's models share. Unknown parameters come
 * first, so that none of them can replace a known one.
 */
export function buildBody(call: RerankCall): Json {
  return {
    ...call.extra,
    query: call.query,
    documents: readTexts(call),
    top_n: countResults(call),
  }
}

function parseAnswer(body: unknown, call: RerankCall): RerankPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  return toRerankParts(call, {
    upstream_id: readString(body.id),
    rankings: readObjects(body.results).map(({ index, relevance_score }) => ({
      index,
      relevance_score,
    })),
    usage: readAnyUsage(body),
  })
}
