import type { Actor } from '../identity/actor.ts'
import { defaultGuardrailId } from '../identity/default-guardrail.ts'
import { dollarsOf } from '../kernel/money.ts'
import { REGIONS, type Region } from '../language/region.ts'
import { creditBounds } from '../ledger/credits.ts'
import type { Account, Bound } from '../ledger/ledger.ts'
import { assignedTo } from './assignments.ts'
import { workspaceBounds } from './budgets.ts'
import { type FilterRule, type Filters, openFilters } from './filters.ts'
import type { Guardrail } from './guardrails/store.ts'
import { type Rule, rulesOf } from './rules.ts'
import type { PolicyWorld } from './world.ts'

/**
 * Everything that applies to an actor's calls, combined. Built once for a key, and dropped when
 * anything that it is built from changes.
 */
export interface Policy {
  /** What may be spent. Each bound is counted by itself. */
  bounds: Bound[]
  /** Where a call may go: to the endpoints that no rule excludes. */
  rules: Rule[]
  /** The regions of the gateway that a call may come in through. */
  regions: Region[]
  /** The content filters of its calls and their answers; absent where there are none. */
  filters?: Promise<Filters>
}

/** Returns the policy of this actor, from memory alone. */
export function policyFor(gateway: PolicyWorld, actor: Actor): Policy {
  const name = actor.key_hash
  if (name === null) return policyOf(gateway, actor)
  const known = gateway.memory.policies.get(name)
  if (known) return known
  const made = policyOf(gateway, actor)
  gateway.memory.policies.set(name, made)
  return made
}

function policyOf(gateway: PolicyWorld, actor: Actor): Policy {
  const applied = appliedTo(gateway, actor)
  const guardrails = [...new Set(applied.map(({ guardrail }) => guardrail))]
  const filters = applied.flatMap(filterRules)
  return {
    bounds: boundsOf(gateway, actor, applied),
    rules: guardrails.flatMap(guardrail => rulesOf(gateway, guardrail)),
    regions: REGIONS.filter(region =>
      guardrails.every(({ allowed_data_regions: allowed }) => allowed?.includes(region) ?? true),
    ),
    ...(filters.length > 0 ? { filters: openFilters(filters) } : {}),
  }
}

// The first bound that refuses a call names itself, so their order decides which message is shown.
const boundsOf = (gateway: PolicyWorld, actor: Actor, applied: Applied[]): Bound[] => [
  ...keyBounds(gateway, actor),
  ...applied.flatMap(guardrailBounds),
  ...workspaceBounds(gateway, actor.workspace_id),
  ...creditBounds(gateway),
]

/** Lists the spending limit of the actor's key, if it has one. */
function keyBounds(gateway: PolicyWorld, { key_hash }: Actor): Bound[] {
  const key = key_hash === null ? undefined : gateway.memory.keys.get(key_hash)
  if (!key || key.limit === null) return []
  const { hash, limit, limit_reset: period, include_byok_in_limit: byok } = key
  return [
    {
      account: `key ${hash}`,
      period,
      limit,
      byok,
      message: `Key limit exceeded (${period ?? 'total'} limit)`,
    },
  ]
}

/** A guardrail that applies to an actor, and the account whose spending it limits. */
export interface Applied {
  scope: 'workspace' | 'member' | 'key'
  guardrail: Guardrail
  account: Account
}

/**
 * Lists the guardrails that apply to an actor: the default one of the workspace, the one of the
 * member who made the key, and the key's own (wire reference H.4).
 */
export function appliedTo(
  gateway: PolicyWorld,
  { workspace_id, user_id, key_hash }: Actor,
): Applied[] {
  const named = {
    workspace: defaultGuardrailId(workspace_id),
    member: assignedTo(gateway, 'member', user_id),
    key: assignedTo(gateway, 'key', key_hash ?? ''),
  }
  const applied = (
    scope: Applied['scope'],
    id: string | undefined,
    account: Account,
  ): Applied[] => {
    const guardrail = gateway.memory.guardrails.get(id ?? '')
    return guardrail ? [{ scope, guardrail, account }] : []
  }
  return [
    ...applied('workspace', named.workspace, `workspace ${workspace_id}`),
    ...applied('member', named.member?.guardrail_id, `member ${user_id}`),
    ...applied('key', named.key?.guardrail_id, `key ${key_hash}`),
  ]
}

function guardrailBounds({
  guardrail: { limit_usd: limit, reset_interval: period, include_byok_in_budgets: byok },
  account,
}: Applied): Bound[] {
  if (limit === null) return []
  const budget = `Guardrail ${period} budget of ${dollarsOf(limit)}`
  const message = `${budget} exceeded. Contact your org admin.`
  return [{ account, period, limit, byok, message }]
}

function filterRules({ scope, guardrail }: Applied): FilterRule[] {
  const {
    id: guardrail_id,
    filterOutput: output,
    content_filter_builtins,
    content_filters,
  } = guardrail
  return [...(content_filter_builtins ?? []), ...(content_filters ?? [])].map(one => ({
    guardrail_id,
    scope,
    output,
    ...one,
  }))
}
