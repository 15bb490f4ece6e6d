import { shownPrices } from '../../catalog/models/shown.ts'
import type { Endpoint } from '../../catalog/models.ts'
import { usdOf } from '../../kernel/money.ts'
import type { Kind, Work } from '../../language/work.ts'
import { costOf } from '../../ledger/cost.ts'
import type { Amounts } from '../../ledger/ledger.ts'
import { hedgeDelay } from '../attempt.ts'
import { kinds } from '../kinds.ts'
import type { Plan } from '../plan.ts'
import { expectedUsage, needOf, withinHold } from '../reserve.ts'
import type { InferenceWorld } from '../world.ts'
import type { ExplainedEndpoint } from './explanation.ts'

/** What is needed to explain the endpoints of one call. */
export interface Route<K extends Kind> {
  kind: K
  call: Work[K]['call']
  plan: Plan<K>
  /** What the limits allow; null if there are none, or they refuse the call. */
  amounts: Amounts | null
  chances: Map<Endpoint, number | null>
  /** The ids of the endpoints that serve the call’s session. */
  places: Set<string>
}

/**
 * Explains an endpoint that would be tried: its cost, its health, and what it would ignore in the
 * call.
 */
export function explainedEndpoint<K extends Kind>(
  gateway: InferenceWorld,
  route: Route<K>,
  endpoint: Endpoint,
): ExplainedEndpoint {
  const { provider, model, upstreamModel, region, quantization, is_byok, prices } = endpoint
  return {
    provider: provider.slug,
    provider_name: provider.name,
    model,
    upstream_model: upstreamModel,
    region,
    quantization,
    is_byok,
    pricing: shownPrices(prices),
    ...(prices
      ? {
          estimated_cost: estimated(gateway, route, endpoint),
          most: most(gateway, route, endpoint),
        }
      : UNPRICED),
    rests: rest(gateway, endpoint),
    latency: gateway.traffic.health.measured(endpoint, 'latency'),
    throughput: gateway.traffic.health.measured(endpoint, 'throughput'),
    hedge_after:
      endpoint === route.plan.endpoints.at(-1) ? null : hedgeDelay(gateway, route, endpoint),
    sound_tool_calls: gateway.traffic.health.quality(endpoint),
    session: route.places.has(endpoint.id),
    chance: route.chances.get(endpoint) ?? null,
    ignored_parameters: kinds[route.kind].understanding.listIgnored(route.call, endpoint),
  }
}

const UNPRICED = { estimated_cost: null, most: null }

// The expected prompt, none of it cached, with all the output that the call may have: how long an
// answer will be is unknown.
function estimated<K extends Kind>(
  gateway: InferenceWorld,
  route: Route<K>,
  endpoint: Endpoint,
): ExplainedEndpoint['estimated_cost'] {
  const { tokens, bounded_by } = outputOf(gateway, route, endpoint)
  const { call, kind } = route
  const usage = expectedUsage(kind, call, tokens * choicesOf(kind, call))
  const { cost, cost_details } = costOf(usage, endpoint.prices)
  if (cost === null || cost_details === null) return null
  const { text, audio, video } = usage.input
  return {
    usd: usdOf(cost),
    prompt: usdOf(cost_details.prompt),
    completion: usdOf(cost_details.completion),
    prompt_tokens: text + audio + video,
    completion_tokens: usage.output.text,
    bounded_by,
  }
}

/** Counts the answers that are paid for: the price of a token of output at a unit price of one. */
const choicesOf = <K extends Kind>(kind: K, call: Work[K]['call']): number =>
  Number(kinds[kind].costing.priceOutputToken(call, { prompt: 0n, completion: 1n }))

/** Computes how many tokens one answer may have, and what bounds them. */
function outputOf<K extends Kind>(
  gateway: InferenceWorld,
  { kind, call, amounts }: Route<K>,
  endpoint: Endpoint,
) {
  const bound = (of: Work[K]['call'], at = endpoint) => kinds[kind].costing.boundOutput(of, at)
  const asked = bound(call) ?? gateway.config.limits.max_tokens
  const payable = amounts
    ? (bound(withinHold(gateway, kind, call, endpoint, { amounts })) ?? asked)
    : asked
  if (payable < asked) return { tokens: payable, bounded_by: 'limit' as const }
  if (bound(call) === null) return { tokens: asked, bounded_by: 'config' as const }
  const isEndpoints = bound(call, { ...endpoint, max_completion_tokens: null }) !== asked
  return { tokens: asked, bounded_by: isEndpoints ? ('endpoint' as const) : ('call' as const) }
}

/** Computes what the call may cost there at most, as far as the limits allow. */
function most<K extends Kind>(
  gateway: InferenceWorld,
  { kind, call, amounts }: Route<K>,
  endpoint: Endpoint,
): number {
  const { own, byok } = needOf(gateway, kind, call, [endpoint]).most
  const needed = own ?? byok ?? 0n
  const allowed = (endpoint.is_byok ? amounts?.byok : amounts?.own) ?? needed
  return Math.min(usdOf(needed), usdOf(allowed))
}

function rest(
  { traffic: { health }, clock }: InferenceWorld,
  endpoint: Endpoint,
): ExplainedEndpoint['rests'] {
  const found = health.restOf(endpoint)
  if (!found) return null
  const until = new Date(clock.now().getTime() + found.until - clock.ticks())
  return { until: until.toISOString(), because: found.because }
}
