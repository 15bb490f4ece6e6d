import { defineAudit, identifyById } from '../../identity/audit/entry.ts'
import { toUsd } from '../../kernel/money.ts'
import { LABELS } from '../filters/labels.data.ts'
import type { Guardrail } from './store.ts'

/** Shows a guardrail as the wire has it. */
export function showGuardrail({
  revision: _,
  filterOutput,
  limit_usd,
  content_filter_builtins: builtins,
  ...shown
}: Guardrail) {
  return {
    ...shown,
    content_filter_builtins:
      builtins?.map(builtin => ({ ...builtin, label: LABELS[builtin.slug] })) ?? null,
    limit_usd: limit_usd === null ? null : toUsd(limit_usd),
    // Our own field, shown only where it is set.
    ...(filterOutput ? { filterOutput } : {}),
  }
}

/** Creates the audit entry of a change of a guardrail. */
export const auditGuardrail = defineAudit<Guardrail>('guardrails', {
  identify: identifyById,
  show: showGuardrail,
})
