import { includesAddress } from '../base/address-ranges.ts'

/** The regions of incoming hostnames that guardrails distinguish (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const
export type Region = (typeof REGIONS)[number]

/** The settings that decide regions. */
interface RegionSettings {
  regions: Partial<Record<Exclude<Region, 'global'>, string[]>>
  server: { trusted_proxies: string[] }
}

/**
 * Resolves the region of a request from its `Host` header, if the peer that sent it is a trusted
 * proxy: others may write any Host. A host that the config does not name is `global`. Headers that
 * a client could forge behind a proxy (`X-Forwarded-Host`) are ignored.
 */
export function resolveRegion(
  { regions, server }: RegionSettings,
  host: string | null,
  findPeer: FindPeer,
): Region {
  if (!hasNames(regions)) return 'global'
  const region = findRegion(regions, host)
  const peer = region === 'global' ? null : findPeer()
  return peer !== null && includesAddress(server.trusted_proxies, peer) ? region : 'global'
}

/** Returns the address that a request was sent from; null if it did not come over the network. */
export type FindPeer = () => string | null

// Most configs name none.
function hasNames(regions: RegionSettings['regions']): boolean {
  for (const _ in regions) return true
  return false
}

function findRegion(regions: RegionSettings['regions'], host: string | null): Region {
  const requested = normalizeHost(host ?? '')
  const matchesHost = (hostname: string) =>
    normalizeHost(hostname) === requested || normalizeHost(hostname) === requested.replace(PORT, '')
  return (
    REGIONS.find(region => region !== 'global' && regions[region]?.some(matchesHost)) ?? 'global'
  )
}

const PORT = /:\d+$/

// DNS names are case-insensitive and may end with a dot.
const normalizeHost = (host: string) => host.toLowerCase().replace(/\.(?=(:\d+)?$)/, '')
