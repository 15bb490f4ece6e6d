import { defineAudit, identifyById } from '../../identity/audit/entry.ts'
import { toUsd } from '../../kernel/money.ts'
import { toPeriod } from './interval.ts'
import type { Budget } from './store.ts'

/** Shows a budget as the wire has it. */
export const showBudget = ({
  id,
  workspace_id,
  interval,
  limit_usd,
  created_at,
  updated_at,
}: Budget) => ({
  id,
  workspace_id,
  limit_usd: toUsd(limit_usd),
  reset_interval: toPeriod(interval),
  created_at,
  updated_at,
})

/**
 * Creates the audit entry of a change of a budget, including a change of `include_byok_in_budgets`,
 * which applies to the whole workspace.
 */
export const auditBudget = defineAudit<Budget & { include_byok_in_budgets?: boolean }>('budgets', {
  identify: identifyById,
})
