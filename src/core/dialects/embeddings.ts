export { understand } from './embeddings/request.ts'
export { embeddingsResponse } from './embeddings/response.ts'
export { EmbeddingsRequest } from './embeddings/schema.ts'
