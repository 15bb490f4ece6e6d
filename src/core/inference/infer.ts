import { byokKeysFor } from '../catalog/byok.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Answer } from '../language/answer.ts'
import type { Kind, Work } from '../language/work.ts'
import { policyFor } from '../policy/effective.ts'
import { admit, mayStill } from './admit.ts'
import { attemptInOrder } from './attempt.ts'
import { type Filtered, filteredBy } from './filters.ts'
import { type Candidates, candidatesFor, type Plan, planAmong, planTo, unordered } from './plan.ts'
import { routedFailure } from './routing-metadata.ts'
import { begin, type Running, wordWritten } from './running.ts'
import { sessionOf } from './sessions.ts'
import { settle, settleFailure } from './settle.ts'
import type { InferenceWorld } from './world.ts'

/** The life of one call, in the order it happens. Every inference endpoint comes through here. */
export async function infer<K extends Kind>(
  gateway: InferenceWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  signal: AbortSignal,
): Promise<Answer<K>> {
  const policy = policyFor(gateway, actor)
  const leave = admit(gateway, actor, call, policy)
  const looked = filteredBy(policy, kind, call)
  const filtered = looked instanceof Promise ? await looked : looked
  const running = await start(gateway, actor, kind, filtered, signal, leave)
  try {
    if (filtered.error) throw filtered.error
    return settle(gateway, running, await attemptInOrder(gateway, running))
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    await settleFailure(gateway, running, error)
    throw routedFailure(error, running)
  }
}

/** Plans and begins a call. Its place is free again (`leave`) when it is forgotten, or at once where it does not begin. */
async function start<K extends Kind>(
  gateway: InferenceWorld,
  actor: Actor,
  kind: K,
  { call, error, filtering }: Filtered<K>,
  signal: AbortSignal,
  leave: () => void,
): Promise<Running<K>> {
  let candidates: Candidates<K> | null = null
  try {
    // Filters take their time: what holds is what holds now.
    mayStill(gateway, actor)
    // What content filters refuse is recorded, and not sent.
    candidates = error ? null : candidatesOf(gateway, actor, kind, call)
    const plan = candidates ? planAmong(gateway, kind, call, candidates) : planTo<K>([])
    const running = begin(gateway, actor, kind, call, plan, signal, leave)
    running.filtering = filtering
    if (error && call.routingMetadata) running.plan = planUnsent(gateway, actor, kind, call)
    if (running.word) await wordWritten(gateway, running)
    return running
  } catch (refusal) {
    leave()
    throw candidates ? routedFailure(GatewayError.from(refusal), { call, plan: unordered(candidates), attempts: [], filtering }) : refusal
  }
}

/** Who would have served a call that is refused. Never throws: why it is refused is known already. */
function planUnsent<K extends Kind>(gateway: InferenceWorld, actor: Actor, kind: K, call: Work[K]['call']): Plan<K> {
  try {
    return unordered(candidatesOf(gateway, actor, kind, call))
  } catch {
    return planTo([])
  }
}

/** Who may serve an actor's call by all that holds for him at this moment. Throws 400 as `planRoute` does. */
export function candidatesOf<K extends Kind>(gateway: InferenceWorld, actor: Actor, kind: K, call: Work[K]['call']): Candidates<K> {
  const { rules } = policyFor(gateway, actor)
  return candidatesFor(gateway, kind, call, { own: byokKeysFor(gateway, actor), rules, session: sessionOf(actor, kind, call) })
}
