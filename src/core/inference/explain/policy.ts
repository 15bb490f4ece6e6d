import { GatewayError } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { managesAll, reaches } from '../../identity/management.ts'
import { usdOf } from '../../kernel/money.ts'
import type { Bound, Ledger, Need } from '../../ledger/ledger.ts'
import { appliedTo, type Policy } from '../../policy/effective.ts'
import type { OpenedRule } from '../../policy/filters/rule.ts'
import type { Finding } from '../../telemetry/generations.ts'
import type { InferenceWorld } from '../world.ts'
import type { Explanation } from './explanation.ts'

type Explained = Explanation['policy']

/** The actor who asks for a dry run, the actor whose call it is, and the policy of the latter. */
export interface Question {
  asker: Actor
  actor: Actor
  policy: Policy
}

/**
 * Explains the policy of an actor as far as the asker manages it: a member's guardrail and the
 * credits may belong to others. `findings` are what its filters found in this call, and
 * `costEstimate` is what it may cost; null if the call did not get that far.
 */
export async function explainedPolicy(
  gateway: InferenceWorld,
  { asker, actor, policy }: Question,
  findings: Finding[] | null,
  need: Need | null,
): Promise<Explained> {
  const applied = appliedTo(gateway, actor).map(
    ({ guardrail: { id, name, workspace_id }, scope }) => {
      return { id, name: reaches(gateway, asker, workspace_id) ? name : null, scope }
    },
  )
  const unnamed = new Set(applied.flatMap(({ id, name }) => (name === null ? id : [])))
  const isOurs = ({ account }: Bound) =>
    managesAll(gateway, asker) || account.startsWith('key ') || account.startsWith('workspace ')
  return {
    guardrails: applied,
    regions: policy.regions,
    filters: (await explainedFilters(policy, findings)).filter(
      ({ guardrail_id }) => !unnamed.has(guardrail_id),
    ),
    limits: policy.bounds.map(bound => ({
      ...explainedLimit(gateway.ledger, bound, need),
      ...(isOurs(bound) ? {} : UNTOLD),
    })),
  }
}

const UNTOLD = { limit_usd: null, remaining_usd: null }

// Filters that cannot be compiled refuse the call: its error says so. Each filter of prompts looks
// at the user's words; fewer may look at other words or at the answer.
async function explainedFilters(
  { filters }: Policy,
  findings: Finding[] | null,
): Promise<Explained['filters']> {
  const opened = await filters?.catch(() => null)
  if (!opened) return []
  const { asked, answered } = opened
  const before = new Set([...(asked('user')?.rules ?? []), ...(asked('system')?.rules ?? [])])
  const behind = new Set(answered?.rules)
  return [...new Set([...before, ...behind])].map(rule => ({
    guardrail_id: rule.guardrail_id,
    filter: rule.filter,
    action: rule.action,
    looks_at: [
      ...(before.has(rule) ? (['prompt'] as const) : []),
      ...(behind.has(rule) ? (['answer'] as const) : []),
    ],
    found: findings && countOf(findings, rule),
  }))
}

const countOf = (findings: Finding[], { guardrail_id, filter }: OpenedRule): number =>
  findings
    .filter(
      one => one.guardrail_id === guardrail_id && one.filter === filter && one.where === 'input',
    )
    .reduce((sum, { count }) => sum + count, 0)

function explainedLimit(
  ledger: Ledger,
  bound: Bound,
  need: Need | null,
): Explained['limits'][number] {
  const { account, limit, period, byok, message } = bound
  const left = ledger.left(bound)
  return {
    account,
    limit_usd: usdOf(limit),
    remaining_usd: usdOf(left > 0n ? left : 0n),
    period,
    include_byok: byok,
    pays: need && paidBy(ledger, bound, need),
    refusal: message,
  }
}

/** Tells whether this bound alone lets the call have what it needs. */
function paidBy(ledger: Ledger, bound: Bound, need: Need): 'yes' | 'less' | 'no' {
  const amounts = granted(ledger, bound, need)
  if (!amounts) return 'no'
  const closes = (way: 'own' | 'byok') => need.most[way] !== null && amounts[way] === null
  if (closes('own') || closes('byok')) return 'no'
  return amounts.own === need.most.own && amounts.byok === need.most.byok ? 'yes' : 'less'
}

function granted(ledger: Ledger, bound: Bound, need: Need) {
  try {
    return ledger.grant(need, [bound])
  } catch (thrown) {
    if (GatewayError.from(thrown).type === 'payment_required') return null
    throw thrown
  }
}

/** Lists the bounds that close a source of money which the call would use. */
export const closing = (ledger: Ledger, bounds: Bound[], need: Need): Bound[] =>
  bounds.filter(bound => paidBy(ledger, bound, need) === 'no')
