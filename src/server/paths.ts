import type { Gateway } from '../app/gateway.ts'
import { type Metrics, openMetrics, type ToldMetrics } from '../observability/metrics.ts'
import { PATHS } from './paths.data.ts'

/** What servers have in common that listen on one port. */
export interface SharedPort {
  /** Returns what a scraper is told of all of them, when it asks the one that counts this. */
  shareMetrics(metrics: Metrics): ToldMetrics
}

/** Counts for `/metrics` from now on. Null where that has an address of its own. */
export const openOwnMetrics = (
  gateway: Gateway,
  shared: SharedPort | null = null,
): ToldMetrics | null =>
  gateway.config.server.metrics_address === undefined ? countFor(gateway, shared) : null

/** Counts for `/metrics` from now on, for all servers of the port where there are several. */
export function countFor(gateway: Gateway, shared: SharedPort | null): ToldMetrics {
  const metrics = openMetrics(gateway)
  return shared?.shareMetrics(metrics) ?? metrics
}

/** Lists the paths of the app, without creating it. */
export const listPaths = (metrics: ToldMetrics | null): string[] =>
  PATHS.filter(path => path !== '/metrics' || metrics !== null)
