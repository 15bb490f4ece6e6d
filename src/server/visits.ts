import type { Gateway } from '../app/gateway.ts'
import { findClientNetwork } from '../base/address-ranges.ts'
import type { FindRequestPeer } from './calls.ts'

/**
 * Counts a request without a key by the network that it came from, before anything else of it is
 * read. Throws 429 for one too many in a minute. What did not come over the network is not counted.
 */
export function countVisit(
  gateway: Gateway,
  request: Request,
  findPeer: FindRequestPeer,
): void | Promise<void> {
  const peer = findPeer(request)
  if (peer === null) return
  const { trusted_proxies } = gateway.config.server
  const forwarded = request.headers.get('x-forwarded-for')
  return gateway.traffic.counters.countVisit(findClientNetwork(trusted_proxies, peer, forwarded))
}
