import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { type AuditEntry, auditEntry } from '../identity/audit.ts'
import { reachedWorkspace, workspaceBy } from '../identity/workspaces.ts'
import { dollarsOf, nanosOf, usdOf } from '../kernel/money.ts'
import type { Period } from '../kernel/periods.ts'
import type { Bound } from '../ledger/ledger.ts'
import type { PolicyWorld } from './world.ts'

/** The windows of budgets, the broadest first. */
export const INTERVALS = ['lifetime', 'monthly', 'weekly', 'daily'] as const
export type Interval = (typeof INTERVALS)[number]

/** What may be spent in a workspace in one window, by all of its keys together. Times in ISO 8601. */
export interface Budget {
  id: string
  workspace_id: string
  interval: Interval
  /** In nano-dollars here, as all money; USD on the wire. */
  limit_usd: bigint
  created_at: string
  updated_at: string
}

/** Remembers budgets: one for a workspace and an interval. What changes one is one transaction with the entry that tells of it. */
export interface BudgetStore {
  all(): Promise<Budget[]>
  /**
   * Sets a budget and, unless undefined, whether own provider keys count against all of the workspace. Throws 404 where the workspace is
   * gone, and what `mustDecrease` throws.
   */
  upsert(budget: Budget, include_byok_in_budgets: boolean | undefined, entry: AuditEntry): Promise<void>
  remove(id: string, entry: AuditEntry): Promise<void>
}

/** The body of `PUT /workspaces/{id}/budgets/{interval}`. A billion dollars is what still fits a 64-bit count of nano-dollars. */
export const BudgetInput = Type.Object({
  limit_usd: Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000_000 }),
  include_byok_in_budgets: Type.Optional(Type.Boolean()),
})
export type BudgetInput = Static<typeof BudgetInput>

/** The budgets of a workspace, the broadest first. Throws 404. */
export function listBudgets(gateway: PolicyWorld, actor: Actor, idOrSlug: string) {
  const { id, include_byok_in_budgets } = reachedWorkspace(gateway, actor, idOrSlug)
  return { data: budgetsOf(gateway, id).map(shownBudget), include_byok_in_budgets }
}

/** A workspace's budget for one interval. Throws 400 for what is no interval, and 404. */
export function getBudget(gateway: PolicyWorld, actor: Actor, idOrSlug: string, said: string) {
  const { id, include_byok_in_budgets } = reachedWorkspace(gateway, actor, idOrSlug)
  const interval = intervalOf(said)
  const budget = budgetsOf(gateway, id).find(one => one.interval === interval)
  if (!budget) throw notFound('Budget not found')
  return { data: shownBudget(budget), include_byok_in_budgets }
}

/**
 * Sets a workspace's budget for one interval, and whether own provider keys count against all of its budgets. It binds the next call.
 * Throws 404, and 400 for what is no interval and for limits that do not decrease as the intervals narrow.
 */
export async function setBudget(gateway: PolicyWorld, actor: Actor, idOrSlug: string, said: string, input: BudgetInput) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const interval = intervalOf(said)
  const limit_usd = nanosOf(input.limit_usd)
  if (limit_usd === 0n) throw invalid('limit_usd: expected at least a nano-dollar', 'limit_usd')
  const before = budgetsOf(gateway, workspace.id).find(one => one.interval === interval)
  const budget = budgetWith(gateway, workspace.id, interval, limit_usd, before)
  const { include_byok_in_budgets } = input
  await gateway.store.budgets.upsert(budget, include_byok_in_budgets, entryOf(gateway, actor, before, budget, include_byok_in_budgets))
  const changed = { ...workspaceBy(gateway, workspace.id), ...(include_byok_in_budgets === undefined ? {} : { include_byok_in_budgets }) }
  gateway.memory.workspaces.set(workspace.id, changed)
  keep(gateway, workspace.id, interval, budget)
  return { data: shownBudget(budget), include_byok_in_budgets: changed.include_byok_in_budgets }
}

// There is one for a workspace and an interval, so its id is made of them: whoever sets it at the same moment means the same budget.
function budgetWith(gateway: PolicyWorld, workspace_id: string, interval: Interval, limit_usd: bigint, before: Budget | undefined): Budget {
  const now = gateway.clock.now().toISOString()
  const id = Bun.randomUUIDv5(`${workspace_id} ${interval}`, BUDGETS)
  return { id, workspace_id, interval, limit_usd, created_at: before?.created_at ?? now, updated_at: now }
}

const BUDGETS = 'c1f0f6de-51a5-5f0e-8b7e-2d1c94f1a3b8'

/** Removes a workspace's budget for one interval, if it has one. Throws 400 for what is no interval, and 404 for the workspace. */
export async function deleteBudget(gateway: PolicyWorld, actor: Actor, idOrSlug: string, said: string) {
  const { id } = reachedWorkspace(gateway, actor, idOrSlug)
  const interval = intervalOf(said)
  const before = budgetsOf(gateway, id).find(one => one.interval === interval)
  if (before) {
    await gateway.store.budgets.remove(before.id, entryOf(gateway, actor, before, null))
    keep(gateway, id, interval, null)
  }
  return { deleted: true as const }
}

/** The budgets of a workspace as what its calls are held to, the broadest first: of several that are exceeded it is the one that is named. */
export function workspaceBounds(gateway: PolicyWorld, workspace_id: string): Bound[] {
  const byok = gateway.memory.workspaces.get(workspace_id)?.include_byok_in_budgets ?? false
  return budgetsOf(gateway, workspace_id).map(({ interval, limit_usd: limit }) => ({
    account: `workspace ${workspace_id}`,
    period: periodOf(interval),
    limit,
    byok,
    message: `Workspace ${interval} budget of ${dollarsOf(limit)} exceeded. Contact your org admin.`,
  }))
}

/** Throws 400 where a narrower interval of one workspace's budgets may spend as much as a broader one. The words are the public service's. */
export function mustDecrease(budgets: Budget[]): void {
  const sorted = budgets.toSorted(byBreadth)
  for (const [i, narrow] of sorted.entries()) {
    const broad = sorted[i - 1]
    if (broad && broad.limit_usd <= narrow.limit_usd)
      throw invalid(
        `Budget limits must be strictly decreasing as scope narrows: the ${limitOf(broad)} must be greater than the ${limitOf(narrow)}.`,
        'limit_usd',
      )
  }
}

const limitOf = ({ interval, limit_usd }: Budget) => `${interval} limit (${dollarsOf(limit_usd).replace(/\.00$/, '')})`

const byBreadth = (a: Budget, b: Budget) => INTERVALS.indexOf(a.interval) - INTERVALS.indexOf(b.interval)

/** Reads every budget, by its workspace. */
export async function readBudgets(store: BudgetStore): Promise<Map<string, Budget[]>> {
  return Map.groupBy((await store.all()).toSorted(byBreadth), budget => budget.workspace_id)
}

const budgetsOf = ({ memory: { budgets } }: PolicyWorld, workspace_id: string): Budget[] => budgets.get(workspace_id) ?? []

/** Takes the place of the interval's budget in memory; null for none. */
function keep(gateway: PolicyWorld, workspace_id: string, interval: Interval, budget: Budget | null): void {
  const others = budgetsOf(gateway, workspace_id).filter(one => one.interval !== interval)
  gateway.memory.budgets.set(workspace_id, (budget ? [...others, budget] : others).toSorted(byBreadth))
}

function intervalOf(said: string): Interval {
  const interval = INTERVALS.find(one => one === said)
  if (!interval) throw invalid(`interval: expected one of ${INTERVALS.join(', ')}`, 'interval')
  return interval
}

const periodOf = (interval: Interval): Period | null => (interval === 'lifetime' ? null : interval)

function entryOf(gateway: PolicyWorld, actor: Actor, before: Budget | undefined, after: Budget | null, byok?: boolean): AuditEntry {
  const verb = before === undefined ? 'create' : after === null ? 'delete' : 'update'
  const { id = '', workspace_id = null } = after ?? before ?? {}
  const told = after && { ...after, ...(byok === undefined ? {} : { include_byok_in_budgets: byok }) }
  return auditEntry(gateway, actor, `budgets.${verb}`, { id, workspace_id }, before ?? null, told)
}

const shownBudget = ({ id, workspace_id, interval, limit_usd, created_at, updated_at }: Budget) => ({
  id,
  workspace_id,
  limit_usd: usdOf(limit_usd),
  reset_interval: periodOf(interval),
  created_at,
  updated_at,
})
