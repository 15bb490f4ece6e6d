import { invalid } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { toPrintable } from '../core/kernel/printable.ts'
import type { Origin } from '../core/language/call.ts'
import { type FindPeer, resolveRegion } from '../core/language/region.ts'

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
  return {
    request_id: requestId,
    http_referer: readPrintable(headers, 'http-referer') ?? readPrintable(headers, 'referer'),
    title: readTitle(headers, config.service_name),
    user_agent: readPrintable(headers, 'user-agent'),
    region: resolveRegion(config, headers.get('host'), findPeer),
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
  const isWanted = (name: string) =>
    readMetadataLevel(headers, name)?.trim().toLowerCase() === 'enabled'
  const name = isWanted(service_name)
    ? service_name
    : METADATA_NAMES.find(other => other !== service_name && isWanted(other))
  return name === undefined ? undefined : `${name}_metadata`
}

const METADATA_NAMES = ['gateway', 'openrouter']

const readMetadataLevel = (headers: Headers, name: string): string | null =>
  headers.get(`x-${name}-metadata`) ?? headers.get(`x-${name}-experimental-metadata`)

/** Reads the session id from its header. One in the body takes precedence. */
export function readSessionId(request: Request): string | null {
  const session = request.headers.get('x-session-id')
  return session === null || session === '' || session.length > LONGEST_SESSION
    ? null
    : toPrintable(session)
}

function readPrintable(headers: Headers, name: string): string | null {
  const value = headers.get(name)
  return value === null || value === '' ? null : toPrintable(value.slice(0, LONGEST))
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

/**
 * Throws 400 for headers that ask for a cached answer, or for one to be cached: no answer is cached
 * yet (wire reference K.7). A cache may be switched off.
 */
export function refuseCacheHeaders(
  { headers }: Request,
  { config }: Pick<Gateway, 'config'>,
): void {
  for (const names of listCacheHeaders(config.service_name)) {
    const field = names.find(name => headers.has(name))
    if (
      field === undefined ||
      headers
        .get(names[0] ?? '')
        ?.trim()
        .toLowerCase() === 'false'
    )
      continue
    throw invalid(`${field}: expected nothing, as answers are not cached yet`, field)
  }
}

/** Lists the names of each service's headers about caches: first the one that switches it. */
function listCacheHeaders(service: string): string[][] {
  const known = cacheHeaders.get(service)
  if (known) return known
  const names = [...new Set([...METADATA_NAMES, service])].map(name =>
    ['cache', 'cache-ttl', 'cache-clear'].map(end => `x-${name}-${end}`),
  )
  cacheHeaders.set(service, names)
  return names
}

/** By the name that the config gives the service. */
const cacheHeaders = new Map<string, string[][]>()
