import { omitUndefined } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import { defineAudit, identifyById } from '../../resources/audit/entry.ts'
import { getDefaultGuardrailId } from '../../resources/default-guardrail.ts'
import { type Spending, showSpending } from '../budgets/view.ts'
import { LABELS } from '../filters/labels.data.ts'
import type { Account } from '../ledger.ts'
import type { LedgerWorld } from '../world.ts'
import type { Guardrail, StoredCallBudget } from './store.ts'

/** Shows a guardrail as the wire has it. */
function showGuardrail({
  revision: _,
  filterOutput,
  mcp,
  limit_usd,
  budgets,
  content_filter_builtins: builtins,
  requests_per_minute,
  tokens_per_minute,
  concurrent_requests,
  ...shown
}: Guardrail) {
  return {
    ...shown,
    content_filter_builtins:
      builtins?.map(builtin => ({ ...builtin, label: LABELS[builtin.slug] })) ?? null,
    limit_usd: limit_usd === null ? null : toUsd(limit_usd),
    // Our own fields, shown only where they are set.
    ...(filterOutput ? { filter_output: true as const } : {}),
    ...(mcp === null ? {} : { mcp }),
    ...(budgets === null ? {} : { budgets: budgets.map(showCallBudget) }),
    ...omitUndefined({
      requests_per_minute: requests_per_minute ?? undefined,
      tokens_per_minute: tokens_per_minute ?? undefined,
      concurrent_requests: concurrent_requests ?? undefined,
    }),
  }
}

const showCallBudget = ({ by, name, limit_usd, reset_interval }: StoredCallBudget) => ({
  by,
  ...(name === null ? {} : { name }),
  limit_usd: toUsd(limit_usd),
  reset_interval,
})

/**
 * Shows a guardrail with what is spent of its budget, where that is of one account: the default one
 * counts for its workspace. Another counts for each key and member by itself, as its assignments say.
 */
export const showGuardrailSpending = (world: LedgerWorld, guardrail: Guardrail) => ({
  ...showGuardrail(guardrail),
  ...showOwnSpending(world, guardrail),
})

const showOwnSpending = (world: LedgerWorld, guardrail: Guardrail): Partial<Spending> =>
  guardrail.id === getDefaultGuardrailId(guardrail.workspace_id)
    ? showSpentOf(world, guardrail, `workspace ${guardrail.workspace_id}`)
    : {}

/** Shows what an account has spent of a guardrail's budget; nothing where it has none. */
export const showSpentOf = (
  world: Pick<LedgerWorld, 'ledger'>,
  { limit_usd: limit, reset_interval: period, include_byok_in_budgets: byok }: Guardrail,
  account: Account,
): Partial<Spending> =>
  limit === null ? {} : showSpending(world, { account, period, limit, byok })

/** Creates the audit entry of a change of a guardrail. */
export const auditGuardrail = defineAudit<Guardrail>('guardrails', {
  identify: identifyById,
  show: showGuardrail,
})
