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

/** Who asks what would become of a call, as whom it is made, and what that one is held to. */
export interface Question {
  asker: Actor
  actor: Actor
  policy: Policy
}

/**
 * What an actor's calls are held to, as far as the asker manages that: a member's guardrail and the credits may be others'. `findings` are
 * what its filters found in this one, and `need` is what it may come to; null where the call has not come so far.
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

// Filters that cannot be opened refuse the call: its error says so. Those that look at the user's words are all that look at any; of the
// others and of the answer fewer may.
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

/** Whether this bound alone lets the call have what it needs. */
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

/** The bounds that close a way which the call has. */
export const closing = (ledger: Ledger, bounds: Bound[], need: Need): Bound[] =>
  bounds.filter(bound => paidBy(ledger, bound, need) === 'no')
