import type { Endpoint } from '../catalog/models.ts'
import type { GatewayError } from '../errors.ts'

/** What is told of calls while they run. */
declare module '../events.ts' {
  interface EventMap {
    'attempt.failed': { endpoint: Endpoint; error: GatewayError }
    /** An answer has called tools as they were offered, or not. */
    'tools.judged': { endpoint: Endpoint; isSound: boolean }
    /** A second endpoint is asked beside a slow one. */
    'hedge.started': { endpoint: Endpoint }
    /** And it has answered. */
    'hedge.won': { endpoint: Endpoint }
    /** A call was answered whose cost nobody knows: the endpoint has no price. */
    'price.missing': { endpoint: Endpoint }
  }
}
