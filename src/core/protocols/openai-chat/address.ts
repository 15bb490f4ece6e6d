import type { Endpoint } from '../../catalog/models.ts'

/** Where an operation is. Azure's dated API names the model in the path, where its deployment is. */
export function pathOf({ upstreamModel, provider: { quirks } }: Endpoint, operation: '/chat/completions' | '/embeddings'): string {
  if (quirks.api_version === null) return operation
  return `/deployments/${encodeURIComponent(upstreamModel)}${operation}?api-version=${encodeURIComponent(quirks.api_version)}`
}
