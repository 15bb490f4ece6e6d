import { byokKeysFor } from '../catalog/byok.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'
import { type Policy, policyFor } from '../policy/effective.ts'
import { admit } from './admit.ts'
import { attemptInOrder } from './attempt.ts'
import type { Kind, Work } from './call.ts'
import { Filtering } from './filters/filtering.ts'
import { filteredCall } from './filters.ts'
import { type Plan, planRoute } from './plan.ts'
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
  const running = await entered(gateway, actor, kind, call, signal)
  if (running.held) await writeDown(gateway, running, running.held)
  try {
    return settle(gateway, running, await attemptInOrder(gateway, running))
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    await settleFailure(gateway, running, error)
    throw error
  }
}

/** Admits a call and begins it. Its place is free again when it is forgotten, or at once where it does not begin. */
async function entered<K extends Kind>(
  gateway: Gateway,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  signal: AbortSignal,
): Promise<Running<K>> {
  const policy = policyFor(gateway, actor)
  const leave = admit(gateway, actor, call, policy)
  const start = (left: Work[K]['call'], plan: Plan) => begin(gateway, actor, kind, left, plan, signal, leave)
  try {
    if (policy.filters) return await lookedAt(gateway, actor, kind, call, policy, new Filtering(await policy.filters), start)
    return start(call, planned(gateway, actor, kind, call, policy))
  } catch (refusal) {
    leave()
    throw refusal
  }
}

const planned = <K extends Kind>(gateway: Gateway, actor: Actor, kind: K, call: Work[K]['call'], { rules }: Policy): Plan =>
  planRoute(gateway, kind, call, byokKeysFor(gateway, actor), rules)

/** Begins the call as its content filters leave it. Throws 403 for one that they block; it is recorded. */
async function lookedAt<K extends Kind>(
  gateway: Gateway,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  policy: Policy,
  filtering: Filtering,
  start: (call: Work[K]['call'], plan: Plan) => Running<K>,
): Promise<Running<K>> {
  const { call: left, error } = await filteredCall(kind, call, filtering)
  const running = start(left, error ? NOBODY : planned(gateway, actor, kind, left, policy))
  running.filtering = filtering
  if (!error) return running
  await settleFailure(gateway, running, error)
  throw error
}

/** The plan of a call that is not to be sent. */
const NOBODY: Plan = { endpoints: [], dropped: [] }
