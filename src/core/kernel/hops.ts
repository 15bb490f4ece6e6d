/** The header in which the number travels (RFC 8586). */
export const HOPS_HEADER = 'cdn-loop'

const HOPS = /^gateway;hops=([1-9])$/

/** Parses how many gateways a request has come through. 0 for no header, or another's. */
export const parseHops = (header: string | null): number =>
  Number(HOPS.exec(header ?? '')?.[1] ?? 0)

/** Renders the header of a request that has come through so many gateways, up to nine. */
export const renderHops = (hops: number): string => `gateway;hops=${hops}`
