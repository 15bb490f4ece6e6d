import type { Provider } from '../catalog/providers.ts'
import type { UpstreamRequest } from '../protocols/protocol.ts'
import type { Outgoing } from './egress.ts'

/** The request with its address, the operator's headers and the credential. Nothing of the client's own headers goes along. */
export const authorize = (provider: Provider, request: UpstreamRequest): Outgoing => ({
  url: provider.base_url + request.path,
  headers: {
    'content-type': 'application/json',
    'user-agent': 'gateway',
    ...request.headers,
    ...provider.headers,
    ...(provider.api_key ? { authorization: `Bearer ${provider.api_key.reveal()}` } : {}),
  },
  body: request.body,
})
