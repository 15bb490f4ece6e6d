import type { Provider } from '../catalog/providers.ts'
import type { UpstreamRequest } from '../protocols/protocol.ts'
import type { Outgoing } from './egress.ts'

/** The request with its address, the operator's headers and the credential. Nothing of the client's own headers goes along. */
export function authorize(provider: Provider, request: UpstreamRequest): Outgoing {
  const headers: Record<string, string> = { 'content-type': 'application/json', 'user-agent': 'gateway' }
  if (request.headers) Object.assign(headers, request.headers)
  for (const name in provider.headers) headers[name] = provider.headers[name] ?? ''
  if (provider.api_key) headers.authorization = `Bearer ${provider.api_key.reveal()}`
  return { url: provider.base_url + request.path, headers, body: request.body }
}
