import type { Gateway } from '../core/gateway.ts'
import { readPath } from './request-target.ts'

/**
 * Which pages of other sites may read answers of the API (Fetch Standard, "CORS protocol"). Keys
 * travel in a header that a page sets itself, so credentials of the browser are never allowed.
 */
type CorsWorld = Pick<Gateway, 'config'>

/** What a page may read of an answer beside its body. */
const EXPOSED = [
  ...['x-request-id', 'x-generation-id', 'retry-after', 'idempotency-replayed'],
  ...['status', 'age', 'ttl', 'source-id'].flatMap(name => [
    `x-gateway-cache-${name}`,
    `x-openrouter-cache-${name}`,
  ]),
  ...['ignored', 'max-tokens'].flatMap(name => [`x-gateway-${name}`, `x-openrouter-${name}`]),
  ...['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
].join(', ')

/** In seconds: how long a browser remembers the answer to a preflight. Chromium takes no more. */
const REMEMBERED = 7_200

/**
 * Answers the preflight of a page that the config allows. Returns undefined for any other request.
 */
export function answerPreflight(world: CorsWorld, request: Request): Response | undefined {
  if (request.method !== 'OPTIONS') return undefined
  if (!request.headers.has('access-control-request-method')) return undefined
  if (findAllowedOrigin(world, request) === undefined) return undefined
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      ...toAllowedHeaders(request.headers.get('access-control-request-headers')),
      'access-control-max-age': String(REMEMBERED),
    },
  })
}

/** Adds what lets the page read the answer, if the config allows its origin. */
export function allowOrigin(world: CorsWorld, request: Request, response: Response): void {
  // Before the headers are read: to read them makes an object of them.
  if (world.config.server.cors.length === 0 || !isApi(request)) return
  const { headers } = response
  const origin = findAllowedOrigin(world, request)
  // A cache must not give one page the answer to another.
  if (origin !== '*') headers.append('vary', 'Origin')
  if (origin === undefined) return
  headers.set('access-control-allow-origin', origin)
  headers.set('access-control-expose-headers', `${EXPOSED}, x-${world.config.service_name}-ignored`)
}

function findAllowedOrigin({ config }: CorsWorld, request: Request): string | undefined {
  const { cors } = config.server
  const origin = request.headers.get('origin')
  if (origin === null || cors.length === 0 || !isApi(request)) return undefined
  if (cors.includes('*')) return '*'
  return cors.includes(origin) ? origin : undefined
}

// Clients send headers of their own making. What is no list of names is not repeated.
const toAllowedHeaders = (requested: string | null): Record<string, string> =>
  requested !== null && NAMES.test(requested) ? { 'access-control-allow-headers': requested } : {}

const NAMES = /^[a-z0-9_.-]{1,100}( ?, ?[a-z0-9_.-]{1,100}){0,63}$/i

// Health and metrics are for operators and their tools.
const isApi = (request: Request) => /^\/+(api\/)?v1\//.test(readPath(request))
