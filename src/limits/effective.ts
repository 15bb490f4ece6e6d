import { renderDollars } from '../base/money.ts'
import { REGIONS } from '../language/call.ts'
import type { Actor } from '../resources/actor.ts'
import { getDefaultGuardrailId } from '../resources/default-guardrail.ts'
import { findAssignment } from './assignments.ts'
import { listWorkspaceBounds } from './budgets.ts'
import { buildCallBudgets, type CallBudget } from './call-budgets.ts'
import { listCreditBounds } from './credits.ts'
import { type FilterRule, openFilters } from './filters.ts'
import type { Guardrail } from './guardrails/store.ts'
import type { Account, Bound } from './ledger.ts'
import type { Policy, PolicyWorld } from './policy-world.ts'
import { RATE_FIELDS, type Rate } from './rates.ts'
import { getRules } from './rules.ts'
import { ZDR_GROUPS } from './zdr.ts'

/** Returns the policy of this actor, from memory alone. */
export function getPolicy(world: PolicyWorld, actor: Actor): Policy {
  const name = actor.key_hash
  if (name === null) return buildPolicy(world, actor)
  const cached = world.memory.policies.get(name)
  if (cached) return cached
  const policy = buildPolicy(world, actor)
  world.memory.policies.set(name, policy)
  return policy
}

function buildPolicy(world: PolicyWorld, actor: Actor): Policy {
  const applied = listAppliedGuardrails(world, actor)
  const guardrails = [...new Set(applied.map(({ guardrail }) => guardrail))]
  const filters = applied.flatMap(listFilterRules)
  const rates = actor.key_hash === null ? [] : applied.flatMap(listRates)
  const budgets = actor.key_hash === null ? [] : listCallBudgets(actor, applied)
  const zdr = ZDR_GROUPS.filter(({ field }) => guardrails.some(guardrail => guardrail[field]))
  return {
    bounds: collectBounds(world, actor, applied),
    rules: guardrails.flatMap(guardrail => getRules(world, guardrail)),
    regions: REGIONS.filter(region =>
      guardrails.every(({ allowed_data_regions: allowed }) => allowed?.includes(region) ?? true),
    ),
    ...(zdr.length > 0 ? { zdr } : {}),
    ...getContentShare(world, actor),
    ...(rates.length > 0 ? { rates } : {}),
    ...(budgets.length > 0 ? { budgets } : {}),
    ...(filters.length > 0 ? { filters: openFilters(filters) } : {}),
  }
}

/** Returns the share of calls whose content the actor's workspace keeps. */
function getContentShare(
  { memory }: PolicyWorld,
  { workspace_id }: Actor,
): Pick<Policy, 'contentShare'> {
  const workspace = memory.workspaces.get(workspace_id)
  if (!workspace?.is_observability_io_logging_enabled) return {}
  return { contentShare: workspace.io_logging_sampling_rate }
}

// The first bound that refuses a call names itself, so their order decides which message is shown.
const collectBounds = (world: PolicyWorld, actor: Actor, applied: AppliedGuardrail[]): Bound[] => [
  ...listKeyBounds(world, actor),
  ...applied.flatMap(listGuardrailBounds),
  ...listWorkspaceBounds(world, actor.workspace_id),
  ...listCreditBounds(world),
]

/** Lists the spending limit of the actor's key, if it has one. */
function listKeyBounds(world: PolicyWorld, { key_hash }: Actor): Bound[] {
  const key = key_hash === null ? undefined : world.memory.keys.get(key_hash)
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
interface AppliedGuardrail {
  scope: 'workspace' | 'member' | 'key'
  guardrail: Guardrail
  account: Account
}

/**
 * Lists the guardrails that apply to an actor: the default one of the workspace, the one of the
 * member who made the key, and the key's own (wire reference H.4).
 */
export function listAppliedGuardrails(
  world: PolicyWorld,
  { workspace_id, user_id, key_hash }: Actor,
): AppliedGuardrail[] {
  const assigned = {
    workspace: getDefaultGuardrailId(workspace_id),
    member: findAssignment(world, 'member', user_id),
    key: findAssignment(world, 'key', key_hash ?? ''),
  }
  const findApplied = (
    scope: AppliedGuardrail['scope'],
    id: string | undefined,
    account: Account,
  ): AppliedGuardrail[] => {
    const guardrail = world.memory.guardrails.get(id ?? '')
    return guardrail ? [{ scope, guardrail, account }] : []
  }
  return [
    ...findApplied('workspace', assigned.workspace, `workspace ${workspace_id}`),
    ...findApplied('member', assigned.member?.guardrail_id, `member ${user_id}`),
    ...findApplied('key', assigned.key?.guardrail_id, `key ${key_hash}`),
  ]
}

function listGuardrailBounds({
  guardrail: { limit_usd: limit, reset_interval: period, include_byok_in_budgets: byok },
  account,
}: AppliedGuardrail): Bound[] {
  if (limit === null) return []
  const budget = `Guardrail ${period} budget of ${renderDollars(limit)}`
  const message = `${budget} exceeded. Contact your org admin.`
  return [{ account, period, limit, byok, message }]
}

const listCallBudgets = ({ workspace_id }: Actor, applied: AppliedGuardrail[]): CallBudget[] =>
  applied.flatMap(({ scope, guardrail, account }) => {
    const byok = guardrail.include_byok_in_budgets
    return buildCallBudgets(guardrail.budgets, workspace_id, { scope, account, byok })
  })

function listRates({ scope, guardrail, account }: AppliedGuardrail): Rate[] {
  if (RATE_FIELDS.every(field => guardrail[field] === null)) return []
  const { id, name, requests_per_minute, tokens_per_minute, concurrent_requests } = guardrail
  const limits = { requests_per_minute, tokens_per_minute, concurrent_requests }
  return [{ scope, account, guardrail: { id, name }, ...limits }]
}

function listFilterRules({ scope, guardrail }: AppliedGuardrail): FilterRule[] {
  const {
    id: guardrail_id,
    filterOutput: output,
    content_filter_builtins,
    content_filters,
  } = guardrail
  return [...(content_filter_builtins ?? []), ...(content_filters ?? [])].map(entry => ({
    guardrail_id,
    scope,
    output,
    ...entry,
  }))
}
