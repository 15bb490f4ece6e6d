import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import { type Ending, watch } from '../kernel/iterate.ts'
import { dayOf } from '../kernel/periods.ts'
import type { Answer } from '../language/answer.ts'
import type { CommonPart, ReceiptPart } from '../language/part.ts'
import {
  countsNothing,
  countsOutput,
  freeReceipt,
  inputTokens,
  outputTokens,
  type Receipt,
  textUsage,
  type Usage,
} from '../language/usage.ts'
import type { AnswerPart, Kind } from '../language/work.ts'
import { costOf } from '../ledger/cost.ts'
import type { Charge } from '../ledger/ledger.ts'
import type { Generation, ProviderResponse } from '../telemetry/generations.ts'
import { familyOf } from '../tokenizers/families.ts'
import type { Begun } from './attempt/try.ts'
import { filteredAnswer } from './filters/answer.ts'
import { isFault } from './health.ts'
import { kinds, type Meter } from './kinds.ts'
import { promptNanos } from './need.ts'
import { memoryOf } from './plan/chosen.ts'
import { routeTo } from './plan/wanted.ts'
import { shownRouting } from './routing-metadata.ts'
import { type Attempt, clientLeft, isAbandoned, type Running } from './running.ts'
import { sessionOf } from './sessions.ts'
import type { InferenceWorld } from './world.ts'

/**
 * The answer with its meter running. At its end the cost is counted and the call recorded, and only then comes the last
 * batch, with the receipt: whoever has read it knows that the record outlives this process.
 */
export function settle<K extends Kind>(gateway: InferenceWorld, running: Running<K>, begun: Begun<K>): Answer<K> {
  const meter = kinds[running.kind].meter(running.call)
  const { endpoint } = begun
  running.soFar = () => soFar(running, endpoint, meter)
  const filtered = filteredAnswer(running, begun, batch => meter.read(batch))
  const parts = watch<AnswerPart<K>[]>(filtered ?? begun, {
    each: batch => {
      if (!filtered) meter.read(batch)
    },
    ended: ending => close(gateway, running, begun, meter, ending),
  })
  const created = Math.floor(running.created.getTime() / 1000)
  return { id: running.call.id, model: endpoint.model, provider: endpoint.provider.name, created, parts }
}

/**
 * Settles a call that no endpoint answered: nothing was delivered, so nothing is charged. Never throws: what the caller must
 * hear of is the failure, not that it could not be written down.
 */
export async function settleFailure<K extends Kind>(gateway: InferenceWorld, running: Running<K>, error: GatewayError): Promise<void> {
  const receipt = freeReceipt(textUsage(0, 0))
  const meter = kinds[running.kind].meter(running.call)
  const outcome = { endpoint: null, meter, receipt, error, ...endOf(gateway, running) }
  await record(gateway, running, outcome).catch(() => undefined)
}

async function close(
  gateway: InferenceWorld,
  running: Running<Kind>,
  { endpoint, sent }: Begun<Kind>,
  meter: Meter<never>,
  ending: Ending,
): Promise<CommonPart[]> {
  const error = errorOf(running, ending)
  const end = endOf(gateway, running)
  if (error && !end.cancelled) gateway.traffic.health.failed(endpoint, error)
  else gateway.traffic.health.ended(endpoint, sent, error ? null : tokensOf(meter))
  judge(gateway, endpoint, meter, error)
  const receipt = await receiptFor(gateway, endpoint, meter, error)
  if (!error) remember(gateway, running, endpoint, receipt)
  let failure = error
  try {
    await record(gateway, running, { endpoint, meter, receipt, error, ...end })
  } catch (thrown) {
    failure ??= GatewayError.from(thrown)
  }
  if (receipt.cost_details === null) gateway.events.publish('price.missing', { endpoint })
  const isGood = !failure && meter.finish?.reason !== 'error'
  const besides =
    running.call.routingMetadata && shownRouting(running, { endpoint, isGood, error: failure, generation_time: end.ended - sent })
  return lastParts(receipt, failure, besides)
}

/** How an answer ends, with its failure, where it has failed. */
function lastParts(receipt: Receipt, failure: GatewayError | null, besides: ReceiptPart['besides']): CommonPart[] {
  const last: ReceiptPart = { type: 'receipt', receipt, besides }
  return failure ? [{ type: 'error', error: besides ? failure.beside(besides) : failure }, last] : [last]
}

/** What the answer tells of how well its endpoint calls tools. One that broke off tells it where that was the endpoint's own fault. */
function judge({ traffic: { health }, events }: InferenceWorld, endpoint: Endpoint, meter: Meter<never>, error: GatewayError | null): void {
  if (error && !isFault(error)) return
  const isSound = meter.isSound(error !== null)
  if (isSound === null) return
  health.judged(endpoint, isSound)
  events.publish('tools.judged', { endpoint, isSound })
}

const tokensOf = ({ usage, soFar }: Meter<never>): number => (usage ? outputTokens(usage) : soFar)

/** Where the conversation is answered, so that it may go on there. */
function remember(gateway: InferenceWorld, { actor, kind, call, plan }: Running<Kind>, endpoint: Endpoint, { usage }: Receipt): void {
  const session = sessionOf(actor, kind, call)
  if (!session) return
  gateway.traffic.sessions.answered(session, endpoint, usage)
  const route = routeTo(plan.models, endpoint)
  if (route) gateway.traffic.sessions.routed(session, memoryOf(call, route.router), endpoint, usage)
}

/** What an answer has come to while it is still being given: its prompt as estimated, and what was delivered by a rule of thumb. */
function soFar<K extends Kind>({ kind, call }: Running<K>, endpoint: Endpoint, meter: Meter<never>): bigint {
  return promptNanos(kind, call, endpoint) + (costOf(textUsage(0, meter.soFar), endpoint.prices).cost ?? 0n)
}

function errorOf(running: Running<Kind>, ending: Ending): GatewayError | null {
  if (ending.how === 'completed') return null
  if (ending.how === 'abandoned' || isAbandoned(running)) return clientLeft()
  return GatewayError.from(ending.thrown)
}

/**
 * The provider's count rules. Without one, what was delivered is estimated, and so is what was delivered of an answer that
 * broke off. Nothing delivered, or an answer without output that ended in an error or for no reason, costs nothing (wire
 * reference K.8).
 */
async function receiptFor(gateway: InferenceWorld, endpoint: Endpoint, meter: Meter<never>, error: GatewayError | null): Promise<Receipt> {
  const counted = meter.usage && !isNoCount(meter.usage, meter) ? meter.usage : null
  const brokenOff = error !== null && meter.finish === null
  const { is_byok } = endpoint
  if (counted && !brokenOff) return isInsured(counted, meter, error) ? freeReceipt(counted, is_byok) : receipt(counted, 'exact', endpoint)
  if (!meter.delivered) return freeReceipt(counted ?? textUsage(0, 0), is_byok)
  const family = familyOf(endpoint)
  const estimated = await meter.estimate(texts => gateway.tokenizers.count(family, texts))
  const usage = counted ? withOutputOf(counted, estimated) : estimated
  return receipt(usage, 'estimated', endpoint)
}

const isInsured = (usage: Usage, { finish }: Meter<never>, error: GatewayError | null): boolean =>
  !countsOutput(usage) && (error !== null || finish === null || finish.reason === 'error')

// A provider that counts the prompt when it begins has not yet counted an answer that is broken off.
const withOutputOf = (counted: Usage, estimated: Usage): Usage =>
  outputTokens(estimated) > outputTokens(counted) ? { ...counted, output: estimated.output } : counted

// Some relays count 0 and 0 whatever they delivered. No answer of a model has such a count, but a filter's own words have: where it
// stopped the question, the model has not read it.
const isNoCount = (usage: Usage, { delivered, finish }: Meter<never>) =>
  delivered && finish?.reason !== 'content_filter' && countsNothing(usage)

// With his own credential the caller pays his provider himself, and the gateway takes nothing for it.
function receipt(usage: Usage, usageSource: Receipt['usageSource'], { prices, is_byok }: Endpoint): Receipt {
  const { cost, cost_details } = costOf(usage, prices)
  return { usage, usageSource, cost: is_byok ? 0n : cost, cost_details, is_byok }
}

/** What the provider charges. Null where nobody knows. */
const upstreamCost = ({ cost_details }: Receipt): bigint | null => cost_details && cost_details.prompt + cost_details.completion

/** The ledger and then the record, once. Resolves when the record outlives this process; who listens for it hears of it then. */
function record(gateway: InferenceWorld, running: Running<Kind>, outcome: Outcome): Promise<void> {
  const settled = gateway.clock.now()
  const charge = chargeFor(running, outcome.receipt, settled)
  if (running.hold && charge) gateway.ledger.settle(running.hold, charge)
  running.forget()
  const recorded = gateway.recorder.record({ generation: generationOf(running, outcome, settled), charge })
  return running.word ? recorded.then(running.word.forget) : recorded
}

function chargeFor({ hold }: Running<Kind>, receipt: Receipt, settled: Date): Charge | null {
  return hold && { ...hold.payer, day: dayOf(settled), byok: receipt.is_byok, nanos: upstreamCost(receipt) ?? 0n }
}

interface Outcome {
  endpoint: Endpoint | null
  meter: Meter<never>
  receipt: Receipt
  error: GatewayError | null
  /** Steady milliseconds: when the answer ended. */
  ended: number
  /** Whether its client had left by then. */
  cancelled: boolean
}

// Seen when the answer ends: what happens while it is being counted is no part of it.
const endOf = (gateway: InferenceWorld, running: Running<Kind>) => ({ ended: gateway.clock.ticks(), cancelled: isAbandoned(running) })

function generationOf(running: Running<Kind>, outcome: Outcome, settled: Date): Generation {
  const { endpoint, meter, receipt, error, ended, cancelled } = outcome
  const { call, actor } = running
  const { usage } = receipt
  return {
    id: call.id,
    request_id: call.origin.request_id,
    created_at: running.created.toISOString(),
    workspace_id: actor.workspace_id,
    key_hash: actor.key_hash,
    user_id: actor.user_id,
    api_type: kinds[running.kind].apiType,
    model: endpoint?.model ?? call.models[0] ?? '',
    provider_name: endpoint?.provider.name ?? null,
    provider_responses: running.attempts.map(told),
    upstream_id: meter.start.upstream_id,
    streamed: call.stream,
    cancelled,
    finish_reason: error ? 'error' : (meter.finish?.reason ?? null),
    native_finish_reason: meter.finish?.native ?? null,
    latency: running.firstPart === null ? null : Math.round(running.firstPart - running.began),
    generation_time: Math.round(ended - running.began),
    native_tokens_prompt: inputTokens(usage),
    native_tokens_completion: outputTokens(usage),
    native_tokens_reasoning: usage.output.reasoning,
    native_tokens_cached: usage.input.cache_read,
    native_tokens_completion_images: usage.output.image,
    settled_at: settled.toISOString(),
    total_cost: receipt.cost,
    upstream_inference_cost: upstreamCost(receipt),
    usageSource: receipt.usageSource,
    is_byok: receipt.is_byok,
    service_tier: meter.start.service_tier,
    session_id: call.session_id,
    external_user: call.user,
    http_referer: call.origin.http_referer,
    title: call.origin.title,
    user_agent: call.origin.user_agent,
    error_type: error?.type ?? null,
    preset_id: call.preset_id,
    data_region: call.origin.region,
    router: routeTo(running.plan.models, endpoint)?.slug ?? null,
    contentFilters: running.filtering?.findings ?? [],
  }
}

const told = ({ endpoint: { provider, model, upstreamModel, is_byok }, latency, status }: Attempt): ProviderResponse => ({
  provider_name: provider.name,
  model_permaslug: model,
  endpoint_id: `${provider.slug}/${upstreamModel}`,
  is_byok,
  latency,
  status,
})
