import type { Endpoint } from '../catalog/models.ts'
import type { Kind } from '../language/work.ts'
import type { Amounts, HeldCall, Hold } from '../ledger/ledger.ts'
import { kinds } from './kinds.ts'
import { needOf, promptNanos } from './need.ts'
import type { Plan } from './plan.ts'
import type { Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Sets aside what a step may come to, where a key pays and somebody is to be asked, and leaves those out that its limits cannot pay. A dry
 * run asks what would be. Throws 402 where a limit has not enough left.
 */
export function reserveStep<K extends Kind>(world: InferenceWorld, step: Step<K>): void {
  const { run, plan, call } = step
  const { key_hash, user_id, workspace_id } = run.actor
  if (!plan || plan.endpoints.length === 0 || (key_hash === null && !run.isDry)) return
  const { bounds } = run.policy
  const need = needOf(world, run.kind, call, plan.endpoints, plan.models)
  step.need = need
  if (run.isDry || key_hash === null) {
    step.amounts = world.ledger.grant(need, bounds)
    return
  }
  const hold = world.ledger.reserve({ key_hash, user_id, workspace_id }, need, bounds)
  step.hold = hold
  step.plan = payable(plan, hold.amounts)
}

const payable = <K extends Kind>(plan: Plan<K>, amounts: Amounts): Plan<K> => ({
  ...plan,
  endpoints: plan.endpoints.filter(endpoint => isPayable(amounts, endpoint)),
})

/** Whether a limit lets the call go there. */
export const isPayable = (amounts: Amounts, { is_byok }: Endpoint): boolean => (is_byok ? amounts.byok : amounts.own) !== null

/**
 * Leaves word of a step, so that a dead process cannot forget it: before that is written it must not go out. Throws 503, with what was set
 * aside given back, when it cannot be written.
 */
export function journalStep<K extends Kind>(world: InferenceWorld, step: Step<K>): void | Promise<void> {
  step.held = step.hold && heldFor(step, step.hold)
  if (!step.held) return
  step.word = world.journal.holds.open(step.held)
  return wordWritten(world, step)
}

async function wordWritten({ ledger }: InferenceWorld, step: Step): Promise<void> {
  try {
    await step.word?.written
  } catch (thrown) {
    step.word?.forget()
    if (step.hold) ledger.release(step.hold)
    throw thrown
  }
}

/** What is written down of it before it goes out. A step that costs nothing leaves nothing to be found. */
function heldFor<K extends Kind>({ run, number, call, plan }: Step<K>, { payer, amounts }: Hold): HeldCall | null {
  const nanos = amounts.own ?? amounts.byok ?? 0n
  const first = plan?.endpoints[0]
  if (!first || (nanos === 0n && !amounts.byok)) return null
  return {
    ...payer,
    id: call.id,
    request_id: call.origin.request_id,
    created_at: run.created.toISOString(),
    api_type: kinds[run.kind].apiType,
    model: first.model,
    streamed: call.stream,
    step: number,
    byok: first.is_byok,
    nanos,
    spent: promptNanos(run.kind, call, first),
  }
}
