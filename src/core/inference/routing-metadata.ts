import type { Endpoint } from '../catalog/models.ts'
import type { GatewayError } from '../errors.ts'
import type { Region } from '../language/region.ts'
import type { RoutingPreferences } from '../language/routing.ts'
import type { Plan } from './plan.ts'
import { guardrailStages } from './routing-metadata/guardrail-stages.ts'
import { type Attempt, clientLeft, type Run } from './run.ts'

/** How the models were found that a call was sent to (wire reference K.4). */
export type Strategy = 'direct' | 'auto' | 'free' | 'latest' | 'alias' | 'fallback'

/** Something that was done with a call besides sending it: one of `pipeline` (wire reference K.6). */
export interface Stage {
  type: 'guardrail' | 'plugin' | 'server_tools' | 'response_healing' | 'context_compression'
  name: string
  summary?: string
  guardrail_id?: string
  guardrail_scope?: string
  data?: Record<string, unknown>
}

/** How a call was routed, as its caller may know it (specification, Routing metadata; wire reference K.6). */
export interface RoutingMetadata {
  /** The model as the caller asked for it. */
  requested: string
  strategy: Strategy
  /** By which way into the gateway it came. Never null: where nothing says otherwise that is the global one. */
  region: Region
  summary: string
  /** Which try gave the answer, from 1. Where none did, how many there were; 1 where a guardrail stopped it before the first. */
  attempt: number
  is_byok: boolean
  endpoints: { total: number; available: { provider: string; model: string; selected: boolean }[] }
  attempts?: { provider: string; model: string; status: number }[]
  params?: Record<string, unknown>
  pipeline?: Stage[]
  /** Milliseconds from when the request went out until its answer ended. */
  generation_time?: number
}

/** A call as far as it has come. */
export type Routed = Pick<Run, 'call' | 'plan' | 'attempts' | 'filtering'>

/** What has become of it. */
export interface Outcome {
  /** Who has given an answer, also where that broke off; null where nobody has. */
  endpoint: Endpoint | null
  /** Whether the answer is good. Of one that is not nobody is told to have been selected. */
  isGood: boolean
  error: GatewayError | null
  /** Milliseconds. */
  generation_time: number | null
}

/**
 * What a caller who asked for it is told of the routing, under the name that he asked for; nothing for all others. Nothing beside a 500
 * either, which says no more than that (wire reference L.1).
 */
export function shownRouting(
  routed: Routed,
  outcome: Outcome,
): Record<string, unknown> | undefined {
  const wish = routed.call.routingMetadata
  return wish && outcome.error?.status !== 500
    ? { [wish.name]: routingMetadata(wish.requested, routed, outcome) }
    : undefined
}

/** The failure of a call that nobody has answered, with that beside it. */
export function routedFailure(error: GatewayError, routed: Routed): GatewayError {
  const besides = shownRouting(routed, {
    endpoint: null,
    isGood: false,
    error,
    generation_time: null,
  })
  return besides ? error.beside(besides) : error
}

/** How a call was routed that asked for this model. */
export function routingMetadata(
  requested: string,
  routed: Routed,
  outcome: Outcome,
): RoutingMetadata {
  const { call, plan, attempts } = routed
  const served = outcome.isGood ? outcome.endpoint : null
  const params = paramsOf(call.routing)
  const pipeline = [...guardrailStages(routed.filtering, outcome.error), ...plan.stages]
  return {
    requested,
    strategy: strategyOf(plan, served),
    region: call.origin.region,
    summary: `available=${plan.endpoints.length}${served ? `, selected=${served.provider.name}` : ''}`,
    attempt: attemptOf(routed, outcome),
    is_byok: (served ?? attempts.at(-1)?.endpoint)?.is_byok ?? false,
    endpoints: {
      total: totalOf(plan),
      available: plan.endpoints.map(one => shown(one, one === served)),
    },
    ...(attempts.length > 0 ? { attempts: attempts.map(one => shownAttempt(one, outcome)) } : {}),
    ...(Object.keys(params).length > 0 ? { params } : {}),
    ...(pipeline.length > 0 ? { pipeline } : {}),
    ...(outcome.generation_time === null
      ? {}
      : { generation_time: Math.round(outcome.generation_time) }),
  }
}

const isRouted = ({ strategy }: Plan) => strategy === 'auto' || strategy === 'free'

// A router's own choice among its models is no fallback.
function strategyOf(plan: Plan, served: Endpoint | null): Strategy {
  const wanted = plan.models[0]?.model.id ?? served?.model
  return isRouted(plan) || !served || served.model === wanted ? plan.strategy : 'fallback'
}

function attemptOf({ attempts, filtering }: Routed, { endpoint }: Outcome): number {
  const at = attempts.findIndex(one => one.endpoint === endpoint && !one.error)
  if (at !== -1) return at + 1
  const isBlocked = filtering?.findings.some(
    ({ action, where }) => action === 'block' && where === 'input',
  )
  return attempts.length || Number(isBlocked ?? false)
}

// Of who was dropped the number is told, and not the names.
const totalOf = ({ groups, dropped }: Plan): number =>
  groups.reduce(
    (sum, { turns }) => sum + turns.reduce((all, turn) => all + turn.length, 0),
    dropped.length,
  )

const shown = ({ provider, model }: Endpoint, selected: boolean) => ({
  provider: provider.name,
  model,
  selected,
})

/**
 * The provider's status, where that tells of the failure; else the one that stands for it, as for a refused connection or a stream that
 * broke off. Whoever is still being asked when another has answered is left.
 */
function shownAttempt({ endpoint, status, error }: Attempt, outcome: Outcome) {
  const isAnswer = endpoint === outcome.endpoint
  const failure = error ?? (isAnswer ? brokenOff(outcome) : clientLeft())
  const told = failure && (status ?? 0) < 400 ? failure.status : status
  return { provider: endpoint.provider.name, model: endpoint.model, status: told ?? 200 }
}

// What a content filter made of a good answer is not the provider's.
const brokenOff = ({ error }: Outcome) => (error && error.status >= 500 ? error : null)

/** The thresholds that the caller set, and how he wants endpoints sorted. Speeds in tokens per second, `latencyCeiling` in seconds. */
function paramsOf({
  preferred_min_throughput: least,
  preferred_max_latency: most,
  sort,
  partition,
}: RoutingPreferences) {
  const floor = least && Object.values(least)[0]
  const ceiling = most && Object.values(most)[0]
  return {
    ...(floor === undefined ? {} : { throughput_floor: floor }),
    ...(ceiling === undefined ? {} : { latencyCeiling: ceiling }),
    ...(sort ? { sort } : {}),
    ...(partition ? { partition } : {}),
  }
}
