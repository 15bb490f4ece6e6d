import { byokKeysFor } from '../catalog/byok.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'
import { policyFor } from '../policy/effective.ts'
import { admit } from './admit.ts'
import { attemptInOrder } from './attempt.ts'
import type { Kind, Work } from './call.ts'
import { planRoute } from './plan.ts'
import { begin, type Running, writeDown } from './running.ts'
import { type Answer, settle, settleFailure } from './settle.ts'

/** The life of one call, in the order it happens. Every inference endpoint comes through here. */
export async function infer<K extends Kind>(
  gateway: Gateway,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  signal: AbortSignal,
): Promise<Answer<K>> {
  const running = start(gateway, actor, kind, call, signal)
  if (running.held) await writeDown(gateway, running, running.held)
  try {
    return settle(gateway, running, await attemptInOrder(gateway, running))
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    await settleFailure(gateway, running, error)
    throw error
  }
}

/** Admits, plans and begins a call. Its place is free again when it is forgotten, or at once where it does not begin. */
function start<K extends Kind>(gateway: Gateway, actor: Actor, kind: K, call: Work[K]['call'], signal: AbortSignal): Running<K> {
  const policy = policyFor(gateway, actor)
  const leave = admit(gateway, actor, call, policy)
  try {
    const plan = planRoute(gateway, kind, call, byokKeysFor(gateway, actor), policy.rules)
    const running = begin(gateway, actor, kind, call, plan, signal)
    const { forget } = running
    running.forget = () => {
      forget()
      leave()
    }
    return running
  } catch (refusal) {
    leave()
    throw refusal
  }
}
