import type { Period } from '../../base/clock.ts'
import { toUsd } from '../../base/money.ts'
import { defineAudit } from '../audit/entry.ts'
import type { IdentityWorld } from '../world.ts'
import { KEY_MARKS } from './mirror.ts'
import type { Key } from './store.ts'

/** Shows a key in its wire form, with its spending. */
export function showKey(world: IdentityWorld, key: Key) {
  const spend = (period: Period | null, byok: boolean) =>
    toUsd(world.ledger.getSpent(`key ${key.hash}`, period, byok))
  return {
    hash: key.hash,
    name: key.name,
    label: key.label,
    disabled: key.disabled,
    limit: key.limit === null ? null : toUsd(key.limit),
    limit_remaining: computeLimitRemaining(world, key),
    limit_reset: key.limit_reset,
    include_byok_in_limit: key.include_byok_in_limit,
    usage: spend(null, false),
    usage_daily: spend('daily', false),
    usage_weekly: spend('weekly', false),
    usage_monthly: spend('monthly', false),
    byok_usage: spend(null, true),
    byok_usage_daily: spend('daily', true),
    byok_usage_weekly: spend('weekly', true),
    byok_usage_monthly: spend('monthly', true),
    created_at: key.created_at,
    updated_at: key.updated_at,
    expires_at: key.expires_at,
    creator_user_id: key.creator_user_id,
    external_user: key.external_user,
    workspace_id: key.workspace_id,
  }
}

function computeLimitRemaining(world: IdentityWorld, key: Key): number | null {
  const left = computeLeft(world, key)
  return left === null ? null : toUsd(left)
}

/** Computes what a key may still spend, in nano-dollars; null without a limit. */
function computeLeft(
  { ledger }: Pick<IdentityWorld, 'ledger'>,
  { hash, limit, limit_reset, include_byok_in_limit: byok }: Key,
): bigint | null {
  if (limit === null) return null
  const spent =
    ledger.getSpent(`key ${hash}`, limit_reset, false) +
    (byok ? ledger.getSpent(`key ${hash}`, limit_reset, true) : 0n)
  const left = limit - spent - ledger.getHeld(`key ${hash}`, byok)
  return left > 0n ? left : 0n
}

/** Counts the enabled keys that have spent nine tenths of their limit, and those that have it all. */
export function countSpentKeys(world: Pick<IdentityWorld, 'ledger' | 'memory'>) {
  const counts = { near: 0, spent: 0 }
  for (const key of world.memory.keys.listMarked(KEY_MARKS.limited)) {
    const left = key.disabled ? null : computeLeft(world, key)
    if (left === null || left * 10n > (key.limit ?? 0n)) continue
    if (left === 0n) counts.spent += 1
    else counts.near += 1
  }
  return counts
}

/** Creates the audit entry of a change of a key. */
export const auditKey = defineAudit<Key>('keys', {
  identify: ({ hash, workspace_id }) => ({ id: hash, workspace_id }),
  show: showAuditedKey,
})

// The hash of a partner's key stays private. Its fingerprint still shows whether two are equal.
function showAuditedKey(
  { external_api_key_hash, ...key }: Key,
  { secrets }: IdentityWorld,
): object {
  return {
    ...key,
    external_api_key: external_api_key_hash && secrets.fingerprint(external_api_key_hash),
  }
}
