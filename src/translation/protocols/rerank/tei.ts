import { readObjects } from '../../../base/json.ts'
import type { RerankCall, RerankPart } from '../../../language/rerank.ts'
import { readFailure } from '../openai-chat/failure.ts'
import type { Protocol } from '../protocol.ts'
import { readTexts, rerankDefaults, toRerankParts } from '../rerank.ts'

/**
 * Hugging Face's Text Embeddings Inference: `POST {base_url}/rerank`, which always ranks all texts
 * and counts nothing (https://huggingface.github.io/text-embeddings-inference).
 */
export const teiRerank: Protocol<'rerank'> = {
  ...rerankDefaults,
  buildRequest: call => ({
    path: '/rerank',
    body: { ...call.extra, query: call.query, texts: readTexts(call) },
  }),
  parseAnswer,
  readFailure,
}

function parseAnswer(body: unknown, call: RerankCall): RerankPart[] {
  const rankings = readObjects(body).map(({ index, score }) => ({ index, relevance_score: score }))
  return toRerankParts(call, { rankings, usage: undefined })
}
