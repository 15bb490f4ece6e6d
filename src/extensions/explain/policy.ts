import { GatewayError } from '../../base/errors.ts'
import { toUsd } from '../../base/money.ts'
import { useLeast } from '../../engine/reserve/waiting.ts'
import { getTreeLimits } from '../../engine/tree.ts'
import { getWholeAccount } from '../../limits/call-budgets.ts'
import { listAppliedGuardrails } from '../../limits/effective.ts'
import type { CompiledRule } from '../../limits/filters/rule.ts'
import type { Bound, CostEstimate, Ledger } from '../../limits/ledger.ts'
import type { Policy } from '../../limits/policy-world.ts'
import type { Finding } from '../../observability/generations/store.ts'
import type { Actor } from '../../resources/actor.ts'
import { canManage, canManageAll } from '../../resources/management.ts'
import type { ExtensionWorld } from '../world.ts'
import type { Explanation } from './explanation.ts'

type PolicyExplanation = Explanation['policy']

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
export async function explainPolicy(
  world: ExtensionWorld,
  { asker, actor, policy }: Question,
  findings: Finding[] | null,
  costEstimate: CostEstimate | null,
): Promise<PolicyExplanation> {
  const applied = listAppliedGuardrails(world, actor).map(
    ({ guardrail: { id, name, workspace_id }, scope }) => {
      return { id, name: canManage(world, asker, workspace_id) ? name : null, scope }
    },
  )
  const unnamed = new Set(applied.flatMap(({ id, name }) => (name === null ? id : [])))
  const isVisible = ({ account }: Bound) =>
    canManageAll(world, asker) || /^(key|workspace) /.test(getWholeAccount(account))
  return {
    guardrails: applied,
    regions: policy.regions,
    tree: getTreeLimits(world.config, actor),
    filters: (await explainFilters(policy, findings)).filter(
      ({ guardrail_id }) => !unnamed.has(guardrail_id),
    ),
    limits: policy.bounds.map(bound => ({
      ...explainLimit(world.ledger, bound, costEstimate),
      ...(isVisible(bound) ? {} : HIDDEN_LIMIT),
    })),
  }
}

const HIDDEN_LIMIT = { limit_usd: null, remaining_usd: null }

// Filters that cannot be compiled refuse the call: its error says so. Each filter of prompts looks
// at the user's words; fewer may look at other words or at the answer.
async function explainFilters(
  { filters }: Policy,
  findings: Finding[] | null,
): Promise<PolicyExplanation['filters']> {
  const opened = await filters?.catch(() => null)
  if (!opened) return []
  const { getInputFilters, outputFilters } = opened
  const promptRules = new Set([
    ...(getInputFilters('user')?.rules ?? []),
    ...(getInputFilters('system')?.rules ?? []),
  ])
  const answerRules = new Set(outputFilters?.rules)
  return [...new Set([...promptRules, ...answerRules])].map(rule => ({
    guardrail_id: rule.guardrail_id,
    filter: rule.filter,
    action: rule.action,
    looks_at: [
      ...(promptRules.has(rule) ? (['prompt'] as const) : []),
      ...(answerRules.has(rule) ? (['answer'] as const) : []),
    ],
    found: findings && countFindings(findings, rule),
  }))
}

const countFindings = (findings: Finding[], { guardrail_id, filter }: CompiledRule): number =>
  findings
    .filter(
      finding =>
        finding.guardrail_id === guardrail_id &&
        finding.filter === filter &&
        finding.where === 'input',
    )
    .reduce((sum, { count }) => sum + count, 0)

function explainLimit(
  ledger: Ledger,
  bound: Bound,
  costEstimate: CostEstimate | null,
): PolicyExplanation['limits'][number] {
  const { account, limit, period, byok, message } = bound
  const remaining = ledger.getRemaining(bound)
  return {
    account,
    limit_usd: toUsd(limit),
    remaining_usd: toUsd(remaining > 0n ? remaining : 0n),
    period,
    include_byok: byok,
    pays: costEstimate && checkPayment(ledger, bound, costEstimate),
    refusal: message,
  }
}

/** Tells whether this bound alone lets the call have what it needs. */
function checkPayment(
  ledger: Ledger,
  bound: Bound,
  costEstimate: CostEstimate,
): 'yes' | 'less' | 'no' {
  const amounts = tryGrant(ledger, bound, costEstimate)
  if (!amounts) return 'no'
  const isClosed = (source: 'own' | 'byok') =>
    costEstimate.maximum[source] !== null && amounts[source] === null
  if (isClosed('own') || isClosed('byok')) return 'no'
  return amounts.own === costEstimate.maximum.own && amounts.byok === costEstimate.maximum.byok
    ? 'yes'
    : 'less'
}

function tryGrant(ledger: Ledger, bound: Bound, costEstimate: CostEstimate) {
  try {
    return ledger.computeGrant(useLeast(costEstimate), [bound])
  } catch (thrown) {
    if (GatewayError.from(thrown).type === 'payment_required') return null
    throw thrown
  }
}

/** Lists the bounds that close a source of money which the call would use. */
export const listExhaustedBounds = (
  ledger: Ledger,
  bounds: Bound[],
  costEstimate: CostEstimate,
): Bound[] => bounds.filter(bound => checkPayment(ledger, bound, costEstimate) === 'no')
