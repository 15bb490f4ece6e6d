import { getIsoTime } from '../base/clock.ts'
import { invalid, requireFound } from '../base/errors.ts'
import { omitUndefined } from '../base/json.ts'
import { overlay } from '../base/mirror.ts'
import { renderDollars, toNanos } from '../base/money.ts'
import type { Actor } from '../resources/actor.ts'
import { requireManagedWorkspace } from '../resources/workspaces.ts'
import type { Interval } from './budgets/interval.ts'
import { INTERVALS, toPeriod } from './budgets/interval.ts'
import type { BudgetInput } from './budgets/schema.ts'
import type { Budget } from './budgets/store.ts'
import { auditBudget, showBudget } from './budgets/view.ts'
import type { Bound, Limit } from './ledger.ts'
import type { PolicyWorld } from './policy-world.ts'

/** Lists the budgets of a workspace, broadest interval first. Throws 404. */
export function listBudgets(world: PolicyWorld, actor: Actor, idOrSlug: string) {
  const { id, include_byok_in_budgets } = requireManagedWorkspace(world, actor, idOrSlug)
  return {
    data: listWorkspaceBudgets(world, id).map(one => showBudget(world, one)),
    include_byok_in_budgets,
  }
}

/** Returns a workspace's budget for one interval. Throws 400 for an unknown interval, and 404. */
export function getBudget(
  world: PolicyWorld,
  actor: Actor,
  idOrSlug: string,
  intervalText: string,
) {
  const { id, include_byok_in_budgets } = requireManagedWorkspace(world, actor, idOrSlug)
  const budget = world.memory.budgets.get(
    buildBudgetName({ workspace_id: id, interval: parseInterval(intervalText) }),
  )
  return { data: showBudget(world, requireFound(budget, 'Budget')), include_byok_in_budgets }
}

/**
 * Sets a workspace's budget for one interval, and whether spending through callers' own provider
 * keys counts against all of its budgets. It applies from the next call on. Throws 404. Throws 400
 * for an unknown interval and for limits that do not decrease as the intervals narrow. One that is
 * soft refuses nothing, and may be of any amount.
 */
export async function setBudget(
  world: PolicyWorld,
  actor: Actor,
  idOrSlug: string,
  intervalText: string,
  input: BudgetInput,
) {
  const { id: workspace_id } = requireManagedWorkspace(world, actor, idOrSlug)
  const scope = { workspace_id, interval: parseInterval(intervalText) }
  const before = world.memory.budgets.get(buildBudgetName(scope)) ?? null
  const budget = buildBudget(world, scope, input, before)
  const { include_byok_in_budgets: byok } = input
  const workspaceFields = omitUndefined({ include_byok_in_budgets: byok })
  const entry = auditBudget(world, actor, before, { ...budget, ...workspaceFields })
  const write = () => world.store.budgets.upsert(budget, byok, entry)
  const workspace = await world.memory.workspaces.change(
    workspace_id,
    overlay(workspaceFields),
    write,
  )
  const { include_byok_in_budgets } = requireFound(workspace, 'Workspace')
  world.memory.budgets.set(budget)
  return { data: showBudget(world, budget), include_byok_in_budgets }
}

type BudgetScope = Pick<Budget, 'workspace_id' | 'interval'>

/** Builds the name of the one budget that a workspace has for an interval. */
export const buildBudgetName = ({ workspace_id, interval }: BudgetScope): string =>
  `${workspace_id} ${interval}`

// The id is derived from workspace and interval, so that two simultaneous requests set the same
// budget.
function buildBudget(
  world: PolicyWorld,
  scope: BudgetScope,
  { limit_usd: limit, soft = false }: BudgetInput,
  before: Budget | null,
): Budget {
  const limit_usd = toNanos(limit)
  if (limit_usd === 0n) throw invalid('limit_usd: expected at least a nano-dollar', 'limit_usd')
  const now = getIsoTime(world)
  const id = Bun.randomUUIDv5(buildBudgetName(scope), BUDGET_NAMESPACE)
  return { id, ...scope, limit_usd, soft, created_at: before?.created_at ?? now, updated_at: now }
}

const BUDGET_NAMESPACE = 'c1f0f6de-51a5-5f0e-8b7e-2d1c94f1a3b8'

/**
 * Deletes a workspace's budget for one interval, if there is one. Throws 400 for an unknown
 * interval, and 404 for the workspace.
 */
export async function deleteBudget(
  world: PolicyWorld,
  actor: Actor,
  idOrSlug: string,
  intervalText: string,
) {
  const { id: workspace_id } = requireManagedWorkspace(world, actor, idOrSlug)
  const name = buildBudgetName({ workspace_id, interval: parseInterval(intervalText) })
  const before = world.memory.budgets.get(name)
  if (before) {
    await world.store.budgets.remove(before.id, auditBudget(world, actor, before, null))
    world.memory.budgets.delete(name)
  }
  return { deleted: true as const }
}

/**
 * Lists the budgets of a workspace as bounds, broadest interval first: if several are exceeded, the
 * broadest is named.
 */
export const listWorkspaceBounds = (world: PolicyWorld, workspace_id: string): Bound[] =>
  listBounds(world, workspace_id, false)

/** Lists the soft budgets of a workspace, which no call is held to. */
export const listSoftLimits = (world: PolicyWorld, workspace_id: string): Limit[] =>
  listBounds(world, workspace_id, true)

function listBounds(world: PolicyWorld, workspace_id: string, isSoft: boolean): Bound[] {
  const byok = world.memory.workspaces.get(workspace_id)?.include_byok_in_budgets ?? false
  const budgets = listWorkspaceBudgets(world, workspace_id).filter(({ soft }) => soft === isSoft)
  return budgets.map(({ interval, limit_usd: limit }) => {
    const budget = `Workspace ${interval} budget of ${renderDollars(limit)}`
    return {
      account: `workspace ${workspace_id}`,
      period: toPeriod(interval),
      limit,
      byok,
      message: `${budget} exceeded. Contact your org admin.`,
    }
  })
}

/**
 * Throws 400 where a narrower interval may spend as much as a broader one; soft ones may. The sentence is the
 * public service's.
 */
export function assertLimitsDecrease(budgets: Budget[]): void {
  const sorted = budgets.filter(({ soft }) => !soft).sort(compareBreadth)
  for (const [i, narrow] of sorted.entries()) {
    const broad = sorted[i - 1]
    if (broad && broad.limit_usd <= narrow.limit_usd)
      throw invalid(
        'Budget limits must be strictly decreasing as scope narrows: ' +
          `the ${describeLimit(broad)} must be greater than the ${describeLimit(narrow)}.`,
        'limit_usd',
      )
  }
}

const describeLimit = ({ interval, limit_usd }: Budget) =>
  `${interval} limit (${renderDollars(limit_usd).replace(/\.00$/, '')})`

const compareBreadth = (a: Budget, b: Budget) =>
  INTERVALS.indexOf(a.interval) - INTERVALS.indexOf(b.interval)

const listWorkspaceBudgets = (
  { memory: { budgets } }: PolicyWorld,
  workspace_id: string,
): Budget[] =>
  INTERVALS.flatMap(interval => budgets.get(buildBudgetName({ workspace_id, interval })) ?? [])

/** Parses the interval in a path. Throws 400. */
function parseInterval(text: string): Interval {
  const interval = INTERVALS.find(candidate => candidate === text)
  if (!interval) throw invalid(`interval: expected one of ${INTERVALS.join(', ')}`, 'interval')
  return interval
}
