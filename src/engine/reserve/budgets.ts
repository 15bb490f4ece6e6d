import { GatewayError } from '../../base/errors.ts'
import { renderDollars, toUsd } from '../../base/money.ts'
import type { Kind } from '../../language/work.ts'
import {
  addBounds,
  type CallBudget,
  isOfModel,
  keepModel,
  listCallBounds,
} from '../../limits/call-budgets.ts'
import { getPolicy } from '../../limits/effective.ts'
import type { Amounts, Bound, CostEstimate, Ledger, Subaccount } from '../../limits/ledger.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { nameOutputBound } from '../kinds/text/understanding.ts'
import type { Run, Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'
import { isShortage, useLeast } from './waiting.ts'

/**
 * Binds a call to its budgets by end user, tag and model, as the call of the client says them, and
 * reads what they have spent. Throws 400 for tags that are none, and 503.
 */
export async function openBudgets(
  world: InferenceWorld,
  run: Run,
  budgets: CallBudget[],
  models: string[],
): Promise<void> {
  const root = getRoot(run)
  const bounds = listCallBounds(budgets, root.call, models)
  const subaccounts = [...new Set(bounds.map(({ account }) => account))]
  const close = await world.ledger.openSubaccounts(subaccounts)
  if (run.isDry) close()
  else root.closers = [...(root.closers ?? []), close]
  run.callBounds = bounds
  run.subaccounts = subaccounts
  run.policy = addBounds(getPolicy(world, run.actor), bounds)
}

const getRoot = (run: Run): Run => (run.within ? getRoot(run.within.run) : run)

/** Estimates what a step may cost at these endpoints. */
type Estimate = (endpoints: Endpoint[]) => CostEstimate

/**
 * Binds a step to the budgets of its call. Models that theirs cannot pay for are dropped, if others
 * are left. Throws as `openBudgets` does.
 */
export async function openStepBudgets<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  budgets: CallBudget[],
  estimate: Estimate,
): Promise<void> {
  const run = step.run as unknown as Run
  const { plan } = step
  const models = new Set(plan?.endpoints.map(({ model }) => model))
  await openBudgets(world, run, budgets, [...models])
  if (!plan || !budgets.some(({ by }) => by === 'model')) return
  let endpoints: Endpoint[] = []
  for (const model of models) {
    const more = plan.endpoints.filter(one => one.model === model || endpoints.includes(one))
    if (hasMoney(world, run, more, estimate)) endpoints = more
  }
  if (endpoints.length === 0 || endpoints.length === plan.endpoints.length) return
  step.plan = { ...plan, endpoints }
  dropOthers(step, plan.endpoints, endpoints)
  const isLeft = (account: Subaccount) =>
    endpoints.some(({ model }) => keepModel([account], model).length > 0)
  run.callBounds = run.callBounds?.filter(({ account }) => isLeft(account)) ?? null
  run.subaccounts = run.subaccounts?.filter(isLeft) ?? null
  run.policy = addBounds(getPolicy(world, run.actor), run.callBounds ?? [])
}

/** Notes for those who ask how it was routed which endpoints no budget pays for. */
function dropOthers<K extends Kind>(step: Step<K>, all: Endpoint[], kept: Endpoint[]): void {
  if (!step.candidates) return
  const others = all.filter(endpoint => !kept.includes(endpoint))
  const dropped = others.map(endpoint => ({ endpoint, excludedBy: 'payment_required' }))
  step.candidates = { ...step.candidates, dropped: [...step.candidates.dropped, ...dropped] }
}

/** Whether the budgets of their models can pay for a step at all of these endpoints. */
function hasMoney(
  { ledger }: InferenceWorld,
  { callBounds }: Run,
  endpoints: Endpoint[],
  estimate: Estimate,
): boolean {
  const isOfOne = (account: Subaccount) => endpoints.some(({ model }) => isOfModel(account, model))
  const bounds = callBounds?.filter(({ account }) => isOfOne(account)) ?? []
  if (bounds.length === 0) return true
  try {
    ledger.computeGrant(useLeast(estimate(endpoints)), bounds)
    return true
  } catch (thrown) {
    if (isShortage(thrown)) return false
    throw thrown
  }
}

/** A bound that cannot pay for a call. Nano-dollars. */
interface Shortage {
  bound: Bound
  way: 'own' | 'byok'
  remaining: bigint
  needed: bigint
}

/**
 * Returns the error of a refused limit with what would be set aside, what is left, and which
 * `max_tokens` would fit: in its message, and in `metadata` as numbers. `computeFittingOutput`
 * returns how many tokens an amount pays. Any other error stays as it is.
 */
export function explainShortage<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  thrown: unknown,
  computeFittingOutput: (way: keyof Amounts, nanos: bigint) => number | null,
): unknown {
  const { run, costEstimate } = step
  if (!(thrown instanceof GatewayError) || thrown.type !== 'payment_required') return thrown
  const shortage =
    costEstimate &&
    findShortage(world.ledger, run.policy.bounds, useLeast(costEstimate), thrown.message)
  if (!shortage) return thrown
  const { bound, way, needed } = shortage
  const remaining = shortage.remaining > 0n ? shortage.remaining : 0n
  const max_tokens = computeFittingOutput(way, remaining)
  const name = nameOutputBound(step.call)
  const sentence = thrown.message.replace(/\.?$/, '.')
  return thrown.with({
    message:
      `${sentence} For this call ${costEstimate?.least ? 'at least ' : ''}${renderDollars(needed)} ` +
      `would be set aside, and ${renderDollars(remaining)} is left: ` +
      `${max_tokens === null ? `no ${name}` : `${name} of at most ${max_tokens}`} would fit. ` +
      'Nothing was spent.',
    metadata: {
      ...thrown.metadata,
      limit: bound.account === 'all' ? 'credits' : bound.account.split(' ')[0],
      limit_reset: bound.period,
      estimated_cost: toUsd(needed),
      limit_remaining: toUsd(remaining),
      max_tokens,
    },
  })
}

/** Finds the bound that the error names, and what it lacks. */
function findShortage(
  ledger: Ledger,
  bounds: Bound[],
  { minimum }: CostEstimate,
  message: string,
): Shortage | undefined {
  for (const bound of bounds) {
    const remaining = ledger.getRemaining(bound)
    const way = (bound.byok ? WAYS : OWN).find(one => (minimum[one] ?? -1n) > remaining)
    const needed = way && minimum[way]
    if (way && needed != null && bound.message === message) return { bound, way, remaining, needed }
  }
  return undefined
}

const WAYS = ['own', 'byok'] as const
const OWN = ['own'] as const
