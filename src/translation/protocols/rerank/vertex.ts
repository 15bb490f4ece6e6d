import { isObject, readObjects } from '../../../base/json.ts'
import type { RerankCall, RerankPart } from '../../../language/rerank.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../gemini/failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { countResults, readAnyUsage, readTexts, rerankDefaults, toRerankParts } from '../rerank.ts'

/**
 * Google's ranking: `POST {base_url}/rankingConfigs/default_ranking_config:rank`, where the address
 * names a project: https://discoveryengine.googleapis.com/v1/projects/{project}/locations/global
 * (https://cloud.google.com/generative-ai-app-builder/docs/ranking). It counts nothing.
 */
export const vertexRerank: Protocol<'rerank'> = {
  ...rerankDefaults,
  getMostItems: () => MAX_RECORDS,
  buildRequest,
  parseAnswer,
  readFailure,
}

const MAX_RECORDS = 200

function buildRequest(call: RerankCall, { upstreamModel: model }: Endpoint): UpstreamRequest {
  return {
    path: '/rankingConfigs/default_ranking_config:rank',
    body: {
      ...call.extra,
      model,
      query: call.query,
      records: readTexts(call).map((content, index) => ({ id: String(index), content })),
      topN: countResults(call),
      ignoreRecordDetailsInResponse: true,
    },
  }
}

function parseAnswer(body: unknown, call: RerankCall): RerankPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (isObject(body.error)) throw readStreamFailure(body.error)
  return toRerankParts(call, {
    rankings: readObjects(body.records).map(({ id, score }) => ({
      index: typeof id === 'string' && /^\d{1,9}$/.test(id) ? Number(id) : undefined,
      relevance_score: score,
    })),
    usage: readAnyUsage(body),
  })
}
