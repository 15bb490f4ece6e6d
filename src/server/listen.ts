import { GatewayError } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { createApp } from './app.ts'
import { createErrorResponse } from './errors.ts'
import { readRequestId } from './headers.ts'
import { buildTargetTable, refuseTarget } from './request-target.ts'

/** A server that is running. */
export interface RunningServer {
  url: string
  /** Accepts no more connections, gives running calls the drain time to end, then closes. */
  stop(drainMilliseconds: number): Promise<void>
}

/** Idle connections are closed after this many seconds. Running calls have limits of their own. */
const IDLE_SECONDS = 120

/** Serves the API. Throws when the port is taken. */
export function listen(gateway: Gateway, host: string, port: number): RunningServer {
  const address = `http://${host.includes(':') ? `[${host}]` : host}:`
  const app = createApp(gateway, request => server.requestIP(request)?.address ?? null)
  // The routes are compiled now, and not while the first client waits.
  const handle = app.fetch
  const answer = (request: Request, server: Bun.Server<undefined>) => {
    if (!isHost(request.headers.get('host'))) return refuseHost(gateway, request)
    if (request.method === 'POST') server.timeout(request, 0)
    return handle(request)
  }
  const refuse = (request: Request) =>
    isHost(request.headers.get('host'))
      ? refuseTarget(gateway, request)
      : refuseHost(gateway, request)
  const server: Bun.Server<undefined> = Bun.serve({
    hostname: host,
    port,
    development: false,
    // By default, Bun lets a second server of the same user listen on the port too, and the kernel
    // distributes connections among both.
    reusePort: false,
    idleTimeout: IDLE_SECONDS,
    // Bun's own refusal has no body. `body.ts` counts bytes itself and refuses with one.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    routes: buildTargetTable(app, answer, refuse),
    fetch: refuse,
    error: thrown => createErrorResponse(thrown, gateway.ids.uuid()),
  })
  gateway.instance.siteUrl = gateway.config.server.site_url ?? address + server.port
  return {
    url: address + server.port,
    async stop(drainMilliseconds) {
      const closed = server.stop(false)
      await gateway.traffic.calls.drain(drainMilliseconds)
      await Promise.race([closed, Bun.sleep(CLOSE_GRACE)])
      await server.stop(true)
    },
  }
}

/** How many milliseconds the last bytes of answers get to leave the machine. */
const CLOSE_GRACE = 500

// Bun accepts two Host headers, and invalid ones. Those with a slash would be part of the path.
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i
const isHost = (host: string | null) => host !== null && HOST.test(host)

const refuseHost = (gateway: Gateway, request: Request) =>
  createErrorResponse(
    new GatewayError('invalid_request', 'Expected one valid Host header'),
    readRequestId(request, gateway.ids.uuid()),
  )
