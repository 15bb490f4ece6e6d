import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../../base/clock.ts'
import { MAX_USD } from '../../base/money.ts'
import { oneOf, open, optional } from '../../base/schema-builders.ts'
import { clampSpent, listUnknown, readTime } from './fields.ts'
import type { KeyRow } from './rows.ts'

/** A key of `GET /keys`. */
export const OpenRouterKey = Type.Object(
  {
    hash: Type.String({ minLength: 32, maxLength: 200 }),
    name: Type.String({ minLength: 1, maxLength: 1_000 }),
    label: optional(Type.String({ maxLength: 1_000 })),
    disabled: optional(Type.Boolean()),
    limit: optional(Type.Number({ minimum: 0, maximum: MAX_USD })),
    limit_remaining: optional(Type.Number()),
    limit_reset: optional(oneOf(...PERIODS)),
    include_byok_in_limit: optional(Type.Boolean()),
    expires_at: optional(Type.String({ maxLength: 40 })),
    usage: optional(Type.Number()),
    usage_daily: optional(Type.Number()),
    usage_weekly: optional(Type.Number()),
    usage_monthly: optional(Type.Number()),
  },
  open,
)
type OpenRouterKey = Static<typeof OpenRouterKey> & Record<string, unknown>

/** Reads a key. Its secret is not known from its hash, so that it gets a new one. */
export function readOpenRouterKey(row: string, key: OpenRouterKey): KeyRow {
  const spent = readSpent(key)
  return {
    ...{ kind: 'key', row, hash: null, external: key.hash, team: null, models: null, spent },
    label: key.label ?? '',
    disabled: key.disabled === true,
    rates: { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null },
    model_budgets: [],
    opens: listUnknown(key, KNOWN),
    lost: [
      'secret: only its service knows it, so that a new one is made',
      ...(spent > 0 ? [`usage: $${spent} of its limit is counted as spent`] : []),
      ...(key.usage && spent === 0 ? ['usage: spending begins at 0'] : []),
      ...(key.workspace_id ? ['workspace_id: --workspace names one here'] : []),
    ],
    input: {
      name: key.name,
      limit: key.limit ?? null,
      limit_reset: key.limit_reset ?? null,
      include_byok_in_limit: key.include_byok_in_limit ?? false,
      expires_at: readTime(key.expires_at),
    },
  }
}

const KNOWN = ['limit', 'limit_remaining', 'limit_reset', 'include_byok_in_limit', 'disabled']

/** Finds what counts against the limit: what is left says it best, as it knows what counts. */
function readSpent({ limit, limit_remaining, limit_reset, ...key }: OpenRouterKey): number {
  if (limit == null) return 0
  const used = (limit_reset ? key[`usage_${limit_reset}`] : undefined) ?? key.usage
  const missing = limit_remaining == null ? 0 : limit - limit_remaining
  return clampSpent(Math.max(missing, limit_remaining == null ? (used ?? 0) : 0))
}
