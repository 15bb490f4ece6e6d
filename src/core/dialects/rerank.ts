import type { Dialect } from './dialect.ts'
import { toRerankCall } from './rerank/request.ts'
import { collectRerankResponse } from './rerank/response.ts'
import { RerankRequest } from './rerank/schema.ts'

/** The rerank API: documents by their relevance to a query (specification E4, reference B.3). */
export const rerank: Dialect<'rerank', RerankRequest> = {
  name: 'rerank',
  kind: 'rerank',
  path: '/rerank',
  operation: { id: 'createRerank', tag: 'Rerank', summary: 'Sort documents by relevance' },
  body: RerankRequest,
  toCall: toRerankCall,
  collectResponse: collectRerankResponse,
}
