/** The regions of incoming hostnames that guardrails distinguish (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const
export type Region = (typeof REGIONS)[number]

/**
 * Resolves the region of a request from its `Host` header. A host that the config does not name is
 * `global`. Headers that a client could forge behind a proxy (`X-Forwarded-Host`) are ignored.
 */
export function regionOf(
  { regions }: { regions: Partial<Record<Exclude<Region, 'global'>, string[]>> },
  host: string | null,
): Region {
  const said = plain(host ?? '')
  const isSaid = (one: string) => plain(one) === said || plain(one) === said.replace(PORT, '')
  return REGIONS.find(region => region !== 'global' && regions[region]?.some(isSaid)) ?? 'global'
}

const PORT = /:\d+$/

// DNS names are case-insensitive and may end with a dot.
const plain = (host: string) => host.toLowerCase().replace(/\.(?=(:\d+)?$)/, '')
