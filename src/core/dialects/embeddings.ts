import type { Dialect } from './dialect.ts'
import { toEmbeddingCall } from './embeddings/request.ts'
import { collectEmbeddingsResponse } from './embeddings/response.ts'
import { EmbeddingsRequest } from './embeddings/schema.ts'

/** The embeddings API: vectors of texts and of other content that models accept (reference B.3). */
export const embeddings: Dialect<'embedding', EmbeddingsRequest> = {
  name: 'embeddings',
  kind: 'embedding',
  path: '/embeddings',
  operation: { id: 'createEmbeddings', tag: 'Embeddings', summary: 'Turn texts into vectors' },
  body: EmbeddingsRequest,
  toCall: toEmbeddingCall,
  collectResponse: (answer, { params }) =>
    collectEmbeddingsResponse(answer, params.encoding_format ?? 'float'),
}
