import type { Gateway } from '../../app/gateway.ts'
import type { ToldMetrics } from '../../observability/metrics.ts'
import { allowAnyone, identifyManager } from '../access.ts'
import { findConnection } from '../connections.ts'
import { renderCreditsPage, renderFavicon, renderHomePage } from '../home.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { renderHealth, renderReadiness } from '../readiness.ts'
import { Routes } from '../routes.ts'

const describeSiteOperation = (details: Omit<Operation, 'tag' | 'open'>) =>
  describeOperation({ tag: 'Site', open: true, ...details })

/** Creates the routes for visitors, and for operators and their tools: health and readiness. */
export function createSiteRoutes(gateway: Gateway) {
  return new Routes(allowAnyone())
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
export function createMetricsRoutes(gateway: Gateway, metrics: ToldMetrics) {
  const isOpen = () => {
    const { metrics_key, metrics_address } = gateway.config.server
    const isPrivate = metrics_address !== undefined || gateway.instance.isLocal
    return metrics_key === undefined ? isPrivate : !metrics_key
  }
  return new Routes(allowAnyone()).get(
    '/metrics',
    async ({ request }) => {
      if (!isOpen()) await identifyManager(gateway, request)
      return new Response(await metrics.renderText(), {
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
