import type { AnyElysia } from 'elysia'
import type { Gateway } from '../app/gateway.ts'
import { findLowestFree } from '../base/descriptors.ts'
import { GatewayError, notFound } from '../base/errors.ts'
import { LiveSet } from '../base/live-set.ts'
import { isLoopback } from '../base/machine.ts'
import { IPPROTO_TCP, openSocketCalls, SOL_SOCKET, type SocketCalls } from '../base/socket-calls.ts'
import { recognize } from '../resources/actor.ts'
import type { ErrorFormat } from '../translation/dialects/dialect.ts'
import { dialects } from '../translation/dialects/registry.ts'
import { type FindRequestPeer, refuseAtOnce, respond } from './calls.ts'
import {
  bindConnection,
  type Connection,
  type ConnectionWorld,
  Descriptors,
  findConnection,
  toServerSeconds,
} from './connections.ts'
import { buildDoorTable, enterByVersion, isBehindDoor } from './doors.ts'
import { createErrorResponse } from './errors.ts'
import { readPath, readRequestId } from './headers.ts'
import { findOriginal, IDEMPOTENCY_KEY, withIdempotency } from './idempotency.ts'
import { type GivenSocket, useSocket } from './listen/given-socket.ts'
import { listPaths, openOwnMetrics, type SharedPort } from './paths.ts'
import { renderHealth, renderReadiness } from './readiness.ts'
import { noteRefusal } from './refusals.ts'
import { buildTargetTable, refuseTarget } from './request-target.ts'

/**
 * Which pages of other sites may read answers of the API (Fetch Standard, "CORS protocol"). Keys
 * travel in a header that a page sets itself, so credentials of the browser are never allowed.
 */
type CorsWorld = Pick<Gateway, 'config'>

/** What a page may read of an answer beside its body. */
const EXPOSED = [
  ...['x-request-id', 'x-generation-id', 'retry-after', 'idempotency-replayed', 'mcp-session-id'],
  'etag',
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
function allowOrigin(world: CorsWorld, request: Request, response: Response): void {
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
const isApi = (request: Request) =>
  /^\/+(api\/)?v1\//.test(readPath(request)) || isBehindDoor(readPath(request))

/** A server that is running. */
export interface RunningServer {
  url: string
  /** The port that it listens on. */
  port: number
  /** How many requests are being answered. */
  readonly busy: number
  /** Closes the connections that are not in use. */
  closeIdle(): void
  /** Has every answer from now on end its connection: the next one is for another server. */
  turnAway(): void
  /** Accepts no more connections, gives running calls the drain time to end, then closes. */
  stop(drainMilliseconds: number): Promise<void>
}

declare module '../base/events.ts' {
  interface EventMap {
    /** Only a reserve of file descriptors is left: calls are refused, connections are closed. */
    'descriptors.scarce': object
    /** There are enough file descriptors again. */
    'descriptors.sufficient': object
  }
}

/**
 * Serves the API, on a given socket if there is one: host and port are its own then. On a shared
 * port the kernel spreads connections over those that listen. Throws when the port is taken.
 */
export function listen(
  gateway: Gateway,
  host: string,
  port: number,
  given: GivenSocket | null = null,
  shared: SharedPort | null = null,
): RunningServer {
  const address = `http://${host.includes(':') ? `[${host}]` : host}:`
  const findPeer = (request: Request) => server.requestIP(findOriginal(request))?.address ?? null
  const metrics = openOwnMetrics(gateway, shared)
  const answerProbe = createProbeAnswer(gateway)
  // Calls and probes need no app: it is created for the first other request.
  let app: Promise<AnyElysia> | undefined
  const openApp = async () => {
    const { createApp } = await import('./app.ts')
    return createApp(gateway, findPeer, metrics)
  }
  const answerRoute = async (request: Request) => {
    app ??= openApp()
    return (await app).fetch(request)
  }
  const handle = createDirectAnswer(
    gateway,
    findPeer,
    request => answerProbe(request) ?? answerRoute(request),
  )
  const handleOnce = withIdempotency(gateway, handle, findPeer)
  const descriptors = new Descriptors({
    onChange: isScarce =>
      gateway.events.publish(isScarce ? 'descriptors.scarce' : 'descriptors.sufficient', {}),
    countUnconnected: () => gateway.traffic.calls.countUnconnected(),
  })
  const world = createConnectionWorld(gateway, descriptors)
  const answer = async (request: Request, server: Bun.Server<undefined>) => {
    const connection = bindConnection(world, request, server)
    const response = isHost(request.headers.get('host'))
      ? (answerPreflight(gateway, request) ??
        (await (request.headers.has(IDEMPOTENCY_KEY) ? handleOnce : handle)(request)))
      : refuseHost(gateway, request)
    return endRequest(connection, gateway, request, response)
  }
  const refuse = async (request: Request, server: Bun.Server<undefined>) => {
    const connection = bindConnection(world, request, server)
    const response = isHost(request.headers.get('host'))
      ? await refusePath(gateway, request)
      : refuseHost(gateway, request)
    return endRequest(connection, gateway, request, response)
  }
  const server: Bun.Server<undefined> = Bun.serve({
    // Bun has no setting for a socket that is open: one of its own makes place for it.
    ...(given ? { hostname: '127.0.0.1', port: 0 } : { hostname: host, port }),
    development: false,
    // By default, Bun lets a second server of the same user listen on the port too, and the kernel
    // distributes connections among both.
    reusePort: shared !== null,
    idleTimeout: toServerSeconds(gateway.config.server.idle_seconds),
    // Bun's own refusal has no body. `body.ts` counts bytes itself and refuses with one.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    routes: {
      ...buildTargetTable(
        listPaths(metrics).filter(path => !isBehindDoor(path)),
        answer,
        refuse,
        request => enterByVersion(gateway, request),
      ),
      ...buildDoorTable(gateway, answer, refuse),
    },
    fetch: refuse,
    error: thrown => createErrorResponse(thrown, gateway.ids.uuid()),
  })
  if (given) useSocket(given, server)
  const bound = given?.socket.port ?? server.port ?? 0
  const watch = setInterval(createWatch(gateway, world, descriptors, server, bound), LOOK_INTERVAL)
  gateway.instance.isLocal = isLoopback(given?.socket.host ?? host)
  gateway.instance.isOneOfSeveral = shared !== null
  gateway.instance.siteUrl = gateway.config.server.site_url ?? address + bound
  return {
    url: address + bound,
    port: bound,
    get busy() {
      return world.busy.size
    },
    closeIdle: () => server.closeIdleConnections(),
    turnAway() {
      world.isTurningAway = true
    },
    async stop(drainMilliseconds) {
      clearInterval(watch)
      const closed = server.stop(false)
      await gateway.traffic.calls.drain(drainMilliseconds)
      await Promise.race([closed, Bun.sleep(CLOSE_GRACE)])
      await server.stop(true)
    },
  }
}

/**
 * Creates what answers calls under known keys as their routes would, without the framework: routing
 * and the objects of its context would cost each call a few microseconds. `answerOther` has all other
 * requests.
 */
function createDirectAnswer(
  gateway: Gateway,
  findPeer: FindRequestPeer,
  answerOther: (request: Request) => Response | Promise<Response>,
): (request: Request, generation?: string) => Response | Promise<Response> {
  const byPath = new Map(dialects.map(dialect => [`/api/v1${dialect.path}`, dialect]))
  return (request, generation) => {
    const dialect = request.method === 'POST' ? byPath.get(readPath(request)) : undefined
    const actor = dialect && recognize(gateway, request.headers.get('authorization'))
    if (!actor) return answerOther(request)
    const routeContext = { gateway, dialect, actor, request, findPeer, generation }
    return refuseAtOnce(routeContext) ?? respond(routeContext)
  }
}

/**
 * Creates the function that answers probes of health and readiness without the app: they are the
 * first requests of most servers, before there is one. Returns undefined for all other requests.
 */
export function createProbeAnswer(gateway: Gateway): (request: Request) => Response | undefined {
  const probes = new Map<string, (request: Request) => Response>([
    ['/health', () => renderHealth(gateway)],
    ['/healthz', () => renderHealth(gateway)],
    ['/ready', request => renderReadiness(gateway, findConnection(request))],
  ])
  return request =>
    request.method === 'GET' ? probes.get(readPath(request))?.(request) : undefined
}

const createConnectionWorld = (gateway: Gateway, descriptors: Descriptors) => ({
  gateway,
  traffic: gateway.traffic,
  descriptors,
  busy: new LiveSet<Connection>(),
  isTurningAway: false,
})

// Bun reads the rest of an unwanted body, however long it is, unless the connection ends.
function endRequest(
  connection: Connection,
  gateway: Gateway,
  request: Request,
  response: Response,
): Response | Promise<Response> {
  allowOrigin(gateway, request, response)
  connection.finishRequest()
  const isReusable = connection.isReusable()
  if (typeof isReusable === 'boolean') return closeUnless(isReusable, response)
  return isReusable.then(isReusable => closeUnless(isReusable, response))
}

function closeUnless(isReusable: boolean, response: Response): Response {
  if (!isReusable) response.headers.set('connection', 'close')
  return response
}

/** In milliseconds, between two looks at the descriptors of this process. */
const LOOK_INTERVAL = 100

/**
 * Returns what is done at each look: while descriptors are scarce, it closes connections that are
 * not in use and those that do not send their head.
 */
function createWatch(
  { traffic }: Gateway,
  { busy }: ConnectionWorld,
  descriptors: Descriptors,
  server: Bun.Server<undefined>,
  port: number,
): () => void {
  // Opened at once: connections inherit what is set, and when descriptors are scarce it is too late.
  const halfHeads = openSockets(busy, descriptors.limit, port)
  return () => {
    traffic.admission.look()
    descriptors.look()
    if (!descriptors.isScarce) return
    server.closeIdleConnections()
    void halfHeads.then(opened => opened?.closeSome())
  }
}

/** Sets the options of connections, where the system allows. Resolves with half heads. */
async function openSockets(
  busy: Iterable<Connection>,
  limit: number,
  port: number,
): Promise<HalfHeads | null> {
  try {
    const calls = await openSocketCalls()
    if (calls) setSocketOptions(calls, port)
    const listBusyPorts = () => [...busy].flatMap(({ peerPort }) => peerPort ?? [])
    return calls && Number.isFinite(limit)
      ? new HalfHeads({ calls, port, limit, listBusyPorts })
      : null
  } catch {
    return null
  }
}

/** How many milliseconds the last bytes of answers get to leave the machine. */
const CLOSE_GRACE = 500

// Bun accepts two Host headers, and invalid ones. Those with a slash would be part of the path.
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i
const isHost = (host: string | null) => host !== null && HOST.test(host)

async function refusePath(gateway: Gateway, request: Request): Promise<Response> {
  const id = readRequestId(request, gateway.ids.uuid())
  const error = buildPathError(request)
  noteRefusal(gateway, request, { thrown: error, id, actor: null, model: null })
  return refuseTarget(gateway, request, id, error, await loadErrorFormat(readPath(request)))
}

/** Loads the form in which the clients of a path read errors. */
async function loadErrorFormat(path: string): Promise<ErrorFormat | undefined> {
  if (path.startsWith('/v1beta/'))
    return (await import('../translation/dialects/gemini/error.ts')).GEMINI_ERROR_FORMAT
  if (path.startsWith('/model/'))
    return (await import('../translation/dialects/bedrock/error.ts')).BEDROCK_ERROR_FORMAT
  return undefined
}

/**
 * A path that is none of the API's. Its message tells a client with a wrong base where the path is
 * that its own one ends in.
 */
function buildPathError(request: Request): GatewayError {
  const path = readPath(request).replaceAll(/\/{2,}/g, '/')
  const meant = CALLS.find(call => path.endsWith(call) && path !== BASE + call)
  if (meant === undefined) return notFound()
  const base = meant.startsWith('/messages') ? '/api' : BASE
  return notFound(
    `Resource not found: ${meant.slice(1)} is at ${BASE}${meant}. ` +
      `The base URL of this client should end in ${base}`,
  )
}

/** Where the API is. */
const BASE = '/api/v1'

/** What clients add to the base that they are given. */
const CALLS = [
  ...['/chat/completions', '/completions', '/responses', '/messages', '/messages/count_tokens'],
  ...['/embeddings', '/rerank', '/images/generations', '/audio/speech', '/audio/transcriptions'],
  '/models',
]

const refuseHost = (gateway: Gateway, request: Request) =>
  createErrorResponse(
    new GatewayError('invalid_request', 'Expected one valid Host header'),
    readRequestId(request, gateway.ids.uuid()),
  )

/** In seconds: the silence before a client's system is asked, and between further questions. */
const IDLE = 30
const INTERVAL = 10

/** After so many questions without an answer the connection is over. */
const QUESTIONS = 3

/** In bytes, half of what the system keeps of an answer that its client does not take. */
const UNSENT = 96 * 1024

// Numbers of Linux: socket(7) and tcp(7).
const OPTIONS = [
  [SOL_SOCKET, 7, UNSENT],
  [SOL_SOCKET, 9, 1],
  [IPPROTO_TCP, 4, IDLE],
  [IPPROTO_TCP, 5, INTERVAL],
  [IPPROTO_TCP, 6, QUESTIONS],
] as const

/**
 * Sets what Bun has no setting for, but connections inherit when they are accepted from the socket
 * that listens on the port. The system asks clients that are silent whether they are still there
 * (TCP keep-alive, RFC 1122, 4.2.3.6): one that has vanished gives its descriptor back after a minute.
 * Of an answer that its client does not take it keeps little: by itself, up to 4 MiB.
 */
function setSocketOptions(calls: SocketCalls, port: number): void {
  // Soon after the start it is among the first.
  for (let socket = 0; socket < Math.min(findLowestFree(), MOST_DESCRIPTORS); socket++)
    if (calls.isListening(socket, port))
      for (const [level, name, value] of OPTIONS) calls.setOption(socket, level, name, value)
}

const MOST_DESCRIPTORS = 10_000

/** How many milliseconds a connection may take for its first head while descriptors are scarce. */
const LONGEST_HEAD = 1_000

/** How many descriptors are looked at in one turn: each takes a few microseconds. */
const DESCRIPTORS_PER_TURN = 1_000

/** What is looked through. */
interface HalfHeadsOptions {
  calls: SocketCalls
  /** The port of the server. */
  port: number
  /** The first number that is no descriptor. */
  limit: number
  /** Lists the ports of clients whose requests are being answered. */
  listBusyPorts(): Iterable<number>
}

/**
 * Closes connections that hold a descriptor and have sent no whole head. Bun gives them twelve
 * seconds, without a setting, and tells no one of them before.
 */
class HalfHeads {
  readonly #options: HalfHeadsOptions
  /** The descriptor that is looked at next. */
  #next = 0

  constructor(options: HalfHeadsOptions) {
    this.#options = options
  }

  /** Looks at the next descriptors, and closes what is too old. Takes a few milliseconds. */
  closeSome(): void {
    const { calls, port, limit } = this.#options
    let busy: Set<number> | undefined
    for (let turn = 0; turn < Math.min(DESCRIPTORS_PER_TURN, limit); turn++) {
      const descriptor = this.#next
      this.#next = (descriptor + 1) % limit
      const found = calls.findUnanswered(descriptor, port)
      if (!found || found.age < LONGEST_HEAD) continue
      busy ??= new Set(this.#options.listBusyPorts())
      if (!busy.has(found.peerPort)) calls.shutDown(descriptor)
    }
  }
}
