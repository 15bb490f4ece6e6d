import type { Gateway } from '../app/gateway.ts'
import { type Metrics, openMetrics } from '../observability/metrics.ts'
import { PATHS } from './paths.data.ts'

/** Counts for `/metrics` from now on. Null where that has an address of its own. */
export const openOwnMetrics = (gateway: Gateway): Metrics | null =>
  gateway.config.server.metrics_address === undefined ? openMetrics(gateway) : null

/** Lists the paths of the app, without creating it. */
export const listPaths = (metrics: Metrics | null): string[] =>
  PATHS.filter(path => path !== '/metrics' || metrics !== null)
