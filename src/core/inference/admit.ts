import { denied, unavailable } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'
import type { CallBase } from './call.ts'

/** Says nothing, or throws what stops the call. */
type Check = (gateway: Gateway, actor: Actor) => void

/** Everything that may stop a call before it is planned. */
const CHECKS: Check[] = [mayInfer, isOpen, canRecord]

/**
 * Whether this call may be made at all, and now: gives back how to tell that it has ended. Throws 403 for a management key, 503 while the
 * gateway stops or cannot write, 429 for one call too many. The counting comes last: what is refused is not counted.
 */
export function admit(gateway: Gateway, actor: Actor, call: CallBase): () => void {
  for (const check of CHECKS) check(gateway, actor)
  return gateway.rateLimits.enter(actor, call)
}

function mayInfer(_: Gateway, actor: Actor): void {
  if (actor.kind === 'management') throw denied('Management keys cannot be used for inference')
}

function isOpen(gateway: Gateway): void {
  if (gateway.calls.draining) throw unavailable('The gateway is shutting down')
}

function canRecord(gateway: Gateway): void {
  if (!gateway.recorder.healthy) throw unavailable('The gateway cannot record calls at the moment')
}
