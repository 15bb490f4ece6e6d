import type { Dialect } from './dialect.ts'
import { understand } from './embeddings/request.ts'
import { embeddingsResponse } from './embeddings/response.ts'
import { EmbeddingsRequest } from './embeddings/schema.ts'

/** The embeddings API: vectors of texts and of other content that models accept (reference B.3). */
export const embeddings: Dialect<'embedding', EmbeddingsRequest> = {
  name: 'embeddings',
  kind: 'embedding',
  path: '/embeddings',
  operation: { id: 'createEmbeddings', tag: 'Embeddings', summary: 'Turn texts into vectors' },
  body: EmbeddingsRequest,
  understand,
  whole: (answer, { params }) => embeddingsResponse(answer, params.encoding_format ?? 'float'),
}
