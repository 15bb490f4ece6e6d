import { toPublicPrices } from '../../catalog/models/view.ts'
import type { Endpoint } from '../../catalog/models.ts'
import { toUsd } from '../../kernel/money.ts'
import type { Kind, Work } from '../../language/work.ts'
import { computeCost } from '../../ledger/cost.ts'
import type { Amounts } from '../../ledger/ledger.ts'
import { computeHedgeDelay } from '../attempt.ts'
import { kinds } from '../kinds.ts'
import type { Plan } from '../plan.ts'
import { estimateCost, estimateUsage, limitToHold } from '../reserve.ts'
import type { InferenceWorld } from '../world.ts'
import type { ExplainedEndpoint } from './explanation.ts'

/** What is needed to explain the endpoints of one call. */
export interface RouteExplanation<K extends Kind> {
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
export function explainEndpoint<K extends Kind>(
  world: InferenceWorld,
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
  world: InferenceWorld,
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
  world: InferenceWorld,
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
  world: InferenceWorld,
  { kind, call, amounts }: RouteExplanation<K>,
  endpoint: Endpoint,
): number {
  const { own, byok } = estimateCost(world, kind, call, [endpoint]).maximum
  const needed = own ?? byok ?? 0n
  const allowed = (endpoint.is_byok ? amounts?.byok : amounts?.own) ?? needed
  return Math.min(toUsd(needed), toUsd(allowed))
}

function renderCooldown(
  { traffic: { health }, clock }: InferenceWorld,
  endpoint: Endpoint,
): ExplainedEndpoint['cooldown'] {
  const cooldown = health.findCooldown(endpoint)
  if (!cooldown) return null
  const until = new Date(clock.now().getTime() + cooldown.until - clock.ticks())
  return { until: until.toISOString(), reason: cooldown.reason }
}
