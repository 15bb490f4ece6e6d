import { denied, GatewayError } from '../base/errors.ts'
import { toUsd } from '../base/money.ts'
import { computeHedgeDelay } from '../engine/attempt.ts'
import { startRun } from '../engine/infer.ts'
import { kinds } from '../engine/kinds.ts'
import type { CandidateGroup, Plan } from '../engine/plan/candidates.ts'
import { computeProbabilities } from '../engine/plan/probability.ts'
import { useLeast } from '../engine/reserve/waiting.ts'
import {
  estimateCost,
  estimateUsage,
  getEffectiveCall,
  isPayable,
  limitToHold,
} from '../engine/reserve.ts'
import { buildToolStages } from '../engine/routing-metadata/tool-stages.ts'
import { type Run, Step } from '../engine/run.ts'
import { listStagesBeforeSending, runStages } from '../engine/stages.ts'
import { getTreeLimits } from '../engine/tree.ts'
import type { Kind, Work } from '../language/work.ts'
import { getWholeAccount } from '../limits/call-budgets.ts'
import { getPolicy, listAppliedGuardrails } from '../limits/effective.ts'
import type { CompiledRule } from '../limits/filters/rule.ts'
import type { Amounts, Bound, CostEstimate, Ledger } from '../limits/ledger.ts'
import type { Policy } from '../limits/policy-world.ts'
import type { Finding } from '../observability/generations/store.ts'
import {
  type Actor,
  buildKeyActor,
  canManage,
  canManageAll,
  resolveWorkspaceId,
} from '../resources/actor.ts'
import { requireManagedKey } from '../resources/keys.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import { toPublicPrices } from '../resources/models/view.ts'
import { computeCost } from '../resources/prices.ts'
import { explainDrop, explainNotPayable, explainNotPicked } from './explain/dropped.ts'
import type { ExplainedEndpoint, Explanation } from './explain/explanation.ts'
import type { ExtensionWorld } from './world.ts'

export { Explanation } from './explain/explanation.ts'

/**
 * The identity of a dry run: the key of this hash, or no key and a workspace, by default the
 * asker's own.
 */
export interface DryRunIdentity {
  key?: string | undefined
  workspace_id?: string | undefined
}

/**
 * Explains what would become of a call. It runs the same functions as a real call, up to where that
 * would be sent: nothing is counted, set aside, remembered, recorded or sent. `understand` makes
 * the call for the actor of the dry run. Of guardrails and limits that the asker does not manage it
 * shows neither names nor remaining amounts, and only such sums as stand in refusals. Throws 403
 * for an inference key, 404 for a key that the asker does not manage, and 400 for such a workspace.
 * What the call itself would be refused for is part of the explanation.
 */
export async function explain<K extends Kind>(
  world: ExtensionWorld,
  asker: Actor,
  identity: DryRunIdentity,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Explanation> {
  if (asker.kind !== 'management' && asker.kind !== 'operator')
    throw denied('Only management keys can make dry runs')
  const actor = resolveActor(world, asker, identity)
  const dryRun = await makeDryRun(world, actor, kind, understand)
  return buildExplanation(
    world,
    { asker, actor, policy: dryRun.run?.policy ?? getPolicy(world, actor) },
    kind,
    dryRun,
  )
}

function resolveActor(
  world: ExtensionWorld,
  asker: Actor,
  { key, workspace_id }: DryRunIdentity,
): Actor {
  if (key !== undefined) return buildKeyActor(world, requireManagedKey(world, asker, key))
  return {
    kind: 'inference',
    user_id: '',
    workspace_id: resolveWorkspaceId(world, asker, workspace_id),
    key_hash: null,
  }
}

/** A dry run as far as it got. `run` is null if the call could not be parsed. */
interface DryRun<K extends Kind> {
  run: Run<K> | null
  error: GatewayError | null
}

/** Runs the stages of `infer` up to where the call would be sent. */
async function makeDryRun<K extends Kind>(
  world: ExtensionWorld,
  actor: Actor,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<DryRun<K>> {
  let run: Run<K> | null = null
  try {
    run = startRun(world, actor, kind, understand(actor), true)
    await runStages(world, world.stages.open, run)
    if (run.blocked) throw run.blocked
    await runStages(world, listStagesBeforeSending(world.stages.step), new Step(run, run.call))
    return { run, error: null }
  } catch (thrown) {
    return { run, error: GatewayError.from(thrown) }
  }
}

async function buildExplanation<K extends Kind>(
  world: ExtensionWorld,
  question: Question,
  kind: K,
  { run, error }: DryRun<K>,
): Promise<Explanation> {
  const { actor } = question
  const { candidates = null, costEstimate = null, amounts = null } = run?.step ?? {}
  return {
    workspace: {
      id: actor.workspace_id,
      slug: world.memory.workspaces.get(actor.workspace_id)?.slug ?? null,
    },
    key: explainKey(world, actor),
    policy: await explainPolicy(world, question, run?.filtering?.findings ?? null, costEstimate),
    region: run?.call.origin.region ?? null,
    preset: explainPreset(world, run?.call.preset_id ?? null),
    requested: run?.call.models ?? [],
    models: candidates?.models.map(({ model }) => model.id) ?? [],
    strategy: candidates?.strategy ?? null,
    stages: [
      ...(candidates?.stages ?? []),
      ...(candidates?.models[0]?.stages ?? []),
      ...(run?.pluginStages ?? []),
      ...buildToolStages(run?.toolLoop ?? null),
    ],
    endpoints: run?.step ? explainEndpoints(world, kind, run.step) : [],
    dropped: run?.step ? explainDropped(world, kind, run.step) : [],
    set_aside: amounts && { credits: toUsdOrNull(amounts.own), byok: toUsdOrNull(amounts.byok) },
    error: error && renderRefusal(error),
  }
}

function explainKey({ memory: { keys } }: ExtensionWorld, { key_hash }: Actor): Explanation['key'] {
  const key = keys.get(key_hash ?? '')
  return key ? { hash: key.hash, name: key.name, label: key.label } : null
}

function explainPreset(
  { memory: { presets } }: ExtensionWorld,
  preset_id: string | null,
): Explanation['preset'] {
  const preset =
    preset_id === null ? undefined : [...presets.values()].find(({ id }) => id === preset_id)
  return preset
    ? { id: preset.id, slug: preset.slug, version: preset.designated_version.version }
    : null
}

function explainEndpoints<K extends Kind>(
  world: ExtensionWorld,
  kind: K,
  step: Step<K>,
): Explanation['endpoints'] {
  const { call, candidates, plan, amounts, run } = step
  if (!candidates || !plan) return []
  const isStillPayable = (endpoint: Endpoint) => !amounts || isPayable(amounts, endpoint)
  const groups = candidates.groups.map(
    (group): CandidateGroup => ({
      ...group,
      tiers: group.tiers.map(tier => tier.filter(isStillPayable)),
    }),
  )
  const endpoints = plan.endpoints.filter(isStillPayable)
  const route: RouteExplanation<K> = {
    kind,
    call,
    plan: { ...plan, endpoints },
    amounts: run.policy.bounds.length > 0 ? amounts : null,
    // If the models are drawn at random too, each probability is one among the models that were
    // drawn.
    probabilities:
      plan.strategy === 'free' ? new Map() : computeProbabilities(world, kind, call, groups),
    stickyEndpointIds: new Set(groups.flatMap(({ stickyEndpointId }) => stickyEndpointId ?? [])),
  }
  return endpoints.map(endpoint =>
    explainEndpoint(
      world,
      { ...route, call: getEffectiveCall(plan.models, call, endpoint) },
      endpoint,
    ),
  )
}

function explainDropped<K extends Kind>(
  { ledger }: ExtensionWorld,
  kind: K,
  step: Step<K>,
): Explanation['dropped'] {
  const { candidates, plan, costEstimate, amounts, run } = step
  const excluded = candidates?.dropped.map(drop => explainDrop(kind, drop)) ?? []
  if (!candidates || !plan) return excluded
  const known = [...plan.endpoints, ...candidates.dropped.map(({ endpoint }) => endpoint)]
  const passedOver = explainNotPicked(
    candidates.groups.flatMap(({ tiers }) => tiers.flat()),
    known,
  )
  const unpaid =
    costEstimate && amounts
      ? explainNotPayable(
          plan.endpoints,
          amounts,
          listExhaustedBounds(ledger, run.policy.bounds, costEstimate),
        )
      : []
  return [...excluded, ...passedOver, ...unpaid]
}

const toUsdOrNull = (nanos: bigint | null): number | null => (nanos === null ? null : toUsd(nanos))

/** Renders the failure as the error envelope does, without the ids of a request. */
const renderRefusal = ({
  status,
  type,
  message,
  metadata,
}: GatewayError): Explanation['error'] => ({
  code: status,
  message,
  metadata: { error_type: type, ...metadata },
})

/** What is needed to explain the endpoints of one call. */
interface RouteExplanation<K extends Kind> {
  kind: K
  call: Work[K]['call']
  plan: Plan<K>
  /** What the limits allow; null if there are none, or they refuse the call. */
  amounts: Amounts | null
  probabilities: Map<Endpoint, number | null>
  /** The ids of the endpoints that serve the call’s session. */
  stickyEndpointIds: Set<string>
}

/**
 * Explains an endpoint that would be tried: its cost, its health, and what it would ignore in the
 * call.
 */
function explainEndpoint<K extends Kind>(
  world: ExtensionWorld,
  route: RouteExplanation<K>,
  endpoint: Endpoint,
): ExplainedEndpoint {
  const { provider, model, upstreamModel, region, quantization, service_tier } = endpoint
  const { is_byok, prices } = endpoint
  return {
    provider: provider.slug,
    provider_name: provider.name,
    model,
    upstream_model: upstreamModel,
    region,
    quantization,
    service_tier,
    is_byok,
    pricing: toPublicPrices(prices),
    ...(prices
      ? {
          estimated_cost: estimateEndpointCost(world, route, endpoint),
          max_cost: computeMaxCost(world, route, endpoint),
        }
      : UNPRICED),
    cooldown: renderCooldown(world, endpoint),
    latency: world.traffic.health.getPercentiles(endpoint, 'latency'),
    throughput: world.traffic.health.getPercentiles(endpoint, 'throughput'),
    hedge_after:
      endpoint === route.plan.endpoints.at(-1) ? null : computeHedgeDelay(world, route, endpoint),
    sound_tool_calls: world.traffic.health.getToolCallQuality(endpoint),
    session: route.stickyEndpointIds.has(endpoint.id),
    probability: route.probabilities.get(endpoint) ?? null,
    ignored_parameters: kinds[route.kind].understanding.listIgnored(route.call, endpoint),
  }
}

const UNPRICED = { estimated_cost: null, max_cost: null }

// The expected prompt, none of it cached, with all the output that the call may have: how long an
// answer will be is unknown.
function estimateEndpointCost<K extends Kind>(
  world: ExtensionWorld,
  route: RouteExplanation<K>,
  endpoint: Endpoint,
): ExplainedEndpoint['estimated_cost'] {
  const { tokens, bounded_by } = computeOutputBound(world, route, endpoint)
  const { call, kind } = route
  const usage = estimateUsage(kind, call, tokens * countChoices(kind, call))
  const { cost, cost_details } = computeCost(usage, endpoint.prices)
  if (cost === null || cost_details === null) return null
  const { text, audio, video } = usage.input
  return {
    usd: toUsd(cost),
    prompt: toUsd(cost_details.prompt),
    completion: toUsd(cost_details.completion),
    prompt_tokens: text + audio + video,
    completion_tokens: usage.output.text,
    bounded_by,
  }
}

/** Counts the answers that are paid for: the price of a token of output at a unit price of one. */
const countChoices = <K extends Kind>(kind: K, call: Work[K]['call']): number =>
  Number(kinds[kind].costing.priceOutputToken(call, { prompt: 0n, completion: 1n }))

/** Computes how many tokens one answer may have, and what bounds them. */
function computeOutputBound<K extends Kind>(
  world: ExtensionWorld,
  { kind, call, amounts }: RouteExplanation<K>,
  endpoint: Endpoint,
) {
  const bound = (effectiveCall: Work[K]['call'], atEndpoint = endpoint) =>
    kinds[kind].costing.boundOutput(effectiveCall, atEndpoint)
  const requested = bound(call) ?? world.config.limits.max_tokens
  const payable = amounts
    ? (bound(limitToHold(world, kind, call, endpoint, { amounts })) ?? requested)
    : requested
  if (payable < requested) return { tokens: payable, bounded_by: 'limit' as const }
  if (bound(call) === null) return { tokens: requested, bounded_by: 'config' as const }
  const isEndpoints = bound(call, { ...endpoint, max_completion_tokens: null }) !== requested
  return { tokens: requested, bounded_by: isEndpoints ? ('endpoint' as const) : ('call' as const) }
}

/** Computes what the call may cost there at most, as far as the limits allow. */
function computeMaxCost<K extends Kind>(
  world: ExtensionWorld,
  { kind, call, amounts }: RouteExplanation<K>,
  endpoint: Endpoint,
): number {
  const { own, byok } = estimateCost(world, kind, call, [endpoint]).maximum
  const needed = own ?? byok ?? 0n
  const allowed = (endpoint.is_byok ? amounts?.byok : amounts?.own) ?? needed
  return Math.min(toUsd(needed), toUsd(allowed))
}

function renderCooldown(
  { traffic: { health }, clock }: ExtensionWorld,
  endpoint: Endpoint,
): ExplainedEndpoint['cooldown'] {
  const cooldown = health.findCooldown(endpoint)
  if (!cooldown) return null
  const until = new Date(clock.now().getTime() + cooldown.until - clock.ticks())
  return { until: until.toISOString(), reason: cooldown.reason }
}

type PolicyExplanation = Explanation['policy']

/** The actor who asks for a dry run, the actor whose call it is, and the policy of the latter. */
interface Question {
  asker: Actor
  actor: Actor
  policy: Policy
}

/**
 * Explains the policy of an actor as far as the asker manages it: a member's guardrail and the
 * credits may belong to others. `findings` are what its filters found in this call, and
 * `costEstimate` is what it may cost; null if the call did not get that far.
 */
async function explainPolicy(
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
const listExhaustedBounds = (
  ledger: Ledger,
  bounds: Bound[],
  costEstimate: CostEstimate,
): Bound[] => bounds.filter(bound => checkPayment(ledger, bound, costEstimate) === 'no')
