import { denied, GatewayError, unauthenticated, unavailable } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { isUsable } from '../identity/keys.ts'
import type { CallBase } from '../language/call.ts'
import type { Policy } from '../policy/effective.ts'
import type { InferenceWorld } from './world.ts'

/** Says nothing, or throws what stops the call. */
type Check = (gateway: InferenceWorld, actor: Actor, call: CallBase, policy: Policy) => void

/** Everything that may stop a call before it is planned. */
const CHECKS: Check[] = [mayInfer, mayStill, isOpen, canRecord, mayComeThisWay]

/**
 * Whether this call may be made at all, and now: gives back how to tell that it has ended. Throws 403 for a management key and for a way in
 * that a guardrail does not allow, 401 for a key that is gone by now, 503 while the gateway stops or cannot write, 429 for one call too many.
 * The counting comes last: what is refused is not counted.
 */
export function admit(gateway: InferenceWorld, actor: Actor, call: CallBase, policy: Policy): () => void {
  for (const check of CHECKS) check(gateway, actor, call, policy)
  return gateway.traffic.rateLimits.enter(actor, call)
}

/** Throws what `admit` would, and counts nothing. */
export function mustBeAdmissible(gateway: InferenceWorld, actor: Actor, call: CallBase, policy: Policy): void {
  for (const check of CHECKS) check(gateway, actor, call, policy)
  gateway.traffic.rateLimits.check(actor, call)
}

function mayInfer(_: InferenceWorld, actor: Actor): void {
  if (actor.kind === 'management') throw denied('Management keys cannot be used for inference')
}

/** Whether the key is still good: a body may be sent slowly, and filters take their time, and with the key goes its limit. Throws 401. */
export function mayStill({ memory: { keys }, clock }: InferenceWorld, { key_hash }: Actor): void {
  if (key_hash === null) return
  const key = keys.get(key_hash)
  if (!key || !isUsable(key, clock.now())) throw unauthenticated('Invalid API key')
}

function isOpen(gateway: InferenceWorld): void {
  if (gateway.traffic.calls.draining) throw unavailable('The gateway is shutting down')
}

function canRecord(gateway: InferenceWorld): void {
  if (!gateway.recorder.healthy) throw unavailable('The gateway cannot record calls at the moment')
}

function mayComeThisWay(_: InferenceWorld, __: Actor, { origin: { region } }: CallBase, { regions }: Policy): void {
  if (regions.includes(region)) return
  const expected = regions.length === 0 ? 'none' : regions.join(' or ')
  throw new GatewayError('permission_denied', `allowed_data_regions of guardrails: expected ${expected}, found the ${region} region`, {
    metadata: { excluded_by: ['data_region'], availability: { code: 'region_restricted', retryable: false } },
  })
}
