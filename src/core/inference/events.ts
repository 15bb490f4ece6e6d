import type { Endpoint } from '../catalog/models.ts'
import type { GatewayError } from '../errors.ts'
import type { Attempt, Run, Step } from './run.ts'

/** What is told of calls while they run. */
declare module '../events.ts' {
  interface EventMap {
    /** A call may be made; nobody was asked yet. */
    'call.opened': Run
    /** It is known who is asked for a step, and in which order. */
    'step.planned': Step
    'attempt.started': Attempt
    'attempt.failed': { endpoint: Endpoint; error: GatewayError }
    /** The first part has come that a client can use. */
    'first.token': Run
    /** The call is charged and on record. */
    'call.closed': Run
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
