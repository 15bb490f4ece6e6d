/** The regions of incoming hostnames that guardrails distinguish (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const
export type Region = (typeof REGIONS)[number]

/**
 * Resolves the region of a request from its `Host` header. A host that the config does not name is
 * `global`. Headers that a client could forge behind a proxy (`X-Forwarded-Host`) are ignored.
 */
export function resolveRegion(
  { regions }: { regions: Partial<Record<Exclude<Region, 'global'>, string[]>> },
  host: string | null,
): Region {
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
