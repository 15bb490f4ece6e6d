import { invalid, requireFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { reachedWorkspace } from '../identity/workspaces.ts'
import { isoNow } from '../kernel/clock.ts'
import { defined } from '../kernel/json.ts'
import { overlay } from '../kernel/mirror.ts'
import { dollarsOf, nanosOf } from '../kernel/money.ts'
import type { Bound } from '../ledger/ledger.ts'
import { INTERVALS, parseInterval, periodOf } from './budgets/interval.ts'
import type { BudgetInput } from './budgets/schema.ts'
import type { Budget } from './budgets/store.ts'
import { auditBudget, showBudget } from './budgets/view.ts'
import type { PolicyWorld } from './world.ts'

/** Lists the budgets of a workspace, broadest interval first. Throws 404. */
export function listBudgets(gateway: PolicyWorld, actor: Actor, idOrSlug: string) {
  const { id, include_byok_in_budgets } = reachedWorkspace(gateway, actor, idOrSlug)
  return { data: budgetsOf(gateway, id).map(showBudget), include_byok_in_budgets }
}

/** Returns a workspace's budget for one interval. Throws 400 for an unknown interval, and 404. */
export function getBudget(gateway: PolicyWorld, actor: Actor, idOrSlug: string, said: string) {
  const { id, include_byok_in_budgets } = reachedWorkspace(gateway, actor, idOrSlug)
  const budget = gateway.memory.budgets.get(
    budgetName({ workspace_id: id, interval: parseInterval(said) }),
  )
  return { data: showBudget(requireFound(budget, 'Budget')), include_byok_in_budgets }
}

/**
 * Sets a workspace's budget for one interval, and whether spending through callers' own provider
 * keys counts against all of its budgets. It applies from the next call on. Throws 404. Throws 400
 * for an unknown interval and for limits that do not decrease as the intervals narrow.
 */
export async function setBudget(
  gateway: PolicyWorld,
  actor: Actor,
  idOrSlug: string,
  said: string,
  input: BudgetInput,
) {
  const { id: workspace_id } = reachedWorkspace(gateway, actor, idOrSlug)
  const place = { workspace_id, interval: parseInterval(said) }
  const before = gateway.memory.budgets.get(budgetName(place)) ?? null
  const budget = budgetAt(gateway, place, nanosOf(input.limit_usd), before)
  const { include_byok_in_budgets: byok } = input
  const ofAll = defined({ include_byok_in_budgets: byok })
  const entry = auditBudget(gateway, actor, before, { ...budget, ...ofAll })
  const write = () => gateway.store.budgets.upsert(budget, byok, entry)
  const workspace = await gateway.memory.workspaces.change(workspace_id, overlay(ofAll), write)
  const { include_byok_in_budgets } = requireFound(workspace, 'Workspace')
  gateway.memory.budgets.set(budget)
  return { data: showBudget(budget), include_byok_in_budgets }
}

type Place = Pick<Budget, 'workspace_id' | 'interval'>

/** Builds the name of the one budget that a workspace has for an interval. */
export const budgetName = ({ workspace_id, interval }: Place): string =>
  `${workspace_id} ${interval}`

// The id is derived from workspace and interval, so that two simultaneous requests set the same
// budget.
function budgetAt(
  gateway: PolicyWorld,
  place: Place,
  limit_usd: bigint,
  before: Budget | null,
): Budget {
  if (limit_usd === 0n) throw invalid('limit_usd: expected at least a nano-dollar', 'limit_usd')
  const now = isoNow(gateway)
  const id = Bun.randomUUIDv5(budgetName(place), BUDGETS)
  return { id, ...place, limit_usd, created_at: before?.created_at ?? now, updated_at: now }
}

const BUDGETS = 'c1f0f6de-51a5-5f0e-8b7e-2d1c94f1a3b8'

/**
 * Deletes a workspace's budget for one interval, if there is one. Throws 400 for an unknown
 * interval, and 404 for the workspace.
 */
export async function deleteBudget(
  gateway: PolicyWorld,
  actor: Actor,
  idOrSlug: string,
  said: string,
) {
  const { id: workspace_id } = reachedWorkspace(gateway, actor, idOrSlug)
  const name = budgetName({ workspace_id, interval: parseInterval(said) })
  const before = gateway.memory.budgets.get(name)
  if (before) {
    await gateway.store.budgets.remove(before.id, auditBudget(gateway, actor, before, null))
    gateway.memory.budgets.delete(name)
  }
  return { deleted: true as const }
}

/**
 * Lists the budgets of a workspace as bounds, broadest interval first: if several are exceeded, the
 * broadest is named.
 */
export function workspaceBounds(gateway: PolicyWorld, workspace_id: string): Bound[] {
  const byok = gateway.memory.workspaces.get(workspace_id)?.include_byok_in_budgets ?? false
  return budgetsOf(gateway, workspace_id).map(({ interval, limit_usd: limit }) => {
    const budget = `Workspace ${interval} budget of ${dollarsOf(limit)}`
    return {
      account: `workspace ${workspace_id}`,
      period: periodOf(interval),
      limit,
      byok,
      message: `${budget} exceeded. Contact your org admin.`,
    }
  })
}

/**
 * Throws 400 where a narrower interval may spend as much as a broader one. The sentence is the
 * public service's.
 */
export function mustDecrease(budgets: Budget[]): void {
  const sorted = budgets.toSorted(byBreadth)
  for (const [i, narrow] of sorted.entries()) {
    const broad = sorted[i - 1]
    if (broad && broad.limit_usd <= narrow.limit_usd)
      throw invalid(
        'Budget limits must be strictly decreasing as scope narrows: ' +
          `the ${limitOf(broad)} must be greater than the ${limitOf(narrow)}.`,
        'limit_usd',
      )
  }
}

const limitOf = ({ interval, limit_usd }: Budget) =>
  `${interval} limit (${dollarsOf(limit_usd).replace(/\.00$/, '')})`

const byBreadth = (a: Budget, b: Budget) =>
  INTERVALS.indexOf(a.interval) - INTERVALS.indexOf(b.interval)

const budgetsOf = ({ memory: { budgets } }: PolicyWorld, workspace_id: string): Budget[] =>
  INTERVALS.flatMap(interval => budgets.get(budgetName({ workspace_id, interval })) ?? [])
