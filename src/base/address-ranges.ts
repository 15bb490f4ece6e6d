/** Whether a text is an IP address, or a range of them: `10.0.0.0/8`. */
export const isAddressRange = (text: string): boolean => parseRange(text) !== undefined

/**
 * Whether an address is in one of these ranges. An IPv4 address is the same when a socket for both
 * families shows it as IPv6 (`::ffff:10.0.0.1`).
 */
export function includesAddress(ranges: string[], text: string): boolean {
  const address = parseAddress(text.replace(/%.*$/s, ''))
  return address !== undefined && ranges.some(range => isWithin(address, parseRange(range)))
}

/**
 * Returns the network of the client behind trusted proxies: an IPv4 address, or the first 64 bits of
 * an IPv6 address, of which one client has as many as it likes. Each proxy adds whom it heard to the
 * end of `X-Forwarded-For`, so what a client writes there itself stands before that.
 */
export function findClientNetwork(
  trusted: string[],
  peer: string,
  forwarded: string | null,
): string {
  const hops = forwarded?.split(',') ?? []
  let client = parseHop(peer)
  while (client !== undefined && hops.length > 0 && isTrusted(trusted, client)) {
    const hop = parseHop(hops.pop() ?? '')
    if (hop === undefined) break
    client = hop
  }
  return client === undefined ? peer : describeNetwork(client)
}

const isTrusted = (trusted: string[], address: bigint): boolean =>
  trusted.some(range => isWithin(address, parseRange(range)))

// Some proxies add the port: `192.0.2.1:443`, `[2001:db8::1]:443`.
const parseHop = (text: string): bigint | undefined => {
  const hop = text.trim().replace(/^\[(.*)\](:\d+)?$/, '$1')
  return parseAddress(hop.replace(/%.*$/s, '').replace(/^([\d.]+):\d+$/, '$1'))
}

const describeNetwork = (address: bigint): string =>
  address >> 32n === 0xffffn ? `v4 ${address}` : `v6 ${address >> 64n}`

const isWithin = (address: bigint, range: AddressRange | undefined) =>
  range !== undefined && address >> range.free === range.first >> range.free

/** A range: its first address or another one, and how many of the last bits may differ from it. */
interface AddressRange {
  first: bigint
  free: bigint
}

function parseRange(text: string): AddressRange | undefined {
  const [address = '', bits, ...rest] = text.split('/')
  const first = parseAddress(address)
  const width = address.includes(':') ? 128 : 32
  if (first === undefined || rest.length > 0) return undefined
  if (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= width)) return undefined
  return { first, free: BigInt(width - Number(bits ?? width)) }
}

/** Returns an address as a number of 128 bits. IPv4 addresses are mapped (RFC 4291, 2.5.5.2). */
const parseAddress = (text: string): bigint | undefined =>
  text.includes(':') ? parseIpv6(text) : parseIpv4(text)

const MAPPED = 0xffffn << 32n
const BYTE = /^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$/

function parseIpv4(text: string): bigint | undefined {
  const bytes = text.split('.')
  if (bytes.length !== 4 || !bytes.every(byte => BYTE.test(byte))) return undefined
  return bytes.reduce((number, byte) => number * 256n + BigInt(byte), 0n) + MAPPED
}

// The URL parser knows every form of an address, and leaves only groups and one gap.
function parseIpv6(text: string): bigint | undefined {
  const host = /^[0-9a-f:.]+$/i.test(text) ? URL.parse(`http://[${text}]/`)?.hostname : undefined
  if (host === undefined) return undefined
  const [head = [], tail = []] = host
    .slice(1, -1)
    .split('::')
    .map(groups => (groups === '' ? [] : groups.split(':')))
  const gap = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  return [...head, ...gap, ...tail].reduce(
    (number, group) => number * 65536n + BigInt(`0x${group}`),
    0n,
  )
}
