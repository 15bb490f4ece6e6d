import type { Gateway } from '../core/gateway.ts'
import { printable } from '../core/kernel/words.ts'
import type { Origin } from '../core/language/call.ts'
import { regionOf } from '../core/language/region.ts'

/** Reads the client's request id. Returns the fallback if there is none or it is malformed. */
export function requestIdOf(request: Request, fallback: string): string {
  const given = request.headers.get('x-request-id')
  return given !== null && /^[\w.:-]{1,128}$/.test(given) ? given : fallback
}

const LONGEST = 512
const LONGEST_SESSION = 256

/**
 * Reads a call's origin from its headers: the app's site and title under each of their names, and
 * the client's own name.
 */
export function originOf({ headers }: Request, requestId: string, { config }: Gateway): Origin {
  return {
    request_id: requestId,
    http_referer: shown(headers, 'http-referer') ?? shown(headers, 'referer'),
    title: titleIn(headers, config.service_name),
    user_agent: shown(headers, 'user-agent'),
    region: regionOf(config, headers.get('host')),
  }
}

function titleIn(headers: Headers, service: string): string | null {
  const own = service === 'gateway' ? null : shown(headers, `x-${service}-title`)
  return (
    own ??
    shown(headers, 'x-gateway-title') ??
    shown(headers, 'x-openrouter-title') ??
    shown(headers, 'x-title')
  )
}

/**
 * Reads under which field a request wants its routing metadata: `gateway_metadata` for
 * `X-Gateway-Metadata: enabled`. The service's own name precedes the general ones, and a header
 * precedes its legacy form. Any other value requests nothing.
 */
export function routingMetadataOf(
  { headers }: Request,
  { config: { service_name } }: Gateway,
): string | undefined {
  const isWanted = (name: string) => levelIn(headers, name)?.trim().toLowerCase() === 'enabled'
  const name = isWanted(service_name)
    ? service_name
    : NAMES.find(one => one !== service_name && isWanted(one))
  return name === undefined ? undefined : `${name}_metadata`
}

const NAMES = ['gateway', 'openrouter']

const levelIn = (headers: Headers, name: string): string | null =>
  headers.get(`x-${name}-metadata`) ?? headers.get(`x-${name}-experimental-metadata`)

/** Reads the session id from its header. One in the body takes precedence. */
export function sessionOf(request: Request): string | null {
  const session = request.headers.get('x-session-id')
  return session === null || session === '' || session.length > LONGEST_SESSION
    ? null
    : printable(session)
}

function shown(headers: Headers, name: string): string | null {
  const value = headers.get(name)
  return value === null || value === '' ? null : printable(value.slice(0, LONGEST))
}

/**
 * Reads the beta features of Anthropic's API that a client requests, from the header under either
 * of its names (wire reference C.7 and M).
 */
export function betasOf({ headers }: Request): string[] {
  const [own, usual] = [headers.get('x-anthropic-beta'), headers.get('anthropic-beta')]
  if (own === null && usual === null) return []
  return `${own ?? ''},${usual ?? ''}`
    .split(',')
    .map(name => name.trim())
    .filter(name => /^[A-Za-z0-9-]{1,64}$/.test(name))
}
