import { isDataUrl, parseDataUrl } from '../../../base/data-url.ts'
import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import type { RerankCall, RerankDocument, RerankPart } from '../../../language/rerank.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import { applyParameterQuirks, buildPath } from '../openai-chat/request.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { countResults, readAnyUsage, readTexts, rerankDefaults, toRerankParts } from '../rerank.ts'

/** How the servers differ that have Jina's form of rerank. */
interface Server {
  /** The parameter for the number of results. */
  top_n: 'top_n' | 'top_k'
  renderDocuments(call: RerankCall): unknown[]
  /** What the server has to be told so that it does not send the documents back. */
  options?: Json
  /** The most documents of one request, where its server has a bound. */
  most?: number
}

/** Creates a protocol for `POST {base_url}/rerank` at OpenAI-compatible servers. */
const createRerank = (server: Server): Protocol<'rerank'> => ({
  ...rerankDefaults,
  urlMedia: ['image'],
  getMostItems: () => server.most ?? Number.POSITIVE_INFINITY,
  buildRequest: (call, endpoint) => buildRequest(call, endpoint, server),
  parseAnswer,
  readFailure,
})

/** Together, Fireworks, vLLM, llama.cpp and others: https://docs.together.ai/reference/rerank */
export const openaiRerank = createRerank({ top_n: 'top_n', renderDocuments: readTexts })

/** https://docs.voyageai.com/reference/reranker-api */
export const voyageRerank = createRerank({
  top_n: 'top_k',
  renderDocuments: readTexts,
  most: 1_000,
})

/** https://api.jina.ai/redoc#tag/rerank */
export const jinaRerank = createRerank({
  top_n: 'top_n',
  renderDocuments: ({ documents }) => documents.map(renderDocument),
  options: { return_documents: false },
})

// Jina takes base64 as it is, without the head of a data URL.
function renderDocument({ text, image }: RerankDocument): unknown {
  if (image === undefined) return text ?? ''
  const picture = { image: isDataUrl(image) ? parseDataUrl(image, 'documents').data : image }
  return text === undefined ? picture : { text, ...picture }
}

/**
 * Builds the request. Unknown parameters come first, so that none of them can replace a known one.
 */
function buildRequest(call: RerankCall, endpoint: Endpoint, server: Server): UpstreamRequest {
  const body = {
    ...server.options,
    ...call.extra,
    model: endpoint.upstreamModel,
    query: call.query,
    documents: server.renderDocuments(call),
    [server.top_n]: countResults(call),
  }
  return {
    path: buildPath(endpoint, '/rerank'),
    body: applyParameterQuirks(body, endpoint.provider.quirks),
  }
}

// Most servers have Jina's names, Voyage and Fireworks OpenAI's for a list, and some have neither.
function parseAnswer(body: unknown, call: RerankCall): RerankPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (body.error) throw readStreamFailure(body.error)
  return toRerankParts(call, {
    upstream_id: readString(body.id),
    rankings: readObjects(body.results ?? body.data).map(result => ({
      index: result.index,
      relevance_score: result.relevance_score ?? result.score,
    })),
    usage: readAnyUsage(body),
  })
}
