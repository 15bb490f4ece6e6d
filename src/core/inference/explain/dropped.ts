import type { Endpoint } from '../../catalog/models.ts'
import type { Amounts, Bound } from '../../ledger/ledger.ts'
import type { Kind } from '../call.ts'
import { kinds } from '../kinds.ts'
import { type Dropped, SENTENCES } from '../plan/refusal.ts'
import { WRONG_ENDPOINT } from '../plan/wishes.ts'
import { isPayable } from '../running.ts'
import type { ExplainedDrop } from './explanation.ts'

/** Ours, not the public list's. */
const NOT_PICKED = 'allow_fallbacks'
const NOT_PAYABLE = 'payment_required'

/** An endpoint that a wish or a guardrail excludes, with the sentence for it. */
export function explainedDrop(kind: Kind, { endpoint, by, rule }: Dropped): ExplainedDrop {
  if (!rule) return drop(endpoint, by, reasonOf(kind, by))
  const guardrail = { id: rule.guardrail_id, field: rule.field }
  return { ...drop(endpoint, by, `${rule.field} of guardrail ${rule.guardrail_id} excludes it`), guardrail }
}

function reasonOf(kind: Kind, by: string): string {
  if (by === 'not_configured') return 'its provider is not configured here'
  if (by === WRONG_ENDPOINT) return `its provider cannot be asked for ${kinds[kind].gives}`
  return SENTENCES[by] ?? by
}

/** Those that would do and are left out, because another one was picked and there shall be no fallback. */
export const notPicked = (candidates: Endpoint[], picked: Endpoint[]): ExplainedDrop[] =>
  candidates
    .filter(endpoint => !picked.includes(endpoint))
    .map(endpoint => drop(endpoint, NOT_PICKED, 'provider.allow_fallbacks is false, and another one comes first'))

/** Those of a plan to which no money can be set aside. */
export const notPayable = (endpoints: Endpoint[], amounts: Amounts, bounds: Bound[]): ExplainedDrop[] =>
  endpoints
    .filter(endpoint => !isPayable(amounts, endpoint))
    .map(endpoint => drop(endpoint, NOT_PAYABLE, bounds.map(({ message }) => message).join(' ')))

const drop = ({ provider, model, is_byok }: Endpoint, excluded_by: string, reason: string): ExplainedDrop => ({
  provider: provider.slug,
  model,
  is_byok,
  excluded_by,
  reason,
  guardrail: null,
})
