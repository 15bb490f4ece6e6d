import { toUsd } from '../../base/money.ts'
import { defineAudit, identifyById } from '../../resources/audit/entry.ts'
import type { Limit } from '../ledger.ts'
import type { LedgerWorld } from '../world.ts'
import { toPeriod } from './interval.ts'
import type { Budget } from './store.ts'

/** Shows a budget as the wire has it, and what of it is spent in its window. */
export function showBudget(
  world: Pick<LedgerWorld, 'ledger' | 'memory'>,
  { id, workspace_id, interval, limit_usd, soft, created_at, updated_at }: Budget,
) {
  const byok = world.memory.workspaces.get(workspace_id)?.include_byok_in_budgets ?? false
  const period = toPeriod(interval)
  const account = `workspace ${workspace_id}` as const
  return {
    id,
    workspace_id,
    limit_usd: toUsd(limit_usd),
    reset_interval: period,
    soft,
    ...showSpending(world, { account, period, limit: limit_usd, byok }),
    created_at,
    updated_at,
  }
}

/** What is spent of a limit, and what is left of it: our own fields, in USD. */
export interface Spending {
  spent_usd: number
  remaining_usd: number
}

/**
 * Shows what is spent of a limit in its window, and what running calls leave of it.
 */
export function showSpending({ ledger }: Pick<LedgerWorld, 'ledger'>, limit: Limit): Spending {
  const { account, period, byok } = limit
  const own = ledger.getSpent(account, period, false)
  const spent = byok ? own + ledger.getSpent(account, period, true) : own
  const left = ledger.getRemaining(limit)
  return { spent_usd: toUsd(spent), remaining_usd: toUsd(left > 0n ? left : 0n) }
}

/**
 * Creates the audit entry of a change of a budget, including a change of `include_byok_in_budgets`,
 * which applies to the whole workspace.
 */
export const auditBudget = defineAudit<Budget & { include_byok_in_budgets?: boolean }>('budgets', {
  identify: identifyById,
})
