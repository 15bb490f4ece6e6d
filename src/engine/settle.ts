import { readMoment } from '../base/clock.ts'
import type { GatewayError } from '../base/errors.ts'
import { getOwn } from '../base/json.ts'
import {
  computeUpstreamCost,
  countInputTokens,
  countOutputTokens,
  createFreeReceipt,
  createTextUsage,
  hasNoWork,
  hasOutput,
  listUnits,
  type Receipt,
  UNITS,
  type Unit,
  type Usage,
} from '../language/usage.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { keepModel } from '../limits/call-budgets.ts'
import type { Grant } from '../limits/counters.ts'
import type { StepCharge } from '../limits/ledger.ts'
import type {
  BatchResult,
  Generation,
  ProviderResponse,
  RecorderEntry,
} from '../observability/generations/store.ts'
import type { OutboxMessage } from '../observability/outbox.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import { computeCost } from '../resources/prices.ts'
import { getTokenizerFamily } from '../translation/tokenizers/families.ts'
import type { Leftover } from './attempt/leftover.ts'
import { type ExtendedWorld, watchRun } from './extension.ts'
import { isEndpointFault } from './health.ts'
import type { Meter, Metering } from './kind.ts'
import { kinds } from './kinds.ts'
import type { ResolvedModel, RouterReference } from './plan/candidates.ts'
import { buildRouterMemoryKey } from './plan/router-decision.ts'
import { estimatePromptNanos, getEffectiveCall } from './reserve.ts'
import {
  type Attempt,
  hasDestinations,
  isDeparture,
  type OpenedAnswer,
  type Outrun,
  type Run,
  type RunEnding,
  type SentRequest,
  type Step,
} from './run.ts'
import {
  capCost,
  listGenerationSteps,
  raiseToInput,
  sumRunReceipts,
  takeLargerOutput,
} from './settle/receipt.ts'
import { renderTranscript } from './settle/transcript.ts'
import { findSession } from './traffic.ts'
import type { TreeTurn } from './tree.ts'

/** Settles the last step of a run, unless it was settled when another step was to follow. */
export function settleLastStep<K extends Kind>(
  world: ExtendedWorld,
  run: Run<K>,
): void | Promise<void> {
  const { step, ending } = run
  if (step && ending && !step.receipt && !run.isHandedOver) return settleStep(world, step, ending)
}

/**
 * Computes what a step cost, and records what its answer tells of its endpoint and its session. A
 * step without an answer costs nothing, unless its client left while a provider was at work.
 */
export function settleStep<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  ending: RunEnding,
): void | Promise<void> {
  const { answer, meter, outrun } = step
  if (outrun && !outrun.isSettled) return settleOutrun(world, step, outrun, ending)
  if (!answer || !meter) return settleUnanswered(world, step)
  // It may be stopped between the first part and its reading.
  if (isOurEnd(step.run, ending.error) && !meter.delivered) meter.read(answer.first)
  if (answer.leftover && ending.error) return settleLeftover(world, step, answer.leftover, ending)
  return settleAnswer(world, step, ending)
}

function settleAnswer<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  ending: RunEnding,
): void | Promise<void> {
  const { answer, meter } = step
  if (!answer || !meter) return
  const { endpoint } = answer
  const counted = readCount(world, step, endpoint, meter)
  const tokens = counted ? countOutputTokens(counted) : meter.tokensSoFar
  reportHealth(world, answer, ending, tokens)
  judgeToolCalls(world, endpoint, meter, ending.error)
  if (meter.finish?.isUnknown || ending.error?.trouble)
    tellOperator(world, endpoint, meter, ending.error)
  const receipt = computeReceipt(world, step, { endpoint, meter, error: ending.error, counted })
  if (receipt instanceof Promise)
    return receipt.then(estimated => keepReceipt(world, step, endpoint, estimated, ending))
  keepReceipt(world, step, endpoint, receipt, ending)
}

/** Tells the operator what they can mend of how an answer ended that had begun. */
function tellOperator(
  { events }: ExtendedWorld,
  endpoint: Endpoint,
  { finish }: Meter<never>,
  error: GatewayError | null,
): void {
  if (finish?.isUnknown) events.publish('finish.unknown', { endpoint, word: finish.native ?? '' })
  if (error?.trouble && !endpoint.is_byok)
    events.publish('operator.needed', {
      endpoint,
      trouble: error.trouble,
      reason: error.reason?.message ?? null,
    })
}

/** Settles a step of which two endpoints were asked: the one that did not answer in time as well. */
async function settleOutrun<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  outrun: Outrun,
  ending: RunEnding,
): Promise<void> {
  outrun.isSettled = true
  const [slower] = step.unanswered.splice(step.answer ? 0 : 1)
  // Its tokens are no part of the answer's: clients count on those.
  if (slower) {
    outrun.model = slower.endpoint.model
    outrun.receipt = {
      ...(await settleSentRequest(world, step, slower)),
      usage: createTextUsage(0, 0),
    }
  }
  await settleStep(world, step, ending)
}

/** Settles an answer that a client may have left, after reading on to its count. */
async function settleLeftover<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  leftover: Leftover<AnswerPart<K>>,
  ending: RunEnding,
): Promise<void> {
  if (isDeparture(ending.error)) await leftover.readOn(parts => step.meter?.read(parts))
  else leftover.close()
  await settleAnswer(world, step, ending)
}

/**
 * Settles a step without an answer. Whatever made us stop waiting, the prompt is paid that a provider
 * has received: as counted if the provider counts within the limits of reading on, or else as
 * estimated. A provider that fails meanwhile is not paid.
 */
async function settleUnanswered<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
): Promise<void> {
  const [sent, ...others] = step.unanswered
  for (const { leftover } of others) leftover?.close()
  step.receipt = sent
    ? await settleSentRequest(world, step, sent)
    : createFreeReceipt(createTextUsage(0, 0))
}

async function settleSentRequest<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  { endpoint, leftover, received }: SentRequest<K>,
): Promise<Receipt> {
  const { run, plan } = step
  const call = getEffectiveCall(plan?.models ?? [], step.call, endpoint)
  const meter = kinds[run.kind].metering.startMeter(call)
  const read = (parts: AnswerPart<K>[]) => meter.read(parts)
  const outcome = leftover ? await leftover.readOn(read) : 'cut'
  if (outcome === 'failed' && !meter.delivered)
    return leaveUnpaid(step, endpoint, createTextUsage(0, 0))
  if (!meter.delivered) read(received)
  const counted = readCount(world, step, endpoint, meter)
  return outcome === 'ended' && counted
    ? buildReceipt(counted, 'exact', getServedPrices(endpoint, meter))
    : raiseToInput(
        await estimateReceipt(world, step, { endpoint, meter, error: null, counted }),
        estimatePromptNanos(run.kind, call, endpoint),
      )
}

function keepReceipt<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  endpoint: Endpoint,
  receipt: Receipt,
  { error }: RunEnding,
): void {
  step.receipt = receipt
  if (!error) rememberSession(world, step, endpoint, receipt)
  if (receipt.cost_details === null) world.events.publish('price.missing', { endpoint })
}

/** Records how the answer ended, with its output tokens, as a sign of the endpoint's health. */
function reportHealth(
  { traffic: { health } }: ExtendedWorld,
  { endpoint, sentAt }: OpenedAnswer<Kind>,
  { error, cancelled }: RunEnding,
  tokens: number,
) {
  if (error && !cancelled) return health.recordFailure(endpoint, error)
  health.recordEnd(endpoint, sentAt, error ? null : tokens)
}

/**
 * Records how well the endpoint called tools. An answer that broke off counts only if that was the
 * endpoint's fault.
 */
function judgeToolCalls(
  { traffic: { health }, events }: ExtendedWorld,
  endpoint: Endpoint,
  meter: Meter<never>,
  error: GatewayError | null,
): void {
  if (error && !isEndpointFault(error)) return
  const toolCallsValid = meter.hasValidToolCalls(error !== null)
  if (toolCallsValid === null) return
  health.recordToolCalls(endpoint, toolCallsValid)
  events.publish('tools.judged', { endpoint, toolCallsValid })
}

/** Remembers the endpoint that answered, so that the session may stay there. */
function rememberSession<K extends Kind>(
  { traffic: { sessions } }: ExtendedWorld,
  { run, call, plan }: Step<K>,
  endpoint: Endpoint,
  { usage }: Receipt,
): void {
  // One without a name stays where it has hit the cache.
  if (call.session_id === null && usage.input.cache_read === 0) return
  const session = findSession(run.actor, run.kind, call)
  if (!session) return
  sessions.rememberEndpoint(session, endpoint, usage)
  const router = plan && findDecidingRouter(plan.models, endpoint)
  if (router)
    sessions.rememberModel(session, buildRouterMemoryKey(call, router.router), endpoint, usage)
}

/** An answer that has ended: what came of it, and what the provider says it counted. */
interface MeteredAnswer {
  endpoint: Endpoint
  meter: Meter<never>
  error: GatewayError | null
  counted: Usage | null
}

/**
 * Computes the receipt. The provider's count takes precedence. Without one, what was delivered is
 * estimated, and so is what was delivered of an answer that broke off. Nothing delivered, or an
 * answer without output that ended in an error or for no reason, costs nothing (wire reference
 * K.8).
 */
function computeReceipt<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  answer: MeteredAnswer,
): Receipt | Promise<Receipt> {
  const { endpoint, meter, error, counted } = answer
  const brokenOff = step.isCut || (error !== null && meter.finish === null)
  if (counted && !brokenOff)
    return isInsured(step.run, counted, meter, error)
      ? leaveUnpaid(step, endpoint, counted)
      : buildReceipt(counted, 'exact', getServedPrices(endpoint, meter))
  if (!meter.delivered && !isOurEnd(step.run, error))
    return leaveUnpaid(step, endpoint, counted ?? createTextUsage(0, 0))
  return estimateReceipt(world, step, answer)
}

/**
 * Returns the receipt of a request that nobody pays for, such as one whose provider has failed by
 * itself. Its prompt is not taken then.
 */
export function leaveUnpaid<K extends Kind>(
  step: Step<K>,
  endpoint: Endpoint,
  usage: Usage,
): Receipt {
  for (const attempt of step.attempts) if (attempt.endpoint === endpoint) attempt.isTaken = false
  return createFreeReceipt(usage, endpoint.is_byok)
}

/** Estimates what was delivered: no more than was set aside for it. */
async function estimateReceipt<K extends Kind>(
  { tokenizers }: ExtendedWorld,
  { grant, run }: Step<K>,
  { endpoint, meter, counted }: MeteredAnswer,
): Promise<Receipt> {
  const family = getTokenizerFamily(endpoint)
  const estimated = await meter.estimate(texts => tokenizers.count(family, texts))
  const usage = counted ? takeLargerOutput(counted, estimated) : estimated
  const receipt = buildReceipt(usage, 'estimated', getServedPrices(endpoint, meter))
  const held = endpoint.is_byok ? grant?.hold?.amounts.byok : grant?.hold?.amounts.own
  return run.policy.bounds.length > 0 && held != null ? capCost(receipt, held) : receipt
}

/**
 * Tells whether an answer ended because of us: its client left, its key was disabled, a tool took too
 * long, a filter blocked it, the gateway stops. Whoever pays does so whatever the reason was: only
 * what an endpoint fails by itself is not paid.
 */
const isOurEnd = ({ cancellation }: Run, error: GatewayError | null): boolean =>
  error !== null && (cancellation.reason !== null || OUR_ENDS.has(error.type))

/** Errors that end an answer without its endpoint’s doing. */
const OUR_ENDS = new Set<GatewayError['type']>([
  ...(['cancelled', 'unmapped', 'permission_denied', 'payment_required'] as const),
  ...(['unavailable', 'server'] as const),
])

// The insurance is against failing providers, not against an end of our own.
const isInsured = (
  run: Run,
  usage: Usage,
  { finish }: Meter<never>,
  error: GatewayError | null,
): boolean =>
  (error !== null || finish === null || finish.reason === 'error') &&
  !isOurEnd(run, error) &&
  !hasOutput(usage)

/**
 * Returns what the provider counted; null if it did not, or if an answer to the call cannot have
 * these counts. Then what was delivered is estimated, and an alarm is raised.
 */
function readCount<K extends Kind>(
  { events }: ExtendedWorld,
  { run, call }: Step<K>,
  endpoint: Endpoint,
  meter: Meter<AnswerPart<K>>,
): Usage | null {
  const { usage } = meter
  if (!usage) return null
  if (!isPlausible(usage, run.kind, call, endpoint)) {
    events.publish('usage.implausible', { endpoint })
    return null
  }
  return isEmptyCount(usage, meter) ? null : usage
}

// Some relays count 0 and 0 whatever they delivered. No answer of a model has such a count, but the
// text of a filter does: if it stopped the prompt, the model has not read it.
const isEmptyCount = (usage: Usage, meter: Meter<never>) =>
  hasNoWork(usage) && meter.delivered && meter.finish?.reason !== 'content_filter'

/**
 * Builds the receipt of a usage at an endpoint's prices. With their own credential callers pay their
 * provider directly, and the gateway charges nothing for it.
 */
export function buildReceipt(
  usage: Usage,
  usageSource: Receipt['usageSource'],
  { prices, is_byok }: Pick<Endpoint, 'prices' | 'is_byok'>,
): Receipt {
  const { cost, cost_details } = computeCost(usage, prices)
  return { usage, usageSource, cost: is_byok ? 0n : cost, cost_details, is_byok }
}

// A provider may serve at another tier than it was asked for, and charges for that one.
function getServedPrices(
  { prices, tier_prices, is_byok }: Endpoint,
  { start: { service_tier: served } }: Pick<Meter<never>, 'start'>,
): Pick<Endpoint, 'prices' | 'is_byok'> {
  if (tier_prices === null || served === null) return { prices, is_byok }
  return { prices: findTierPrices(tier_prices, served) ?? prices, is_byok }
}

const findTierPrices = (prices: NonNullable<Endpoint['tier_prices']>, served: string) =>
  getOwn(prices, served === 'standard' ? 'default' : served)

/**
 * Returns the tier that `getServedPrices` prices where the provider names one: that, unless the
 * endpoint has prices of tiers and none of it, or else the endpoint's own.
 */
function getPricedTier(
  { service_tier, tier_prices }: Pick<Endpoint, 'service_tier' | 'tier_prices'>,
  served: string,
): string | null {
  const hasPrices = tier_prices === null || findTierPrices(tier_prices, served) !== undefined
  return hasPrices ? served : service_tier
}

/**
 * Charges the last step and records the call, once. Resolves when both are on disk. Nothing of a run
 * that was handed over: its job is. Throws 503 if they could not be written in time.
 */
export function recordRun<K extends Kind>(world: ExtendedWorld, run: Run<K>): void | Promise<void> {
  if (run.isHandedOver) return
  if (!run.renderResult) return writeRecord(world, run, null)
  return run.renderResult().then(result => writeRecord(world, run, result))
}

function writeRecord<K extends Kind>(
  world: ExtendedWorld,
  run: Run<K>,
  result: BatchResult | null,
): Promise<void> {
  const settled = getSettlementTime(world)
  const { step } = run
  // In the transaction of the call itself.
  const others = step?.outrun ? recordCharge(world, step.outrun) : null
  const charge = step ? chargeStep(world, step, settled) : null
  run.release(world.traffic.counters)
  const generation = toGeneration(run, settled.settled_at)
  const transcript = run.transcript && renderTranscript(world, run, generation)
  const outbox = hasDestinations(world)
    ? buildOutbox(world, run as unknown as Run, generation)
    : undefined
  const entry: RecorderEntry = { generation, charge }
  if (transcript) entry.transcript = transcript
  if (outbox) entry.outbox = outbox
  if (result) entry.result = result
  const written = world.recorder.record(entry)
  return others ? Promise.all([written, others]).then(() => undefined) : written
}

/** Forgets what stood for a run until it is on record: its accounts, and its entries in the journal. */
export function forgetRun(_: ExtendedWorld, run: Run): void {
  if (run.isHandedOver) return
  if (run.closers) run.closeSubaccounts()
  forgetEntries(run)
}

const buildOutbox = (
  world: ExtendedWorld,
  run: Run,
  generation: Generation,
): OutboxMessage[] | undefined => (run.watcher ?? watchRun(world, run))?.close(run, generation)

/**
 * Charges a step of a call that goes on; its journal entry stays until that of the next step is
 * written. Resolves when the charge is on disk: before that no other endpoint may be tried. Throws
 * as `recordRun` does.
 */
export async function recordStep<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
): Promise<void> {
  const others = step.outrun ? recordCharge(world, step.outrun) : null
  await recordCharge(world, step)
  await others
}

/** Charges what is settled of a call that goes on. Promises what `recordStep` does. */
export async function recordCharge(world: ExtendedWorld, charged: Chargeable): Promise<void> {
  const charge = chargeStep(world, charged, getSettlementTime(world))
  if (charge) await world.recorder.record({ generation: null, charge })
}

/** What is charged by itself: a step, or the uses of tools in one turn. */
interface Chargeable {
  run: Run
  number: number
  grant: Grant | null
  turn?: TreeTurn | null
  /** The model that it is paid for; absent for none. */
  model?: string | undefined
  receipt: Receipt | null
  isCharged: boolean
}

/** The time of a charge, and its day. */
type SettlementTime = Pick<StepCharge, 'day' | 'settled_at'>

/** Returns the time of a charge that is made now. */
export function getSettlementTime({ clock }: ExtendedWorld): SettlementTime {
  const { day, time } = readMoment(clock)
  return { day, settled_at: time }
}

/** Gives back what a step has taken, and turns its hold into its charge, once. */
function chargeStep(
  { traffic: { counters } }: ExtendedWorld,
  step: Chargeable,
  { day, settled_at }: SettlementTime,
): StepCharge | null {
  const { grant, receipt, number, run, turn } = step
  if (turn) leaveTree(run, turn, receipt)
  if (!grant?.isOpen) return null
  const { hold } = grant
  const tokens = grant.tokens && receipt ? countTokens(receipt) : 0
  if (!hold || !receipt) {
    counters.give(grant, { tokens })
    return null
  }
  const { is_byok: byok, usageSource: source } = receipt
  const { key_hash, user_id, workspace_id, subaccounts } = hold.payer
  const nanos = computeUpstreamCost(receipt) ?? 0n
  // Field by field: copying the rest of an object would cost more than everything else here.
  const charge: StepCharge = {
    key_hash,
    user_id,
    workspace_id,
    id: run.call.id,
    step: number,
    day,
    settled_at,
    byok,
    nanos,
    source,
  }
  if (subaccounts) charge.subaccounts = keepModel(subaccounts, step.model)
  counters.give(grant, { charge, tokens })
  step.isCharged = true
  return charge
}

/** Counts what a turn came to in the budget of its call. */
function leaveTree({ tree }: Run, turn: TreeTurn, receipt: Receipt | null): void {
  const ended = receipt ?? createFreeReceipt(createTextUsage(0, 0))
  tree?.leave(turn, ended.cost ?? 0n, countTokens(ended))
}

const countTokens = ({ usage }: Pick<Receipt, 'usage'>): number =>
  countInputTokens(usage) + countOutputTokens(usage)

/** Finds the last step that was answered. */
export const findAnsweredStep = <K extends Kind>({ steps }: Run<K>): Step<K> | undefined =>
  steps.findLast(({ answer }) => answer !== null)

/**
 * Builds the record of a run, in the order of its columns. The store, its seals, sums, metrics, the
 * feed and destinations read it as it is.
 */
export function toGeneration<K extends Kind>(run: Run<K>, settled_at: string): Generation {
  const { call, actor, ending, firstPartAt, replayed } = run
  const { error = null, endedAt = run.startedAt, cancelled = false } = ending ?? {}
  const last = run.step
  const step = last?.answer ? last : findAnsweredStep(run)
  const [abandoned] = last?.unanswered ?? []
  const endpoint = step?.answer?.endpoint ?? abandoned?.endpoint ?? null
  const meter = step?.meter ?? kinds[run.kind].metering.startMeter(call)
  const receipt = getRunReceipt(run)
  const { usage } = receipt
  const finish = replayed?.finish ?? meter.finish
  const served = meter.start.service_tier
  const broken = error && !cancelled && step ? { step, error } : null
  return {
    id: call.id,
    request_id: call.origin.request_id,
    created_at: run.createdAt,
    workspace_id: actor.workspace_id,
    key_hash: actor.key_hash,
    user_id: actor.user_id,
    api_type: kinds[run.kind].readApiType(call),
    model: replayed?.model ?? endpoint?.model ?? call.models[0] ?? '',
    provider_name: replayed?.provider ?? endpoint?.provider.name ?? null,
    provider_responses: listProviderResponses(run, broken),
    upstream_id: meter.start.upstream_id,
    streamed: call.stream,
    cancelled,
    finish_reason: error ? (cancelled ? 'cancelled' : 'error') : (finish?.reason ?? null),
    native_finish_reason: finish?.native ?? null,
    latency: firstPartAt === null ? null : Math.round(firstPartAt - run.startedAt),
    generation_time: Math.round(endedAt - run.startedAt),
    native_tokens_prompt: countInputTokens(usage),
    native_tokens_completion: countOutputTokens(usage),
    native_tokens_reasoning: usage.output.reasoning,
    native_tokens_cached: usage.input.cache_read,
    native_tokens_completion_images: usage.output.image,
    settled_at,
    total_cost: receipt.cost,
    upstream_inference_cost: computeUpstreamCost(receipt),
    usageSource: receipt.usageSource,
    is_byok: receipt.is_byok,
    service_tier:
      served === null || !endpoint
        ? (endpoint?.service_tier ?? served)
        : getPricedTier(endpoint, served),
    session_id: call.session_id,
    external_user: call.user,
    http_referer: call.origin.http_referer,
    title: call.origin.title,
    user_agent: call.origin.user_agent,
    error_type: cancelled ? 'cancelled' : (error?.type ?? null),
    preset_id: call.preset_id,
    data_region: call.origin.region,
    router: findDecidingRouter(last?.effectivePlan?.models ?? [], endpoint)?.slug ?? null,
    response_cache_source_id: replayed?.source_id ?? null,
    batch_id: call.origin.batch_id ?? null,
    contentFilters: run.filtering?.findings ?? [],
    steps: isOneTurn(run) ? [] : listGenerationSteps(run),
  }
}

/** Returns what a run has cost: its step, as for most, or all its steps and the uses of its tools. */
export const getRunReceipt = (run: Run): Receipt => {
  const { step } = run
  return isOneTurn(run) && step?.receipt && !step.outrun ? step.receipt : sumRunReceipts(run)
}

const isOneTurn = ({ steps, toolMoney, toolLoop, openingUses }: Run): boolean =>
  steps.length === 1 && !toolMoney && toolLoop === null && openingUses.length === 0

/** Lists what came of the attempts of a run, and then of those of runs inside it. */
function listProviderResponses({ steps, inner }: Run, broken: BrokenAnswer): ProviderResponse[] {
  const responses: ProviderResponse[] = []
  for (const { attempts } of steps)
    for (const attempt of attempts) responses.push(toProviderResponse(attempt, broken))
  for (const run of inner) responses.push(...listProviderResponses(run, broken))
  return responses
}

/** An answer that broke off, and why. */
type BrokenAnswer = { step: Step; error: GatewayError } | null

function toProviderResponse(attempt: Attempt, broken: BrokenAnswer): ProviderResponse {
  const { provider, model, upstreamModel, is_byok } = attempt.endpoint
  const error = attempt.error ?? (broken && isOfAttempt(broken, attempt) ? broken.error : null)
  return {
    provider_name: provider.name,
    model_permaslug: model,
    endpoint_id: `${provider.slug}/${upstreamModel}`,
    is_byok,
    latency: attempt.latency,
    status: attempt.status,
    request_id: attempt.request_id,
    ...(attempt.isTaken ? TAKEN : {}),
    error: error && { type: error.type, code: null, message: null, ...error.reason },
    ...(attempt.ignored ? { ignored: attempt.ignored } : {}),
  }
}

const TAKEN = { taken: true as const }

const isOfAttempt = ({ step }: NonNullable<BrokenAnswer>, attempt: Attempt): boolean =>
  step.answer?.endpoint === attempt.endpoint && step.attempts.includes(attempt)

/**
 * Drops the entries of a run in the journal, and of those inside it: all but that of the step that
 * goes on, if there is one.
 */
export function forgetEntries({ steps, toolMoney, inner }: Run, next?: Step): void {
  for (const run of inner) forgetEntries(run)
  for (const { journalEntry } of toolMoney ?? []) journalEntry?.forget()
  for (const step of steps) {
    step.outrun?.journalEntry?.forget()
    if (step !== next) step.journalEntry?.forget()
  }
}

/**
 * Finds the router that picked the endpoint's model, or the first router if no endpoint has
 * answered. Undefined if there is none.
 */
const findDecidingRouter = (
  models: ResolvedModel<Kind>[],
  endpoint: Endpoint | null,
): RouterReference | undefined =>
  models.find(({ model }) => endpoint === null || model.id === endpoint.model)?.router

/**
 * How often a provider may read or write a whole context for one answer: it searches and runs tools
 * of its own, and counts each turn.
 */
const MOST_CONTEXTS = 4

/** The context of a model whose own is unknown, in tokens: no model has a larger one. */
const LARGEST_CONTEXT = 10_000_000

/** Units that a provider may count although the call asked for none. */
const UNASKED_UNITS = 100

/**
 * Tells whether an answer to the call can have these counts: at most four times the endpoint's
 * context for each answer or input, and four times the units that were set aside.
 */
function isPlausible<K extends Kind>(
  usage: Usage,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
): boolean {
  if (usage.isImpossible) return false
  const { billed } = usage
  const tokens = countTokens({ usage })
  const most = billed ? Math.max(tokens, countTokens({ usage: { ...usage, ...billed } })) : tokens
  return fitsContexts(most, kind, call, endpoint) && hasPlausibleUnits(usage, kind, call, endpoint)
}

// Few answers have so many tokens that it matters how many there are of them.
function fitsContexts<K extends Kind>(
  tokens: number,
  kind: K,
  call: Work[K]['call'],
  { context_length }: Endpoint,
): boolean {
  const most = MOST_CONTEXTS * (context_length ?? LARGEST_CONTEXT)
  if (tokens <= most) return true
  const { countShares }: Metering<K> = kinds[kind].metering
  return tokens <= most * countShares(call)
}

function hasPlausibleUnits<K extends Kind>(
  { units }: Usage,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
): boolean {
  if (!units) return true
  const bounds = kinds[kind].costing.boundUnits(call, endpoint)
  const countMost = (unit: Unit) =>
    MOST_CONTEXTS * Math.max(bounds[unit] ?? 0, UNASKED_UNITS * UNITS[unit].partsPerUnit)
  return listUnits(units).every(unit => (units[unit] ?? 0) <= countMost(unit))
}
