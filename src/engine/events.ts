import type { GatewayError, Trouble } from '../base/errors.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import type { Attempt, Run, Step } from './run.ts'

/** The events of a running call. */
declare module '../base/events.ts' {
  interface EventMap {
    /** The call may be made; no endpoint has been tried yet. */
    'call.opened': Run
    /** The endpoints of a step and their order are known. */
    'step.planned': Step
    'attempt.started': { run: Run; attempt: Attempt }
    /** `id` is the call's; status and request id are those of the provider's response. */
    'attempt.failed': {
      id: string
      workspace_id: string
      endpoint: Endpoint
      error: GatewayError
      status: number | null
      request_id: string | null
      latency: number
    }
    /** The first part that a client can use has arrived. */
    'first.token': Run
    /** The call is charged and on record. */
    'call.closed': Run
    /** It is known whether an answer called tools as they were offered. */
    'tools.judged': { endpoint: Endpoint; toolCallsValid: boolean }
    /** A second endpoint is tried beside a slow one. */
    'hedge.started': { endpoint: Endpoint }
    /** The second endpoint has answered first. */
    'hedge.won': { endpoint: Endpoint }
    /** A call was answered whose cost is unknown: the endpoint has no price. */
    'price.missing': { endpoint: Endpoint }
    /** An answer ended for a reason that no table has: it counts as an error. */
    'finish.unknown': { endpoint: Endpoint; word: string }
    /** A provider fails for a reason that only its operator can mend. */
    'operator.needed': {
      endpoint: Endpoint
      trouble: Trouble
      reason: string | null
      /** The name of the credential, where the provider has several. */
      credential?: string
    }
    /** A provider reported counts that the call cannot have: it is charged as estimated. */
    'usage.implausible': { endpoint: Endpoint }
  }
}
