import type { Gateway } from '../app/gateway.ts'
import { includesAddress } from '../base/address-ranges.ts'
import { invalid } from '../base/errors.ts'
import { PLAIN_TEXT, toPrintable } from '../base/printable.ts'
import { parseTraceparent } from '../base/traceparent.ts'
import { HOPS_HEADER, parseHops } from '../engine/attempt.ts'
import { type Origin, REGIONS, type Region } from '../language/call.ts'
import { getPolicy } from '../limits/effective.ts'
import type { DescribedRate } from '../limits/rates.ts'
import type { Actor } from '../resources/actor.ts'

/** Reads the client's request id. Returns the fallback if there is none or it is malformed. */
export function readRequestId(request: Request, fallback: string): string {
  const id = request.headers.get('x-request-id')
  return id !== null && /^[\w.:-]{1,128}$/.test(id) ? id : fallback
}

const LONGEST = 512
const LONGEST_SESSION = 256

/**
 * Reads a call's origin from its headers: the app's site and title under each of their names, and
 * the client's own name.
 */
export function readOrigin(
  { headers }: Request,
  requestId: string,
  { config }: Gateway,
  findPeer: FindPeer,
): Origin {
  const tags = headers.get('x-gateway-tags')
  const traceparent = headers.get('traceparent')
  const hops = headers.get(HOPS_HEADER)
  return {
    request_id: requestId,
    http_referer: readPrintable(headers, 'http-referer') ?? readPrintable(headers, 'referer'),
    title: readTitle(headers, config.service_name),
    user_agent: readPrintable(headers, 'user-agent'),
    region: resolveRegion(config, headers.get('host'), findPeer),
    traceContext: traceparent === null ? null : parseTraceparent(traceparent),
    hops: hops === null ? 0 : parseHops(hops),
    ...(tags === null ? {} : { tags }),
  }
}

function readTitle(headers: Headers, service: string): string | null {
  const own = service === 'gateway' ? null : readPrintable(headers, `x-${service}-title`)
  return (
    own ??
    readPrintable(headers, 'x-gateway-title') ??
    readPrintable(headers, 'x-openrouter-title') ??
    readPrintable(headers, 'x-title')
  )
}

/**
 * Reads under which field a request wants its routing metadata: `gateway_metadata` for
 * `X-Gateway-Metadata: enabled`. The service's own name precedes the general ones, and a header
 * precedes its legacy form. Any other value requests nothing.
 */
export function readRoutingMetadataName(
  { headers }: Request,
  { config: { service_name } }: Gateway,
): string | undefined {
  for (const { header, legacy, field } of listMetadataHeaders(service_name)) {
    const level = headers.get(header) ?? headers.get(legacy)
    if (level?.trim().toLowerCase() === 'enabled') return field
  }
}

const METADATA_NAMES = ['gateway', 'openrouter']

/** A header that asks for routing metadata, its legacy form, and the field of the answer. */
interface MetadataHeader {
  header: string
  legacy: string
  field: string
}

/** Lists the headers that ask for routing metadata: first those with the service's own name. */
const listMetadataHeaders = memoizeByName((service): MetadataHeader[] =>
  [...new Set([service, ...METADATA_NAMES])].map(name => ({
    header: `x-${name}-metadata`,
    legacy: `x-${name}-experimental-metadata`,
    field: `${name}_metadata`,
  })),
)

/** Reads the session id from its header. One in the body takes precedence. */
export function readSessionId(request: Request): string | null {
  const session = request.headers.get('x-session-id')
  return session === null || session === '' || session.length > LONGEST_SESSION
    ? null
    : toPrintable(session)
}

function readPrintable(headers: Headers, name: string): string | null {
  const value = headers.get(name)
  if (value === null || value === '') return null
  const text = value.slice(0, LONGEST)
  return PLAIN_TEXT.test(text) ? text : toPrintable(text)
}

/**
 * Reads the beta features of Anthropic's API that a client requests, from the header under either
 * of its names (wire reference C.7 and M).
 */
export function readBetas({ headers }: Request): string[] {
  const [own, usual] = [headers.get('x-anthropic-beta'), headers.get('anthropic-beta')]
  if (own === null && usual === null) return []
  return `${own ?? ''},${usual ?? ''}`
    .split(',')
    .map(name => name.trim())
    .filter(name => /^[A-Za-z0-9-]{1,64}$/.test(name))
}

/** What the headers of a call say about the cache of answers (wire reference K.7). */
export interface CacheHeaders {
  /** Null if they do not say. */
  enabled: boolean | null
  /** In seconds. */
  ttl: number | null
  clears: boolean
  /** What the names of the answer's headers begin with. */
  prefix: string
}

const [SHORTEST_TTL, LONGEST_TTL] = [1, 86_400]

/**
 * Reads the headers about the cache of answers, under the name of any service. Throws 400 for a
 * value that means nothing.
 */
export function readCacheHeaders(
  { headers }: Request,
  { config }: Pick<Gateway, 'config'>,
): CacheHeaders | null {
  let names: string[] | undefined
  for (const some of listCacheHeaders(config.service_name))
    for (const name of some) if (headers.has(name)) names ??= some
  if (!names) return null
  const [enabled = '', ttl = '', clear = ''] = names
  return {
    enabled: readSwitch(headers, enabled),
    ttl: readTtl(headers, ttl),
    clears: readSwitch(headers, clear) === true,
    prefix: enabled,
  }
}

function readSwitch(headers: Headers, name: string): boolean | null {
  const value = headers.get(name)?.trim().toLowerCase()
  if (value === undefined) return null
  if (value !== 'true' && value !== 'false') throw invalid(`${name}: expected true or false`, name)
  return value === 'true'
}

// Leading digits count, and the rest does not.
function readTtl(headers: Headers, name: string): number | null {
  const value = headers.get(name)?.trim()
  if (value === undefined) return null
  const [digits] = /^\d+/.exec(value) ?? []
  if (digits === undefined) throw invalid(`${name}: expected a number of seconds`, name)
  return Math.min(Math.max(Number(digits), SHORTEST_TTL), LONGEST_TTL)
}

/** Lists the names of each service's headers about caches: first the one that switches it. */
const listCacheHeaders = memoizeByName((service): string[][] =>
  [...new Set([...METADATA_NAMES, service])].map(name =>
    ['cache', 'cache-ttl', 'cache-clear'].map(end => `x-${name}-${end}`),
  ),
)

/** Remembers what is computed of a service's name: few configs give it another one. */
function memoizeByName<T>(compute: (service: string) => T): (service: string) => T {
  const known = new Map<string, T>()
  return service => {
    const found = known.get(service) ?? compute(service)
    known.set(service, found)
    return found
  }
}

/** The most characters of that header. */
const MOST_IGNORED = 1_024

/** What was changed of a call for the endpoint that has answered it. */
interface Changes {
  ignored?: string[]
  maxTokens?: number
}

/**
 * Renders the headers that say how a call was changed: `x-gateway-ignored` names the parameters and
 * tools that were left out, as the model has none of them, and `x-gateway-max-tokens` says to what a
 * limit has shortened the answer. In the form of the request's own headers.
 */
export function renderChanges(
  { config: { service_name } }: Gateway,
  { headers }: Request,
  { ignored, maxTokens }: Changes,
): Record<string, string> {
  const isPublic = [...headers.keys()].some(name => name.startsWith('x-openrouter-'))
  const prefix = `x-${isPublic ? 'openrouter' : service_name}`
  return {
    ...(ignored ? { [`${prefix}-ignored`]: renderNames(ignored) } : {}),
    ...(maxTokens === undefined ? {} : { [`${prefix}-max-tokens`]: String(maxTokens) }),
  }
}

/** Renders what is left of the rates of an actor, as their guardrails have them. */
export function renderRates(gateway: Gateway, actor: Actor): Record<string, string> {
  const { rates } = getPolicy(gateway, actor)
  if (!rates) return {}
  const { counters } = gateway.traffic
  return renderNearest(counters.rates.describe(rates), counters.clock.now().getTime())
}

/**
 * Renders headers that say where a call stands in the nearest limit of its requests and of its
 * tokens, under the names that OpenAI’s clients know. A reset is in seconds from now.
 */
function renderNearest(described: DescribedRate[], now: number): Record<string, string> {
  const kinds = [
    ['requests', 'requests_per_minute'],
    ['tokens', 'tokens_per_minute'],
  ] as const
  const headers: Record<string, string> = {}
  for (const [kind, field] of kinds) {
    const states = described.flatMap(rate => rate[field] ?? [])
    const nearest = states.sort((a, b) => a.remaining - b.remaining)[0]
    if (!nearest) continue
    headers[`x-ratelimit-limit-${kind}`] = String(nearest.limit)
    headers[`x-ratelimit-remaining-${kind}`] = String(nearest.remaining)
    headers[`x-ratelimit-reset-${kind}`] = `${Math.ceil(((nearest.reset ?? now) - now) / 1000)}s`
  }
  return headers
}

function renderNames(ignored: string[]): string {
  const names: string[] = []
  let length = 0
  for (const name of ignored) {
    length += name.length + 2
    if (length > MOST_IGNORED - MORE.length) {
      names.push(MORE)
      break
    }
    names.push(name)
  }
  return names.join(', ')
}

const MORE = '...'

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

/** Reads the path of a request, whatever its Host is: `/api/v1/keys`. */
export const readPath = ({ url }: Request): string => TARGET.exec(url)?.[1] ?? ''

/** Reads the parameters of a request's query, whatever its Host is. */
export const readSearchParams = ({ url }: Request): URLSearchParams =>
  new URLSearchParams(TARGET.exec(url)?.[2] ?? '')

// Not `new URL`, which throws at a Host that is no host of a URL, such as `a:99999`.
const TARGET = /^(?:[a-z]+:\/\/[^/?#]*)?([^?#]*)(?:\?([^#]*))?/
