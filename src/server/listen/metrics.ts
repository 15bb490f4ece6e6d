import type { Gateway } from '../../app/gateway.ts'
import { createErrorResponse } from '../errors.ts'
import { countFor, type SharedPort } from '../paths.ts'
import { buildTargetTable, refuseTarget } from '../request-target.ts'
import { type GivenSocket, useSocket } from './given-socket.ts'

/** A server that answers `/metrics` and nothing else. */
export interface MetricsServer {
  url: string
  port: number
  stop(): Promise<void>
}

/**
 * Serves metrics at `server.metrics_address`, on a given socket if there is one; returns null if they are answered with the API.
 * Throws when the port is taken.
 */
export function listenForMetrics(
  gateway: Gateway,
  given: GivenSocket | null = null,
  shared: SharedPort | null = null,
): MetricsServer | null {
  const address = gateway.config.server.metrics_address
  if (address === undefined) return null
  const metrics = countFor(gateway, shared)
  const app = import('../app.ts').then(({ createMetricsApp }) => createMetricsApp(gateway, metrics))
  const [hostname, port] = splitAddress(address)
  const refuse = (request: Request) => refuseTarget(gateway, request)
  const server = Bun.serve({
    ...(given
      ? { hostname: '127.0.0.1', port: 0 }
      : { hostname: hostname.replace(/^\[|\]$/g, ''), port }),
    development: false,
    reusePort: shared !== null,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: MAX_BODY,
    routes: buildTargetTable(['/metrics'], async request => (await app).fetch(request), refuse),
    fetch: refuse,
    error: thrown => createErrorResponse(thrown, gateway.ids.uuid()),
  })
  if (given) useSocket(given, server)
  const bound = given?.socket.port ?? server.port ?? 0
  return {
    url: `http://${hostname}:${bound}/metrics`,
    port: bound,
    stop: () => server.stop(true),
  }
}

/** A scraper asks once in a while, on a connection that it may keep. */
const IDLE_SECONDS = 120

/** In bytes. No request to this server has a body. */
const MAX_BODY = 1024

function splitAddress(address: string): [host: string, port: number] {
  const colon = address.lastIndexOf(':')
  return [address.slice(0, colon), Number(address.slice(colon + 1))]
}
