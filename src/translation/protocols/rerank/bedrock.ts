import { isObject, readObjects } from '../../../base/json.ts'
import type { RerankCall, RerankPart } from '../../../language/rerank.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure } from '../bedrock-converse/failure.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { readAnyUsage, rerankDefaults, toRerankParts } from '../rerank.ts'
import { buildBody } from './cohere.ts'

/**
 * The rerank models of Amazon Bedrock, its own and Cohere's: `POST {base_url}/model/{model}/invoke`
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-use.html). They count nothing: the
 * ranking units are the gateway's.
 */
export const bedrockRerank: Protocol<'rerank'> = {
  ...rerankDefaults,
  getMostItems: () => MAX_DOCUMENTS,
  buildRequest,
  parseAnswer,
  readFailure,
}

/** The most documents of one request, whoever made the model. */
const MAX_DOCUMENTS = 1_000

/** The version of Cohere's body, which Amazon's own models do not have. */
const COHERE_API_VERSION = 2

function buildRequest(call: RerankCall, { upstreamModel }: Endpoint): UpstreamRequest {
  const version = upstreamModel.includes('cohere.') ? { api_version: COHERE_API_VERSION } : {}
  return {
    path: `/model/${encodeURIComponent(upstreamModel)}/invoke`,
    body: { ...buildBody(call), ...version },
  }
}

// The agent runtime's operation of the same name has its scores in camel case.
function parseAnswer(body: unknown, call: RerankCall): RerankPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  return toRerankParts(call, {
    rankings: readObjects(body.results).map(result => ({
      index: result.index,
      relevance_score: result.relevance_score ?? result.relevanceScore,
    })),
    usage: readAnyUsage(body),
  })
}
