/** The ways into the gateway that guardrails tell apart (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const
export type Region = (typeof REGIONS)[number]

/**
 * The region that a request came in by, as its `Host` header says; whatever the config does not name is global. Headers that a client
 * may add behind a proxy's back (`X-Forwarded-Host`) say nothing here.
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

// A name in DNS may end with a dot, and knows no case.
const plain = (host: string) => host.toLowerCase().replace(/\.(?=(:\d+)?$)/, '')
