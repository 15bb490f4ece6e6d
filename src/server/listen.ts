import type { AnyElysia } from 'elysia'
import { GatewayError, notFound } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { LiveSet } from '../core/kernel/live-set.ts'
import { isLoopback } from '../core/kernel/machine.ts'
import { openSocketCalls } from '../core/kernel/socket-calls.ts'
import { createApp, listPaths, openOwnMetrics } from './app.ts'
import {
  bindConnection,
  type Connection,
  type ConnectionWorld,
  toServerSeconds,
} from './connections.ts'
import { allowOrigin, answerPreflight } from './cors.ts'
import { Descriptors } from './descriptors.ts'
import { createErrorResponse } from './errors.ts'
import { HalfHeads } from './half-heads.ts'
import { readRequestId } from './headers.ts'
import { findOriginal, IDEMPOTENCY_KEY, withIdempotency } from './idempotency.ts'
import { type GivenSocket, useSocket } from './listen/given-socket.ts'
import { setSocketOptions } from './listen/socket-options.ts'
import { noteRefusal } from './refusals.ts'
import { buildTargetTable, readPath, refuseTarget } from './request-target.ts'
import { createDirectAnswer } from './routes/inference.ts'
import { createProbeAnswer } from './routes/site.ts'

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

declare module '../core/events.ts' {
  interface EventMap {
    /** Only a reserve of file descriptors is left: calls are refused, connections are closed. */
    'descriptors.scarce': object
    /** There are enough file descriptors again. */
    'descriptors.sufficient': object
  }
}

/**
 * Serves the API, on a given socket if there is one: host and port are its own then. Throws when
 * the port is taken.
 */
export function listen(
  gateway: Gateway,
  host: string,
  port: number,
  given: GivenSocket | null = null,
): RunningServer {
  const address = `http://${host.includes(':') ? `[${host}]` : host}:`
  const findPeer = (request: Request) => server.requestIP(findOriginal(request))?.address ?? null
  const metrics = openOwnMetrics(gateway)
  const answerCall = createDirectAnswer(gateway, findPeer)
  const answerProbe = createProbeAnswer(gateway)
  // Calls and probes need no app: it is created for the first other request.
  let app: AnyElysia | undefined
  const answerRoute = (request: Request) => {
    app ??= createApp(gateway, findPeer, metrics)
    return app.fetch(request)
  }
  const handle = (request: Request) =>
    answerCall(request) ?? answerProbe(request) ?? answerRoute(request)
  const handleOnce = withIdempotency(gateway, handle)
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
  const refuse = (request: Request, server: Bun.Server<undefined>) => {
    const connection = bindConnection(world, request, server)
    const response = isHost(request.headers.get('host'))
      ? refusePath(gateway, request)
      : refuseHost(gateway, request)
    return endRequest(connection, gateway, request, response)
  }
  const server: Bun.Server<undefined> = Bun.serve({
    // Bun has no setting for a socket that is open: one of its own makes place for it.
    ...(given ? { hostname: '127.0.0.1', port: 0 } : { hostname: host, port }),
    development: false,
    // By default, Bun lets a second server of the same user listen on the port too, and the kernel
    // distributes connections among both.
    reusePort: false,
    idleTimeout: toServerSeconds(gateway.config.server.idle_seconds),
    // Bun's own refusal has no body. `body.ts` counts bytes itself and refuses with one.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    routes: buildTargetTable(listPaths(metrics), answer, refuse),
    fetch: refuse,
    error: thrown => createErrorResponse(thrown, gateway.ids.uuid()),
  })
  if (given) useSocket(given, server)
  const bound = given?.socket.port ?? server.port ?? 0
  const watch = setInterval(createWatch(gateway, world, descriptors, server, bound), LOOK_INTERVAL)
  gateway.instance.isLocal = isLoopback(given?.socket.host ?? host)
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

// The config is replaced while the server runs.
const createConnectionWorld = (gateway: Gateway, descriptors: Descriptors) => ({
  get config() {
    return gateway.config
  },
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

function refusePath(gateway: Gateway, request: Request): Response {
  const id = readRequestId(request, gateway.ids.uuid())
  const error = buildPathError(request)
  noteRefusal(gateway, request, { thrown: error, id, actor: null, model: null })
  return refuseTarget(gateway, request, id, error)
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
