/** The header in which the number travels (RFC 8586): a list, to which others may add themselves. */
export const HOPS_HEADER = 'cdn-loop'

const HOPS = /^ *gateway;hops=(\d+) *$/

/** Parses how many gateways a request has come through: the most that a member says, or 0. */
export function parseHops(header: string | null): number {
  if (header === null) return 0
  const members = header.split(',').map(member => Number(HOPS.exec(member)?.[1] ?? 0))
  return Math.max(...members)
}

/** Renders the header of a request that has come through so many gateways. */
export const renderHops = (hops: number): string => `gateway;hops=${hops}`
