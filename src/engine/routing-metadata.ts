import type { GatewayError } from '../base/errors.ts'
import type { Region } from '../language/call.ts'
import type { RoutingPreferences } from '../language/routing.ts'
import type { Finding } from '../observability/generations/store.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import { renderCause } from './attempt/summary.ts'
import type { Filtering } from './filtering.ts'
import type { PipelineStage, Plan, Strategy } from './plan/candidates.ts'
import { buildToolStages } from './routing-metadata/tool-stages.ts'
import { type Attempt, clientLeft, type Run } from './run.ts'

/**
 * How a call was routed, as its caller may see it (specification, Routing metadata; wire reference
 * K.6).
 */
export interface RoutingMetadata {
  /** The model as the caller asked for it. */
  requested: string
  strategy: Strategy
  /**
   * The region of the gateway's address that the call used. Never null: the default is the global
   * one.
   */
  region: Region
  summary: string
  /**
   * Which attempt gave the answer, from 1. Without an answer, how many there were; 1 if a guardrail
   * stopped the call before the first.
   */
  attempt: number
  is_byok: boolean
  endpoints: { total: number; available: { provider: string; model: string; selected: boolean }[] }
  attempts?: { provider: string; model: string; status: number; cause?: unknown }[]
  params?: Record<string, unknown>
  /** The parameters and tools that were left out, as the model that answered has none of them. */
  ignored?: string[]
  pipeline?: PipelineStage[]
  /** Milliseconds from when the request was sent until its answer ended. */
  generation_time?: number
}

/** The parts of a run that routing metadata reads. */
export type RoutingSummary = Pick<Run, 'call' | 'plan' | 'attempts' | 'filtering' | 'toolLoop'> &
  Partial<Pick<Run, 'pluginStages'>>

/** The outcome of a run. */
export interface RoutingOutcome {
  /** The endpoint that gave an answer, even a broken one; null if none did. */
  endpoint: Endpoint | null
  /** Whether the answer is good. If not, no endpoint is shown as selected. */
  isGood: boolean
  error: GatewayError | null
  /** What was left out, as the endpoint has none of it; absent for nothing. */
  ignored?: string[]
  /** Milliseconds. */
  generation_time: number | null
}

/**
 * Renders the routing for a caller who asked for it, under the name that they asked for; undefined
 * for all others. A 500 never has it: it says nothing more (wire reference L.1).
 */
export function renderRouting(
  routed: RoutingSummary,
  outcome: RoutingOutcome,
): Record<string, unknown> | undefined {
  const request = routed.call.routingMetadata
  return request && outcome.error?.status !== 500
    ? { [request.field]: buildRoutingMetadata(request.requestedModel, routed, outcome) }
    : undefined
}

/** Returns the failure of a call without an answer, with the routing beside it. */
export function addRoutingToError(error: GatewayError, routed: RoutingSummary): GatewayError {
  const siblingFields = renderRouting(routed, {
    endpoint: null,
    isGood: false,
    error,
    generation_time: null,
  })
  return siblingFields ? error.with({ siblingFields }) : error
}

/** Builds the routing metadata of a call that asked for this model. */
export function buildRoutingMetadata(
  requested: string,
  routed: RoutingSummary,
  outcome: RoutingOutcome,
): RoutingMetadata {
  const { call, plan, attempts } = routed
  const served = outcome.isGood ? outcome.endpoint : null
  const selected = served ? `, selected=${served.provider.name}` : ''
  const params = renderParams(call.routing)
  const pipeline = [
    ...buildGuardrailStages(routed.filtering, outcome.error),
    ...plan.stages,
    ...findModelStages(plan, outcome.endpoint),
    ...(routed.pluginStages ?? []),
    ...buildToolStages(routed.toolLoop),
  ]
  return {
    requested,
    strategy: pickStrategy(plan, served),
    region: call.origin.region,
    summary: `available=${plan.endpoints.length}${selected}`,
    attempt: findAttemptNumber(routed, outcome),
    is_byok: (served ?? attempts.at(-1)?.endpoint)?.is_byok ?? false,
    endpoints: {
      total: countEndpoints(plan),
      available: plan.endpoints.map(item => renderEndpoint(item, item === served)),
    },
    ...(attempts.length > 0
      ? { attempts: attempts.map(item => renderAttempt(item, outcome)) }
      : {}),
    ...(Object.keys(params).length > 0 ? { params } : {}),
    ...(outcome.ignored?.length ? { ignored: outcome.ignored } : {}),
    ...(pipeline.length > 0 ? { pipeline } : {}),
    ...(outcome.generation_time === null
      ? {}
      : { generation_time: Math.round(outcome.generation_time) }),
  }
}

const ROUTED: Strategy[] = ['auto', 'free', 'pareto']

const isRouted = ({ strategy }: Plan) => ROUTED.includes(strategy)

/** Finds what was done to fit the call to the model that answered, or to the first. */
function findModelStages({ models }: Plan, endpoint: Endpoint | null): PipelineStage[] {
  const served = models.find(({ model }) => model.id === endpoint?.model) ?? models[0]
  return served?.stages ?? []
}

// A router that moves on among its own models is no fallback.
function pickStrategy(plan: Plan, served: Endpoint | null): Strategy {
  const firstModel = plan.models[0]?.model.id ?? served?.model
  return isRouted(plan) || !served || served.model === firstModel ? plan.strategy : 'fallback'
}

function findAttemptNumber(
  { attempts, filtering }: RoutingSummary,
  { endpoint }: RoutingOutcome,
): number {
  const index = attempts.findIndex(attempt => attempt.endpoint === endpoint && !attempt.error)
  if (index !== -1) return index + 1
  const isBlocked = filtering?.findings.some(
    ({ action, where }) => action === 'block' && where === 'input',
  )
  return attempts.length || Number(isBlocked ?? false)
}

// Dropped endpoints are counted but not named.
const countEndpoints = ({ groups, dropped }: Plan): number =>
  groups.reduce(
    (sum, { tiers }) => sum + tiers.reduce((count, tier) => count + tier.length, 0),
    dropped.length,
  )

const renderEndpoint = ({ provider, model }: Endpoint, selected: boolean) => ({
  provider: provider.name,
  model,
  selected,
})

/**
 * The status is the provider's own if that tells of the failure. Otherwise it is that of the error,
 * as for a refused connection or a stream that broke off. An attempt that still runs when another
 * has answered is shown as closed by the client.
 */
function renderAttempt({ endpoint, status, error }: Attempt, outcome: RoutingOutcome) {
  const isAnswer = endpoint === outcome.endpoint
  const failure = error ?? (isAnswer ? findProviderError(outcome) : clientLeft())
  const shownStatus = failure && (status ?? 0) < 400 ? failure.status : status
  return {
    provider: endpoint.provider.name,
    model: endpoint.model,
    status: shownStatus ?? 200,
    ...(failure ? renderCause(failure) : {}),
  }
}

// What a content filter makes of a good answer is not the provider's failure.
const findProviderError = ({ error }: RoutingOutcome) =>
  error && error.status >= 500 ? error : null

/**
 * The thresholds of the caller, and the order that they ask for. Speeds in tokens per second,
 * `latencyCeiling` in seconds.
 */
function renderParams({
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

/**
 * Builds the entries of content filters (wire reference H.6). They count what was found and never
 * quote it, except the phrases that blocked a call: its error shows them anyway.
 */
export const buildGuardrailStages = (
  filtering: Filtering | null,
  error: GatewayError | null,
): PipelineStage[] =>
  filtering?.findings.map((finding, i) => ({
    ...(finding.filter === INJECTION
      ? renderInjectionStage(finding, error)
      : renderContentStage(finding)),
    guardrail_id: finding.guardrail_id,
    guardrail_scope: SCOPES[filtering.rules[i]?.scope ?? 'key'],
  })) ?? []

const INJECTION = 'regex-prompt-injection'

const SCOPES = { workspace: 'workspace', member: 'member', key: 'api-key' } as const

const DONE = { block: 'blocked', redact: 'redacted', flag: 'flagged' } as const

function renderInjectionStage(finding: Finding, error: GatewayError | null): PipelineStage {
  const phrases = finding.action === 'block' ? error?.metadata.patterns : undefined
  const summary = renderSummary(
    finding,
    'prompt injection',
    `${renderCount(finding, 'pattern')} matched`,
  )
  return {
    type: 'guardrail',
    name: 'regex_pi_detection',
    summary,
    data: renderData(finding, phrases),
  }
}

const renderContentStage = (finding: Finding): PipelineStage => ({
  type: 'guardrail',
  name: 'content-filter',
  summary: renderSummary(finding, finding.filter, `found ${renderCount(finding, 'time')}`),
  data: renderData(finding, undefined),
})

function renderSummary({ action }: Finding, subject: string, detail: string): string {
  const done = DONE[action]
  return `${done.slice(0, 1).toUpperCase()}${done.slice(1)}: ${subject} detected (${detail})`
}

const renderCount = ({ count }: Finding, word: string) =>
  `${count} ${word}${count === 1 ? '' : 's'}`

const renderData = ({ filter, action, where, count }: Finding, patterns: unknown = [filter]) => ({
  action: DONE[action],
  detected: true,
  engines: ['regex'],
  patterns,
  where,
  count,
})
