import { type GatewayError, invalid } from '../base/errors.ts'
import type { UpstreamWorld } from './world.ts'

/** A URL that may be fetched, and the checked address. A connection must use that address. */
export interface CheckedUrl {
  url: string
  address: string
}

const LONGEST_URL = 8192

/**
 * Checks a URL that a caller named, before it is called: http or https, without credentials, at
 * port 80 or 443 unless `security.allow_url_ports` has it, and of a public host unless
 * `security.allow_private_urls` lists it. `base` is the URL that redirected here. Throws
 * `invalid_request` naming `field`. A private host and one that does not exist give the same error,
 * as callers could map the network otherwise.
 */
export async function checkUntrustedUrl(
  world: UpstreamWorld,
  namedUrl: string,
  field?: string,
  base?: string,
): Promise<CheckedUrl> {
  const url = parseUntrustedUrl(world, namedUrl, field, base)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = await resolveAddresses(world, host)
  const [address] = addresses
  if (address === undefined || !(isNamedPrivate(world, url) || addresses.every(isPublicAddress)))
    throw urlRefusal('the URL of a public host', field)
  return { url: url.href, address }
}

/**
 * Parses a URL that a caller named and checks what can be known without a lookup: its protocol, its
 * port, and that it has no credentials. Throws as `checkUntrustedUrl` does.
 */
export function parseUntrustedUrl(
  world: Pick<UpstreamWorld, 'config'>,
  namedUrl: string,
  field?: string,
  base?: string,
): URL {
  const url = namedUrl.length <= LONGEST_URL ? URL.parse(namedUrl, base) : null
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw urlRefusal('an http or https URL', field)
  if (url.username !== '' || url.password !== '')
    throw urlRefusal('a URL without credentials', field)
  if (!isAllowedPort(world, url)) throw urlRefusal('a URL at port 80 or 443', field)
  return url
}

/**
 * Throws 400 naming `field` if the URL itself says that its host is in a private network: by an
 * address, or as `localhost`. A provider that fetches it could only look into its own. Nothing is
 * looked up, so other hosts pass.
 */
export function refusePrivateHost(
  world: Pick<UpstreamWorld, 'config'>,
  namedUrl: string,
  field?: string,
): void {
  if (!/^https?:/i.test(namedUrl)) return
  const url = namedUrl.length <= LONGEST_URL ? URL.parse(namedUrl) : null
  if (url === null || !isPrivateName(url) || isNamedPrivate(world, url)) return
  throw urlRefusal('the URL of a public host', field)
}

function isPrivateName({ hostname }: URL): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  if (/(^|\.)localhost\.?$/.test(host)) return true
  return (host.includes(':') || IPV4.test(host)) && !isPublicAddress(host)
}

const urlRefusal = (expected: string, field?: string): GatewayError =>
  invalid(`${field ?? 'The URL'}: expected ${expected}`, field)

// A host may be an address already. The URL parser has normalized it, however it was written.
async function resolveAddresses(world: UpstreamWorld, host: string): Promise<string[]> {
  if (host.includes(':') || IPV4.test(host)) return [host]
  return world.egress.resolve(host).catch(() => [])
}

/** Tells whether the operator lists this host among the private ones that callers may name. */
export const isNamedPrivate = ({ config }: Pick<UpstreamWorld, 'config'>, url: URL) =>
  config.security.allow_private_urls.some(allowed =>
    [url.hostname, `${url.hostname}:${getPort(url)}`].includes(allowed.toLowerCase()),
  )

// Other ports are those of databases, consoles and agents, also at public hosts.
const WEB_PORTS = [80, 443]

function isAllowedPort({ config }: Pick<UpstreamWorld, 'config'>, url: URL): boolean {
  const { allow_private_urls, allow_url_ports } = config.security
  const port = getPort(url)
  if (WEB_PORTS.includes(port) || allow_url_ports.includes(port)) return true
  return allow_private_urls.some(allowed => allowed.toLowerCase() === `${url.hostname}:${port}`)
}

const getPort = ({ port, protocol }: URL): number =>
  Number(port || (protocol === 'https:' ? 443 : 80))

/** Returns whether an address is public. Anything that is not known to be public is not. */
export function isPublicAddress(address: string): boolean {
  return address.includes(':') ? isPublicIpv6(address) : IPV4.test(address) && isPublicIpv4(address)
}

const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`)

/**
 * The IPv4 ranges that are not global (IANA's registry of special-purpose addresses), and a cloud's
 * internal service at a public address.
 */
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
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
].map(parseRange)

interface AddressRange {
  first: number
  size: number
}

function parseRange(range: string): AddressRange {
  const [address = '', bits = ''] = range.split('/')
  return { first: toNumber(address), size: 2 ** (32 - Number(bits)) }
}

function toNumber(address: string): number {
  return address.split('.').reduce((number, byte) => number * 256 + Number(byte), 0)
}

function isPublicIpv4(address: string): boolean {
  const number = toNumber(address)
  return !PRIVATE_IPV4.some(({ first, size }) => number >= first && number < first + size)
}

/**
 * Returns whether an IPv6 address is global: only 2000::/3 is, without 6to4 and the ranges of
 * protocols. Embedded IPv4 addresses (mapped, compatible, NAT64), local addresses and multicast lie
 * outside of it.
 */
function isPublicIpv6(address: string): boolean {
  const [first = 0, second = 0] = address
    .split(':', 2)
    .map(group => Number.parseInt(group || '0', 16))
  if (!/^[0-9a-f:]+$/i.test(address) || first < 0x2000 || first > 0x3fff) return false
  if (first === 0x2001) return second >= 0x200 && second !== 0xdb8
  return first !== 0x2002 && !(first === 0x3fff && second < 0x1000)
}
