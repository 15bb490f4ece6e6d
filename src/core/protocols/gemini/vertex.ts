import type { Endpoint } from '../../catalog/models.ts'

/** Whether the endpoint is one of Vertex, which differs from the Gemini API in small things. */
export const isVertex = ({ provider }: Endpoint): boolean => provider.base_url.endsWith('/publishers/google')
