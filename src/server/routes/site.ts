import { Elysia } from 'elysia'
import type { Gateway } from '../../app/gateway.ts'
import type { Metrics } from '../../observability/metrics.ts'
import { allowAnyone, identifyManager } from '../access.ts'
import { type Connection, findConnection } from '../connections.ts'
import { renderCreditsPage, renderFavicon, renderHomePage } from '../home.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { findUnreadiness } from '../readiness.ts'
import { readPath } from '../request-target.ts'

const describeSiteOperation = (details: Omit<Operation, 'tag' | 'open'>) =>
  describeOperation({ tag: 'Site', open: true, ...details })

/** Creates the routes for visitors, and for operators and their tools: health and readiness. */
export function createSiteRoutes(gateway: Gateway) {
  return new Elysia()
    .use(allowAnyone())
    .get(
      '/',
      ({ request }) => renderHomePage(gateway, findConnection(request)),
      describeSiteOperation({
        id: 'home',
        summary: 'See what this is',
        statuses: [200],
        produces: ['text/html'],
      }),
    )
    .get(
      '/credits',
      () => renderCreditsPage(gateway),
      describeSiteOperation({
        id: 'creditsPage',
        summary: 'Read how credits are added',
        statuses: [200],
        produces: ['text/html'],
      }),
    )
    .get(
      '/favicon.ico',
      () => renderFavicon(),
      describeSiteOperation({
        id: 'favicon',
        summary: 'Get the site’s picture',
        statuses: [200],
        produces: ['image/svg+xml'],
      }),
    )
    .get(
      '/healthz',
      () => renderHealth(gateway),
      describeSiteOperation({
        id: 'healthz',
        summary: 'Check that the process is alive, by another name',
        statuses: [200],
      }),
    )
    .get(
      '/health',
      () => renderHealth(gateway),
      describeSiteOperation({
        id: 'health',
        summary: 'Check that the process is alive',
        statuses: [200],
      }),
    )
    .get(
      '/ready',
      ({ request }) => renderReadiness(gateway, findConnection(request)),
      describeSiteOperation({
        id: 'ready',
        summary: 'Check that it accepts calls',
        statuses: [200, 503],
      }),
    )
}

/**
 * Creates the route of metrics. Whether it requires a key is a setting, which applies to a running
 * server. Without it, whoever reaches the API from elsewhere needs one.
 */
export function createMetricsRoutes(gateway: Gateway, metrics: Metrics) {
  const isOpen = () => {
    const { metrics_key, metrics_address } = gateway.config.server
    const isPrivate = metrics_address !== undefined || gateway.instance.isLocal
    return metrics_key === undefined ? isPrivate : !metrics_key
  }
  return new Elysia().use(allowAnyone()).get(
    '/metrics',
    async ({ request }) => {
      if (!isOpen()) await identifyManager(gateway, request)
      return new Response(metrics.renderText(), {
        headers: { 'content-type': metrics.contentType },
      })
    },
    describeSiteOperation({
      id: 'metrics',
      summary: 'Get metrics for Prometheus',
      statuses: [200, 401, 403],
      produces: ['text/plain'],
    }),
  )
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

// The previous config stays in use, so the process is alive. But monitoring must see the rejection.
const renderHealth = ({
  instance: {
    configStatus: { rejected },
  },
}: Gateway) => Response.json({ status: 'ok', ...(rejected ? { config: 'rejected' } : {}) })

function renderReadiness(gateway: Gateway, connection: Connection | undefined): Response {
  const reason = findUnreadiness(gateway, connection)
  if (reason) return Response.json({ status: reason }, { status: 503 })
  // A saturated gateway serves as much as it can: to take it out of rotation would lose that.
  const overload = gateway.traffic.admission.findSaturation()
  return Response.json({ status: 'ready', ...(overload ? { overloaded: overload } : {}) })
}
