import { type GatewayError, invalid } from '../errors.ts'
import type { UpstreamWorld } from './world.ts'

/** A URL that may be fetched, and the address that was found good: to connect to anything else would be to ask again. */
export interface CheckedUrl {
  url: string
  address: string
}

const LONGEST_URL = 8192

/**
 * A URL that somebody else named, checked before we call it: http or https, without credentials in it, and of a public host,
 * unless `security.allow_private_urls` lists that one. `base` is where a redirect came from. Throws `invalid_request` naming
 * `field`; a host that is private and one that does not exist are one to the caller, who could map the network otherwise.
 */
export async function checkUntrustedUrl(
  gateway: UpstreamWorld,
  given: string,
  field?: string,
  base?: string,
): Promise<CheckedUrl> {
  const url = given.length <= LONGEST_URL ? URL.parse(given, base) : null
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw refused('an http or https URL', field)
  if (url.username !== '' || url.password !== '') throw refused('a URL without credentials', field)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = await addressesOf(gateway, host)
  const [address] = addresses
  if (address === undefined || !(isAllowed(gateway, url) || addresses.every(isPublic)))
    throw refused('the URL of a public host', field)
  return { url: url.href, address }
}

const refused = (expected: string, field?: string): GatewayError =>
  invalid(`${field ?? 'The URL'}: expected ${expected}`, field)

// A host that is an address is its own answer. The URL parser has written it the usual way, however it was given.
async function addressesOf(gateway: UpstreamWorld, host: string): Promise<string[]> {
  if (host.includes(':') || IPV4.test(host)) return [host]
  return gateway.egress.resolve(host).catch(() => [])
}

const isAllowed = ({ config }: UpstreamWorld, { hostname, host }: URL) =>
  config.security.allow_private_urls.some(allowed =>
    [hostname, host].includes(allowed.toLowerCase()),
  )

/** Whether an address is one that anybody may reach: what is not known to be, is not. */
export function isPublic(address: string): boolean {
  return address.includes(':') ? isPublicIpv6(address) : IPV4.test(address) && isPublicIpv4(address)
}

const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`)

/** What is not global of IPv4 (IANA's registry of special-purpose addresses), and a cloud's own service at a public address. */
const PRIVATE_IPV4 = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8',
  '100.64.0.0/10', // between a carrier and its customers
  '127.0.0.0/8', // this machine
  '168.63.129.16/32', // Azure's service for its machines
  '169.254.0.0/16', // this link, and the metadata of most clouds
  '172.16.0.0/12',
  '192.0.0.0/24', // protocols
  '192.0.2.0/24', // examples
  '192.88.99.0/24', // 6to4
  '192.168.0.0/16',
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // examples
  '203.0.113.0/24', // examples
  '224.0.0.0/4', // to many
  '240.0.0.0/4', // reserved, and to all
].map(rangeOf)

interface Range {
  first: number
  size: number
}

function rangeOf(range: string): Range {
  const [address = '', bits = ''] = range.split('/')
  return { first: numberOf(address), size: 2 ** (32 - Number(bits)) }
}

function numberOf(address: string): number {
  return address.split('.').reduce((number, byte) => number * 256 + Number(byte), 0)
}

function isPublicIpv4(address: string): boolean {
  const number = numberOf(address)
  return !PRIVATE_IPV4.some(({ first, size }) => number >= first && number < first + size)
}

/**
 * Of IPv6 only 2000::/3 is global. All that holds an IPv4 address in a lower range (mapped, compatible, NAT64), is of this
 * machine, link or site, or goes to many, lies outside of it; within it, 6to4 and the ranges of protocols are left out.
 */
function isPublicIpv6(address: string): boolean {
  const [first = 0, second = 0] = address
    .split(':', 2)
    .map(group => Number.parseInt(group || '0', 16))
  if (!/^[0-9a-f:]+$/i.test(address) || first < 0x2000 || first > 0x3fff) return false
  if (first === 0x2001) return second >= 0x200 && second !== 0xdb8
  return first !== 0x2002 && !(first === 0x3fff && second < 0x1000)
}
