import { denied, unavailable } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'

/** Says nothing, or throws what stops the call. */
type Check = (gateway: Gateway, actor: Actor) => void

/** Everything that may stop a call before it is planned. */
const CHECKS: Check[] = [mayInfer, isOpen, canRecord]

/** Whether this call may be made at all. Throws 403 for a management key, 503 while the gateway stops or cannot write. */
export function admit(gateway: Gateway, actor: Actor): void {
  for (const check of CHECKS) check(gateway, actor)
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
