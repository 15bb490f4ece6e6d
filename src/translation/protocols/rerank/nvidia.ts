import { isObject, readObjects } from '../../../base/json.ts'
import type { RerankCall, RerankPart } from '../../../language/rerank.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure } from '../openai-chat/failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { readAnyUsage, readTexts, rerankDefaults, toRerankParts } from '../rerank.ts'

/** Models that answer are elsewhere. */
const hosts = { 'integrate.api.nvidia.com': 'ai.api.nvidia.com' }

/**
 * NVIDIA's retrieval: `POST {base_url}/retrieval/{model}/reranking` at https://ai.api.nvidia.com/v1.
 * Scores are logits (https://docs.api.nvidia.com/nim/reference/retrieval-apis).
 */
export const nvidiaRerank: Protocol<'rerank'> = {
  ...rerankDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: RerankCall, { upstreamModel: model }: Endpoint): UpstreamRequest {
  return {
    hosts,
    // A model's path has underscores where its name has dots: nvidia/llama-3_2-nv-rerankqa-1b-v2.
    path: `/retrieval/${encodeURI(model.replaceAll('.', '_'))}/reranking`,
    body: {
      ...call.extra,
      model,
      query: { text: call.query },
      passages: readTexts(call).map(text => ({ text })),
    },
  }
}

function parseAnswer(body: unknown, call: RerankCall): RerankPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  return toRerankParts(call, {
    rankings: readObjects(body.rankings).map(({ index, logit }) => ({
      index,
      relevance_score: logit,
    })),
    usage: readAnyUsage(body),
  })
}
