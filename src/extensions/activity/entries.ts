import { type GatewayError, isCallersFault } from '../../base/errors.ts'
import { toUsd } from '../../base/money.ts'
import { computeProbabilities } from '../../engine/plan/probability.ts'
import type { Attempt, Run, Step } from '../../engine/run.ts'
import { getWholeAccount, parseAccount } from '../../limits/call-budgets.ts'
import type { Bound } from '../../limits/ledger.ts'
import type { Generation } from '../../observability/generations/store.ts'
import { getCallStatus } from '../../observability/generations.ts'
import type { Refusal } from '../../observability/refusals.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { toPublicPrices } from '../../resources/models/view.ts'
import { explainDrop } from '../explain/dropped.ts'
import type { ExtensionWorld } from '../world.ts'

/** The entries of the feed, by type. Times in ISO 8601, lengths in milliseconds, money in USD. */
export type ActivityEntry =
  | Listening
  | CallOpened
  | CallPlanned
  | AttemptStarted
  | AttemptFailed
  | HedgeStarted
  | CallAnswering
  | CallProgress
  | CallFinished
  | CallRefused
  | CircuitOpened
  | CircuitClosed
  | LimitNear
  | ConfigApplied
  | ConfigRejected
  | Alarm
  | State
  | Lost

type KeyOfAny<Union> = Union extends unknown ? keyof Union : never

/** The fields that entries have, of whatever type: the first part of each path into one. */
export const ENTRY_FIELDS: Record<KeyOfAny<ActivityEntry>, true> = {
  ...{ type: true, at: true, id: true, request_id: true, workspace_id: true, key_hash: true },
  ...{ key_name: true, models: true, model: true, app: true, session_id: true, api_type: true },
  ...{ streamed: true, step: true, strategy: true, candidates: true, dropped: true, more: true },
  ...{ endpoint: true, provider: true, status: true, error_type: true, message: true },
  ...{ latency: true, tokens: true, cost: true, provider_name: true, finish_reason: true },
  ...{ attempts: true, generation_time: true, tokens_prompt: true, tokens_completion: true },
  ...{ total_cost: true, path: true, reason: true, seconds_left: true, account: true },
  ...{ name: true, period: true, limit: true, spent: true, share: true, changed: true },
  ...{ needs_restart: true, running_calls: true, draining: true, memory_bytes: true },
  ...{ milliseconds: true, finished: true, failed: true, refused: true, first_part_p50: true },
  ...{ first_part_p95: true, queues: true, endpoints: true, count: true },
  ...{ service_name: true, version: true },
}

interface Entry<Type extends string> {
  type: Type
  at: string
}

/** The first entry that a listener gets. */
export interface Listening extends Entry<'listening'> {
  service_name: string
  version: string
}

export interface CallOpened extends Entry<'call.opened'> {
  id: string
  request_id: string
  workspace_id: string
  key_hash: string | null
  key_name: string | null
  /** The requested models. */
  models: string[]
  app: string | null
  session_id: string | null
  api_type: string
  streamed: boolean
}

/** An endpoint that may serve a call, and the chance that it is tried first. */
export interface Candidate {
  endpoint: string
  provider: string
  model: string
  /** USD per token, as `GET /models` shows them. */
  prompt_price: string
  completion_price: string
  /** From 0 to 1; null if the order is not drawn. */
  probability: number | null
  cooling_down: boolean
}

/** An endpoint that may not serve a call, and why. */
export interface DroppedCandidate {
  provider: string
  model: string
  excluded_by: string
  reason: string
}

export interface CallPlanned extends Entry<'call.planned'> {
  id: string
  step: number
  strategy: string
  candidates: Candidate[]
  dropped: DroppedCandidate[]
  /** How many more there are than are listed. */
  more: number
}

export interface AttemptStarted extends Entry<'attempt.started'> {
  id: string
  endpoint: string
  provider: string
  model: string
}

export interface AttemptFailed extends Entry<'attempt.failed'> {
  id: string
  endpoint: string
  provider: string
  model: string
  status: number | null
  error_type: string
  /** In the provider's words; null where they are for the operator alone. */
  message: string | null
  latency: number
}

export interface HedgeStarted extends Entry<'hedge.started'> {
  endpoint: string
  provider: string
  model: string
}

export interface CallAnswering extends Entry<'call.answering'> {
  id: string
  /** Until the first part. */
  latency: number
}

/** How far a running call is, by a rule of thumb. */
export interface CallProgress extends Entry<'call.progress'> {
  id: string
  tokens: number
  cost: number | null
}

export interface CallFinished extends Entry<'call.finished'> {
  id: string
  request_id: string
  workspace_id: string
  key_hash: string | null
  key_name: string | null
  model: string
  provider_name: string | null
  api_type: string
  streamed: boolean
  status: number
  error_type: string | null
  finish_reason: string | null
  attempts: number
  latency: number | null
  generation_time: number | null
  tokens_prompt: number
  tokens_completion: number
  total_cost: number | null
  app: string | null
  session_id: string | null
}

export interface CallRefused extends Entry<'call.refused'> {
  id: string
  workspace_id: string | null
  key_hash: string | null
  key_name: string | null
  model: string | null
  path: string
  status: number
  error_type: string
  message: string
}

export interface CircuitOpened extends Entry<'circuit.opened'> {
  endpoint: string
  reason: string
  seconds_left: number
}

export interface CircuitClosed extends Entry<'circuit.closed'> {
  endpoint: string
}

/** An account has spent this share of a limit: four fifths, or all of it. */
export interface LimitNear extends Entry<'limit.near'> {
  account: string
  name: string | null
  period: string | null
  limit: number
  spent: number
  share: number
}

export interface ConfigApplied extends Entry<'config.applied'> {
  changed: string[]
  needs_restart: string[]
}

export interface ConfigRejected extends Entry<'config.rejected'> {
  message: string
}

/** Something that an operator should look at. */
export interface Alarm extends Entry<'alarm'> {
  name: string
  message: string
}

/** How an endpoint is doing. Percentiles of the last five minutes; null without measurements. */
export interface EndpointState {
  endpoint: string
  provider: string
  model: string
  cooldown: { reason: string; seconds_left: number } | null
  /** Whether its next call decides whether it has recovered. */
  is_probing: boolean
  /** Of the last five minutes. */
  succeeded: number
  failed: number
  /** Until the first part of streams; where there are none, until whole answers. In milliseconds. */
  latency_p50: number | null
  latency_p95: number | null
  /** Tokens per second. */
  throughput_p50: number | null
}

/** What the server is doing, about once a second, and what it did since the entry before. */
export interface State extends Entry<'state'> {
  running_calls: number
  draining: boolean
  memory_bytes: number
  milliseconds: number
  finished: number
  failed: number
  refused: number
  tokens_prompt: number
  tokens_completion: number
  cost: number
  first_part_p50: number | null
  first_part_p95: number | null
  queues: Queues
  /** Those that were used since the entry before, or are in a cooldown. */
  endpoints: EndpointState[]
}

/** What waits in the server at this moment. */
export interface Queues {
  /** Admitted calls that wait for a turn. */
  calls: number
  /** Finished calls that wait to be recorded. */
  records: number
  /** Calls that destinations are still to be told. */
  deliveries: number
}

/** Entries that the listener did not get, as it was not reading. */
export interface Lost extends Entry<'lost'> {
  count: number
}

/** How many candidates of a plan are listed. */
const MOST_CANDIDATES = 50

export function buildCallOpened(world: ExtensionWorld, at: string, run: Run): CallOpened {
  const { call, actor } = run
  const { http_referer, title } = call.origin
  return {
    ...{ type: 'call.opened', at, id: call.id, request_id: call.origin.request_id },
    workspace_id: actor.workspace_id,
    ...nameKey(world, actor.key_hash),
    models: call.models,
    app: title ?? http_referer ?? null,
    session_id: call.session_id ?? null,
    api_type: run.kind,
    streamed: call.stream,
  }
}

/** Names a key as its owner does. */
export const nameKey = ({ memory }: ExtensionWorld, key_hash: string | null) => {
  const key = key_hash === null ? undefined : memory.keys.get(key_hash)
  return { key_hash, key_name: key ? key.name || key.label : null }
}

export function buildCallPlanned(world: ExtensionWorld, at: string, step: Step): CallPlanned {
  const { run, call, number } = step
  const plan = step.effectivePlan
  const endpoints = plan?.endpoints ?? []
  const dropped = plan?.dropped ?? []
  const chances =
    plan === null || plan.strategy === 'free'
      ? null
      : computeProbabilities(world, run.kind, call, plan.groups)
  const more =
    Math.max(0, endpoints.length - MOST_CANDIDATES) + Math.max(0, dropped.length - MOST_CANDIDATES)
  return {
    ...{ type: 'call.planned', at, id: call.id, step: number, more },
    strategy: plan?.strategy ?? 'direct',
    candidates: endpoints
      .slice(0, MOST_CANDIDATES)
      .map(endpoint => buildCandidate(world, endpoint, chances?.get(endpoint) ?? null)),
    dropped: dropped.slice(0, MOST_CANDIDATES).map(drop => {
      const { provider, model, excluded_by, reason } = explainDrop(run.kind, drop)
      return { provider, model, excluded_by, reason }
    }),
  }
}

function buildCandidate(
  { traffic: { health } }: ExtensionWorld,
  endpoint: Endpoint,
  probability: number | null,
): Candidate {
  const { prompt, completion } = toPublicPrices(endpoint.prices)
  return {
    ...nameEndpoint(endpoint),
    prompt_price: prompt,
    completion_price: completion,
    probability,
    cooling_down: health.getCooldownEnd(endpoint) > 0,
  }
}

export const nameEndpoint = ({ id, provider, model }: Endpoint) => ({
  endpoint: id,
  provider: provider.slug,
  model,
})

export const buildAttemptStarted = (
  at: string,
  id: string,
  { endpoint }: Pick<Attempt, 'endpoint'>,
): AttemptStarted => ({ type: 'attempt.started', at, id, ...nameEndpoint(endpoint) })

/** Builds the entry of a failed attempt, with the reason in the provider's words. */
export const buildAttemptFailed = (
  at: string,
  id: string,
  attempt: Pick<Attempt, 'endpoint' | 'status' | 'latency'> & { error: GatewayError },
): AttemptFailed => ({
  ...{ type: 'attempt.failed', at, id, ...nameEndpoint(attempt.endpoint) },
  status: attempt.status,
  error_type: attempt.error.type,
  message: attempt.error.reason?.message ?? null,
  latency: attempt.latency,
})

/** Hides what a provider says about the operator's account there. */
export const hideReason = (entry: AttemptFailed, error: GatewayError): AttemptFailed => ({
  ...entry,
  message: isCallersFault(error.type) ? entry.message : null,
})

export function buildCallFinished(
  world: ExtensionWorld,
  at: string,
  call: Generation,
): CallFinished {
  return {
    ...{ type: 'call.finished', at, id: call.id, request_id: call.request_id },
    workspace_id: call.workspace_id,
    ...nameKey(world, call.key_hash),
    model: call.model,
    provider_name: call.provider_name,
    api_type: call.api_type,
    streamed: call.streamed,
    status: getCallStatus(call),
    error_type: call.error_type,
    finish_reason: call.finish_reason,
    attempts: call.provider_responses.length,
    latency: call.latency,
    generation_time: call.generation_time,
    tokens_prompt: call.native_tokens_prompt,
    tokens_completion: call.native_tokens_completion,
    total_cost: call.total_cost === null ? null : toUsd(call.total_cost),
    app: call.title ?? call.http_referer,
    session_id: call.session_id,
  }
}

export const buildCallRefused = (
  world: ExtensionWorld,
  at: string,
  { id, workspace_id, key_hash, key, model, path, status, error_type, message }: Refusal,
): CallRefused => ({
  ...{ type: 'call.refused', at, id, workspace_id, model, path, status, error_type, message },
  key_hash,
  key_name: nameKey(world, key_hash).key_name ?? key,
})

export function buildLimitNear(
  world: ExtensionWorld,
  at: string,
  { account, period, limit }: Bound,
  spent: bigint,
): LimitNear {
  const [kind = account, id = null] = account.split(' ')
  const isPart = getWholeAccount(account) !== account
  return {
    ...{ type: 'limit.near', at, account: kind, period },
    name: isPart ? parseAccount(account).id : nameAccount(world, kind, id),
    limit: toUsd(limit),
    spent: toUsd(spent),
    share: limit === 0n ? 1 : Number((spent * 1000n) / limit) / 1000,
  }
}

function nameAccount(world: ExtensionWorld, kind: string, id: string | null): string | null {
  if (id === null) return null
  if (kind === 'key') return nameKey(world, id).key_name ?? id
  if (kind === 'workspace') return world.memory.workspaces.get(id)?.slug ?? id
  return id
}
