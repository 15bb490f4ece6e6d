import type { Cancellation } from '../base/cancellation.ts'
import { LONGEST_TURN, yieldToEventLoop } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import { isObject } from '../base/json.ts'
import type { CallBase } from '../language/call.ts'
import type { CommonPart } from '../language/part.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { type AnswerObserver, openAnswer, type ResponseHead } from '../network/answer.ts'
import { authorize } from '../network/authorize.ts'
import type { OutgoingRequest } from '../network/egress.ts'
import { buildTraceparent } from '../observability/destinations/trace-context.ts'
import type { Catalog, Endpoint } from '../resources/models/catalog.ts'
import type { PooledCredential, Provider } from '../resources/providers/provider.ts'
import { buildReason } from '../translation/protocols/failure.ts'
import type { Protocol, UpstreamRequest } from '../translation/protocols/protocol.ts'
import { protocols } from '../translation/protocols/registry.ts'
import {
  createLimitsReader,
  pickCredential,
  restCredential,
  toSentEndpoint,
} from './attempt/credentials.ts'
import { raceEndpoints } from './attempt/hedge.ts'
import { Leftover } from './attempt/leftover.ts'
import { filterReason } from './attempt/reason.ts'
import {
  divideCall,
  findMostItems,
  type Merging,
  openShares,
  readToldBound,
  tellsBound,
} from './attempt/shares.ts'
import { type AttemptFailure, isWorthFallback, summarizeFailures } from './attempt/summary.ts'
import { type ExtendedWorld, fitContents, sendThrough } from './extension.ts'
import type { Asked, KindOfWork, Understanding } from './kind.ts'
import { kinds } from './kinds.ts'
import type { Plan } from './plan/candidates.ts'
import { sortByNumber } from './plan/order.ts'
import { unknownModel } from './plan/refusal.ts'
import { getEffectiveCall, limitToHold } from './reserve.ts'
import {
  isAbandoned,
  isDeparture,
  type OpenedAnswer,
  type Run,
  type RunningAttempt,
  type SentRequest,
  type Step,
} from './run.ts'
import type { LargeAnswer } from './traffic/admission.ts'
import type { Permit } from './traffic.ts'
import type { TreeTurn } from './tree.ts'

/**
 * Tries the plan's endpoints in order until one gives a first meaningful part. A 5xx, a 429, a
 * timeout, a refused connection or a stream that breaks before that moves on to the next endpoint.
 * What one provider of a model refuses as invalid the others would refuse too, so that moves on to
 * the next model. While the call has time, each endpoint is asked once, and those in a cooldown
 * last; only the retry budget bounds that. If the call or the config asks for hedges, another
 * endpoint is tried beside a slow one. Throws the last failure, with the attempts in
 * `metadata.previous_errors`. The step has the answer once that begins.
 */
export async function attemptStep<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
): Promise<void> {
  step.isSent = true
  const queue = new AttemptQueue<K>(world, step)
  for (let attempt = queue.next(); attempt; attempt = queue.next()) {
    try {
      const delay = computeHedgeDelay(world, step, attempt.endpoint)
      const answer = await (delay === null
        ? tryEndpoint(world, step, attempt, queue.echoes)
        : raceAttempt(world, attempt, { step, queue, delay }))
      if (!answer) continue
      step.answer = answer
      return
    } catch (thrown) {
      queue.addFailure(attempt, thrown)
    } finally {
      queue.release(attempt)
    }
  }
  throw (
    step.run.blocked ??
    findUnknownName(world, queue.failures) ??
    summarizeFailures(step.call, queue.failures, queue.findUntriedWait())
  )
}

// What neither the catalogue nor the provider knows is no failure of the provider.
function findUnknownName({ catalog }: ExtendedWorld, failures: AttemptFailure[]) {
  const [first] = failures
  const isUnknown = failures.every(({ endpoint, error }) => isMisspelt(catalog, endpoint, error))
  return first && isUnknown ? unknownModel(catalog, first.endpoint.model) : undefined
}

const isMisspelt = ({ models }: Catalog, { model }: Endpoint, { trouble }: GatewayError) =>
  trouble === 'model' && models.get(model)?.unlisted === 'passed'

// A function of its own, so that calls without a hedge make no closure.
const raceAttempt = <K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  { step, queue, delay }: { step: Step<K>; queue: AttemptQueue<K>; delay: number },
): Promise<OpenedAnswer<K> | null> =>
  raceEndpoints(world, attempt, {
    step,
    queue,
    delay,
    sendAttempt: racing => tryEndpoint(world, step, racing, queue.echoes),
  })

/**
 * Computes after how many milliseconds without a first part another endpoint is tried beside this
 * one: as the call says, or once 95 of 100 answers have begun there. Null if none is: hedges are
 * off, the config forbids them, there are too few measurements, or the answer is not streamed. How
 * long whole answers take to begin is not measured.
 */
export function computeHedgeDelay(
  { config, traffic: { health } }: ExtendedWorld,
  { call, plan }: { call: Work[Kind]['call']; plan: Pick<Plan, 'endpoints'> | null },
  endpoint: Endpoint,
): number | null {
  const defaultHedge = config.routing.hedge
  if (defaultHedge === 'never' || !call.stream || !plan || plan.endpoints.length < 2) return null
  const { hedge = defaultHedge } = call.routing
  if (hedge === false) return null
  return (hedge === true ? null : hedge.after_ms) ?? health.getTailLatency(endpoint)
}

/** How often a call is asked for again in smaller requests: half of them each time ends before. */
const MOST_TOLD = 12

/** The endpoints of a plan that are still to be tried, and the failures of those that were. */
class AttemptQueue<K extends Kind> {
  readonly failures: AttemptFailure[] = []
  /** The requests that were sent, for a caller who asked to see them. */
  readonly echoes: AnswerPart<K>[] = []
  readonly #world: ExtendedWorld
  readonly #endpoints: Endpoint[]
  readonly #plan: Plan<K> | null
  readonly #run: Run<K>
  /** When no further attempt begins, in steady milliseconds. */
  readonly #deadline: number
  readonly #triedEndpoints: Endpoint[] = []
  /**
   * An attempt to make again: in smaller requests, as its server has told how many items it takes, or
   * with another credential.
   */
  #again: RunningAttempt | null = null
  #toldTries = 0
  /** The credentials of a provider with several that were tried at the last endpoint. */
  #triedCredentials: Set<PooledCredential> | null = null
  readonly #turn: TreeTurn | null
  #isStopped = false

  constructor(world: ExtendedWorld, { plan, run, turn }: Step<K>) {
    this.#turn = turn
    this.#world = world
    this.#endpoints = plan?.endpoints ?? []
    this.#plan = plan
    this.#run = run
    this.#deadline = run.startedAt + world.config.timeouts.total_seconds * 1000
  }

  /**
   * Returns the next attempt: at the first untried endpoint of the plan whose model has not refused
   * the call. Those in a cooldown come last: those that only asked to wait after the others of their
   * model, all others after every model. The first attempt at each model that the caller names is
   * free, and so is a second attempt at an endpoint that is well; any other takes a permit that
   * `release` gives back. Undefined if there is no endpoint, permit or time left.
   */
  next(): RunningAttempt | undefined {
    if (this.#isOver()) return undefined
    if (this.#again) return this.#takeAgain(this.#again)
    const last = this.#triedEndpoints.at(-1)
    const waiting = last && this.#findWaiting(last)
    return waiting ?? this.#findAvailable() ?? this.#findCooling(this.#endpoints)
  }

  /** Returns an attempt to make beside a running one. It always takes a retry permit. */
  nextHedge(): RunningAttempt | undefined {
    const { health, retryBudget } = this.#world.traffic
    if (this.#isOver() || !retryBudget.tryAcquire('hedge')) return undefined
    const found = this.#endpoints.find(
      endpoint => this.#isEligible(endpoint) && health.tryAdmit(endpoint),
    )
    if (!found) retryBudget.release('hedge', false)
    return found && this.#createAttempt(found, 'hedge')
  }

  /** Records a failed attempt. A client that leaves is no failure of the endpoint. */
  addFailure(attempt: RunningAttempt, thrown: unknown): void {
    const { endpoint, status, request_id, latency } = attempt
    const error = GatewayError.from(thrown)
    const told = this.#readTold(attempt, error)
    if (told !== undefined) this.#tell(attempt, told)
    else if (attempt.isCredentialsOwn) this.#tryOtherCredential(endpoint)
    const isOwn =
      told !== undefined ||
      (attempt.isInexpressible && !namesOption(error)) ||
      (this.#run.kind !== 'text' && tellsBound(error))
    this.failures.push({ endpoint, status, error, isOwn })
    if (!isDeparture(error))
      this.#world.events.publish('attempt.failed', {
        id: this.#run.call.id,
        workspace_id: this.#run.actor.workspace_id,
        ...{ endpoint, error, status, request_id, latency },
      })
    // With their own credential, callers are the ones who can mend it.
    if (error.trouble && !endpoint.is_byok && !isMisspelt(this.#world.catalog, endpoint, error))
      this.#world.events.publish('operator.needed', {
        endpoint,
        trouble: error.trouble,
        reason: error.reason?.message ?? null,
        ...(attempt.credential ? { credential: attempt.credential.name } : {}),
      })
    if (error.type === 'server' || this.#run.blocked || this.#run.cancellation.reason)
      this.#isStopped = true
  }

  /** Gives back the permit of an attempt that is over. */
  release({ endpoint, permit }: RunningAttempt): void {
    if (!permit) return
    const hasFailed = this.failures.some(
      failure => failure.endpoint === endpoint && !isDeparture(failure.error),
    )
    this.#world.traffic.retryBudget.release(permit, hasFailed)
  }

  /**
   * Returns in how many seconds the first of the endpoints that were not tried may be asked again;
   * undefined if none of them has asked to wait.
   */
  findUntriedWait(): number | undefined {
    const { clock, traffic } = this.#world
    const waits = this.#endpoints.flatMap(endpoint => {
      if (!this.#isEligible(endpoint) || !this.#hasAskedToWait(endpoint)) return []
      return Math.ceil((traffic.health.getCooldownEnd(endpoint) - clock.ticks()) / 1000)
    })
    return waits.length > 0 ? Math.min(...waits) : undefined
  }

  #takeAgain(again: RunningAttempt): RunningAttempt {
    this.#again = null
    return again
  }

  // It is no other endpoint, and so none of those that were tried.
  #tell({ endpoint, credential }: RunningAttempt, most: number): void {
    if (this.#toldTries === MOST_TOLD) return
    this.#toldTries += 1
    this.#again = { ...this.#createAttempt(endpoint, null, credential), most }
    this.#triedEndpoints.pop()
  }

  // The endpoint is well, so this needs no permit.
  #tryOtherCredential(endpoint: Endpoint): void {
    const credential = this.#pickCredential(endpoint, this.#triedCredentials)
    if (!credential) return
    this.#again = this.#createAttempt(endpoint, null, credential)
    this.#triedEndpoints.pop()
  }

  #pickCredential(
    endpoint: Endpoint,
    tried: Set<PooledCredential> | null,
  ): PooledCredential | undefined {
    const credential = pickCredential(this.#world, this.#run, endpoint, tried)
    if (credential) this.#triedCredentials = (tried ?? new Set()).add(credential)
    return credential
  }

  /** Returns how many items the server of an attempt takes, if it has told that it takes fewer. */
  #readTold({ endpoint, most }: RunningAttempt, error: GatewayError): number | undefined {
    const { call, kind } = this.#run
    const { division }: KindOfWork<K> = kinds[kind]
    if (!division) return undefined
    const known = findMostItems(getProtocol(kind, endpoint), endpoint, most)
    return readToldBound(error, Math.min(division.countItems(call), known))
  }

  #isOver(): boolean {
    return (
      this.#isStopped ||
      this.#turn?.hasCalls() === false ||
      (this.#triedEndpoints.length > 0 && this.#world.clock.ticks() >= this.#deadline)
    )
  }

  #createAttempt(
    endpoint: Endpoint,
    permit: Permit | null,
    credential = endpoint.provider.pool && this.#pickCredential(endpoint, null),
  ): RunningAttempt {
    this.#triedEndpoints.push(endpoint)
    this.#turn?.countCalls(1)
    const attempt: RunningAttempt = {
      endpoint,
      permit,
      cancellation: this.#run.cancellation,
      sentAt: null,
      decidedAt: null,
      isTaken: false,
      onSent: null,
      latency: 0,
      status: null,
      request_id: null,
      error: null,
      isInexpressible: false,
    }
    if (credential) attempt.credential = credential
    return attempt
  }

  // Checked here and not only in the plan: since it was made, another call may have begun to probe
  // whether an endpoint has recovered. Without a permit the first tries of named models go on.
  #findAvailable(): RunningAttempt | undefined {
    const { health, retryBudget } = this.#world.traffic
    let hasPermit: boolean | undefined
    const found = this.#endpoints.find(endpoint => {
      if (!this.#isEligible(endpoint)) return false
      if (this.#isFree(endpoint)) return health.tryAdmit(endpoint)
      hasPermit ??= retryBudget.tryAcquire('retry')
      return hasPermit && health.tryAdmit(endpoint)
    })
    const isUsed = found !== undefined && !this.#isFree(found)
    if (hasPermit && !isUsed) retryBudget.release('retry', false)
    return found && this.#createAttempt(found, isUsed ? 'retry' : null)
  }

  // The model is what the caller wants most, and a provider that is busy may have room again: its
  // other endpoints come before the next model. One that fails may keep the call for long.
  #findWaiting(last: Endpoint): RunningAttempt | undefined {
    if (this.#run.call.routing.partition === 'none') return undefined
    const { health } = this.#world.traffic
    const untried = this.#endpoints.filter(
      endpoint => endpoint.model === last.model && this.#isEligible(endpoint),
    )
    return untried.some(endpoint => health.getCooldownEnd(endpoint) === 0)
      ? undefined
      : this.#findCooling(untried.filter(endpoint => this.#hasAskedToWait(endpoint)))
  }

  // The cooldown that ends first may be over: that of a provider that has recovered.
  #findCooling(endpoints: Endpoint[]): RunningAttempt | undefined {
    const { health, retryBudget } = this.#world.traffic
    const untried = endpoints.filter(endpoint => this.#isEligible(endpoint))
    const cooling = sortByNumber(untried, endpoint => health.getCooldownEnd(endpoint))
    const named = cooling.find(endpoint => this.#isFirstTry(endpoint))
    if (named) return this.#createAttempt(named, null)
    const [first] = cooling
    return first && retryBudget.tryAcquire('retry')
      ? this.#createAttempt(first, 'retry')
      : undefined
  }

  #hasAskedToWait(endpoint: Endpoint): boolean {
    return this.#world.traffic.health.findCooldown(endpoint)?.reason === 'asked_to_wait'
  }

  /** An endpoint that is well is asked without a permit if the call has failed but once. */
  #isFree(endpoint: Endpoint): boolean {
    return this.#triedEndpoints.length < 2 || this.#isFirstTry(endpoint)
  }

  #isFirstTry({ model }: Endpoint): boolean {
    if (this.#triedEndpoints.length === 0) return true
    return !this.#triedEndpoints.some(tried => tried.model === model) && isNamed(this.#plan, model)
  }

  #isEligible(endpoint: Endpoint): boolean {
    if (this.#triedEndpoints.length === 0) return true
    return !this.#triedEndpoints.includes(endpoint) && !this.#hasRefused(endpoint.model)
  }

  #hasRefused(model: string): boolean {
    return this.failures.some(
      ({ endpoint, error, isOwn }) => endpoint.model === model && !isOwn && !isWorthFallback(error),
    )
  }
}

// An option for one provider alone is refused by name, whoever else could do without it.
const namesOption = ({ metadata }: GatewayError): boolean =>
  typeof metadata?.field === 'string' && metadata.field.startsWith('provider.options.')

/** Whether the caller names the model. Those that a router picks are fallbacks of its own. */
function isNamed<K extends Kind>(plan: Plan<K> | null, id: string): boolean {
  // A plan of just some endpoints was made by us, and all of it is meant.
  if (plan?.models.length === 0) return plan.endpoints.some(({ model }) => model === id)
  return plan?.models.some(({ model, router }) => !router && model.id === id) ?? false
}

/** What a client is told of how its call was changed. */
const tellChanges = ({ ignored, maxTokens }: RunningAttempt) => ({
  ...(ignored ? { ignored } : {}),
  ...(maxTokens === undefined ? {} : { maxTokens }),
})

/**
 * Sends the call to one endpoint and waits for the first meaningful part of its answer. Throws if
 * there is none.
 */
async function tryEndpoint<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  attempt: RunningAttempt,
  echoes: AnswerPart<K>[],
): Promise<OpenedAnswer<K>> {
  const { endpoint, cancellation } = attempt
  const { run } = step
  const kind: KindOfWork<K> = kinds[run.kind]
  const protocol = getProtocol(run.kind, endpoint)
  const startedAt = world.clock.ticks()
  const fitted = buildUpstreamCall(world, step, attempt, protocol)
  if (world.clock.ticks() - startedAt > LONGEST_TURN) await yieldToEventLoop()
  const isPlain = kind.understanding.readRichContents(fitted).length === 0
  const prepared = isPlain
    ? fitted
    : fitContents<K>(world, fitted, {
        kind,
        takesUrls: protocol.urlMedia,
        ownSchemes: protocol.ownSchemes,
        fetchesUrls: endpoint.provider.fetchesUrls,
        media: run.media,
        run,
        cancellation,
      })
  const call = prepared instanceof Promise ? await prepared : prepared
  const shares = kind.division
    ? divideCall(kind.division, call, findMostItems(protocol, endpoint, attempt.most))
    : kind.splitCall?.(call, endpoint)
  if (shares) step.turn?.requireCalls(shares.length - 1)
  const builtAt = world.clock.ticks()
  attempt.isInexpressible = true
  const built = protocol.buildRequest(shares?.[0] ?? call, endpoint)
  attempt.isInexpressible = false
  // It is written as text next, which takes as long again.
  if (world.clock.ticks() - builtAt > LONGEST_TURN) await yieldToEventLoop()
  const request = isExtended(run) ? await sendThrough(world, run, built, endpoint) : built
  if (call.echoUpstreamBody && call.stream) echoes.push(buildEcho(endpoint, request.body))
  step.attempts.push(attempt)
  world.events.publish('attempt.started', { run, attempt })
  try {
    const { first, rest, sentAt, leftover } = await awaitAnswer(world, step, attempt, {
      kind,
      protocol,
      call: shares?.[0] ?? call,
      request,
      ...(shares ? { others: await buildOthers(world, run, protocol, shares, endpoint) } : {}),
    })
    if (run.firstPartAt === null && !run.within) markFirstPart(world, run)
    world.traffic.health.recordAnswer(endpoint, sentAt, rest !== null)
    if (attempt.credential)
      endpoint.provider.pool?.recordAnswer(attempt.credential, endpoint.upstreamModel)
    const parts = echoes.length > 0 ? [...echoes, ...first] : first
    const opened = { endpoint, sentAt, leftover, first: parts, rest }
    const isChanged = attempt.ignored || attempt.maxTokens !== undefined
    return isChanged ? { ...opened, ...tellChanges(attempt) } : opened
  } catch (thrown) {
    const failure = await filterReason(run, GatewayError.from(thrown))
    const rested =
      attempt.credential && !cancellation.reason ? restCredential(world, attempt, failure) : failure
    const error = rested ?? failure
    attempt.error = error
    if (rested === null) attempt.isCredentialsOwn = true
    if (!cancellation.reason) {
      attempt.isTaken = false
      if (rested) world.traffic.health.recordFailure(endpoint, rested)
    }
    throw error
  } finally {
    attempt.decidedAt = world.clock.ticks()
    attempt.latency = Math.round(attempt.decidedAt - startedAt)
  }
}

/** Builds the requests of a call that is asked for in shares, but for the first. */
const buildOthers = <K extends Kind>(
  world: ExtendedWorld,
  run: Run<K>,
  protocol: Protocol<K>,
  [, ...shares]: Work[K]['call'][],
  endpoint: Endpoint,
): Promise<ShareRequest<K>[]> =>
  Promise.all(
    shares.map(async call => {
      const built = protocol.buildRequest(call, endpoint)
      return {
        call,
        request: isExtended(run) ? await sendThrough(world, run, built, endpoint) : built,
      }
    }),
  )

const isExtended = ({ extensions }: Pick<Run, 'extensions'>): boolean => extensions.length > 0

/** Notes that the client has something to read. */
function markFirstPart(world: ExtendedWorld, run: Run): void {
  run.firstPartAt = world.clock.ticks()
  world.events.publish('first.token', run)
}

function getProtocol<K extends Kind>(kind: K, endpoint: Endpoint): Protocol<K> {
  const protocol: Protocol<K> | undefined = protocols[kind][endpoint.protocol]
  if (!protocol) throw new GatewayError('server', 'Internal Server Error')
  return protocol
}

/**
 * Builds the call for the endpoint: as its model gets it, with no more output than was set aside,
 * and without what the endpoint does not support, which is named.
 */
function buildUpstreamCall<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  attempt: RunningAttempt,
  { acceptsNames }: Protocol<K>,
): Work[K]['call'] {
  const { run, call, plan, grant } = step
  const { kind, policy } = run
  const { endpoint } = attempt
  const { fitToEndpoint, listIgnored, removeNames }: Understanding<K> = kinds[kind].understanding
  const effectiveCall = plan ? getEffectiveCall(plan.models, call, endpoint) : call
  const hold = policy.bounds.length > 0 ? grant?.hold : null
  const payable = hold ? limitToHold(world, kind, effectiveCall, endpoint, hold) : effectiveCall
  const maxTokens =
    payable === effectiveCall ? undefined : findShortened(world, step, endpoint, payable)
  if (maxTokens !== undefined) attempt.maxTokens = maxTokens
  const supported = fitToEndpoint(payable, endpoint)
  const ignored = supported === payable ? [] : listIgnored(payable, endpoint)
  if (ignored.length > 0) attempt.ignored = ignored
  return acceptsNames && isOpenAi(endpoint) ? supported : removeNames(supported)
}

/** Returns the most tokens of a call that gets fewer than it asks for, as no more could be set aside. */
function findShortened<K extends Kind>(
  world: ExtendedWorld,
  { run: { kind }, call, plan, costEstimate, grant }: Step<K>,
  endpoint: Endpoint,
  payable: Work[K]['call'],
): number | undefined {
  const way = endpoint.is_byok ? 'byok' : 'own'
  const [all, held] = [costEstimate?.maximum, grant?.hold?.amounts]
  if (payable.kind !== 'text' || !all || !held || all[way] === held[way]) return undefined
  const effectiveCall = plan ? getEffectiveCall(plan.models, call, endpoint) : call
  const whole = limitToHold(world, kind, effectiveCall, endpoint, { amounts: all })
  const { max_tokens } = payable.params
  const isShorter = whole.kind === 'text' && whole.params.max_tokens !== max_tokens
  return isShorter ? max_tokens : undefined
}

// For any other model a name stands in the text, whatever its server speaks (specification E9).
const isOpenAi = ({ model }: Endpoint) => model.startsWith('openai/')

/** A part of a call as it is asked for: most calls have only one. */
interface ShareRequest<K extends Kind> {
  call: Work[K]['call']
  request: UpstreamRequest
}

/** A request, and what is needed to read its answer. */
interface PreparedRequest<K extends Kind> extends ShareRequest<K> {
  kind: KindOfWork<K>
  protocol: Protocol<K>
  /** What is asked for beside it, where one request does not ask for all of the call. */
  others?: ShareRequest<K>[]
}

/** Sends the request and returns the answer from its first meaningful part on. */
async function awaitAnswer<K extends Kind>(
  world: ExtendedWorld,
  step: Step<K>,
  attempt: RunningAttempt,
  prepared: PreparedRequest<K>,
): Promise<Omit<OpenedAnswer<K>, 'endpoint'>> {
  const { cancellation } = attempt
  const endpoint = attempt.credential
    ? toSentEndpoint(attempt.endpoint, attempt.credential)
    : attempt.endpoint
  const peer = endpoint.base_url === undefined ? endpoint.provider : getPeer(endpoint)
  const authorized = authorize(world, peer, prepared.request, cancellation)
  const outgoing = authorized instanceof Promise ? await authorized : authorized
  if (world.config.telemetry.propagate_traces)
    outgoing.headers.traceparent = buildTraceparent(step.run.call)
  markHop(outgoing, endpoint.provider, step.run.call)
  const sentAt = world.clock.ticks()
  attempt.sentAt = sentAt
  attempt.onSent?.()
  const leftover = createLeftover<K>(world, step, attempt)
  const sent: SentRequest<K> = { endpoint, received: [], leftover }
  outgoing.onSent = () => {
    attempt.isTaken = true
    step.unanswered.push(sent)
    if (leftover) leftover.isSent = true
  }
  try {
    const opening = openParts(world, attempt, prepared, { outgoing, sent, run: step.run })
    const opened = leftover
      ? leftover.open(opening.then(begun => acceptParts(world, attempt, prepared, sent, begun)))
      : acceptParts(world, attempt, prepared, sent, await opening)
    const { first, rest } = opened instanceof Promise ? await opened : opened
    return { first, rest, sentAt, leftover }
  } finally {
    // What we stop is charged, whatever the reason: the provider has read the prompt by then.
    if (!cancellation.reason) dropItem(step.unanswered, sent)
  }
}

function dropItem<Item>(items: Item[], item: Item): void {
  const index = items.indexOf(item)
  if (index !== -1) items.splice(index, 1)
}

/** Returns the provider, at the address of the protocol that it is asked in. */
const getPeer = ({ provider, base_url }: Endpoint): Provider =>
  base_url === undefined ? provider : { ...provider, base_url }

/** Creates what is read on after the client has left, if the provider charges for it anyway. */
function createLeftover<K extends Kind>(
  world: ExtendedWorld,
  { run }: Step<K>,
  { endpoint, cancellation }: RunningAttempt,
): Leftover<AnswerPart<K>> | null {
  if (endpoint.provider.on_abort === 'cancel') return null
  return new Leftover({
    cancellation,
    hasClientLeft: () => isAbandoned(run),
    key: run.actor.key_hash ?? '',
    readOns: world.traffic.readOns,
    getLimits: () => ({
      milliseconds: world.config.timeouts.read_on_seconds * 1000,
      bytes: world.config.limits.read_on_kib * 1024,
    }),
  })
}

/** A request as it goes out, and the run that has its answer. */
interface OpeningRequest<K extends Kind> {
  outgoing: OutgoingRequest
  sent: SentRequest<K>
  run: Run<K>
}

/** Sends the request, or each of several, and resolves when an answer has begun. */
function openParts<K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  prepared: PreparedRequest<K>,
  opening: OpeningRequest<K>,
): Promise<PeekedSequence<AnswerPart<K>[]>> {
  const cancellation = opening.sent.leftover?.connection ?? attempt.cancellation
  return prepared.others
    ? openInShares(world, attempt, prepared, opening, cancellation)
    : openAdmitted(world, attempt, prepared, opening, cancellation)
}

/** Returns the answer once a first part has come that a caller can use: a promise where it has not. */
function acceptParts<K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  { kind, call }: PreparedRequest<K>,
  sent: SentRequest<K>,
  opened: PeekedSequence<AnswerPart<K>[]>,
): PeekedSequence<AnswerPart<K>[]> | Promise<PeekedSequence<AnswerPart<K>[]>> {
  sent.received = opened.first
  if (opened.rest && kind.needsWhole?.(call)) return readToEnd(world, attempt, opened, kind)
  return opened.first.some(kind.isMeaningful)
    ? opened
    : readUntilMeaningful(world, attempt, opened, kind)
}

/** Sends one request, and resolves with its answer once its kind has admitted it. */
function openAdmitted<K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  { kind, protocol, call }: PreparedRequest<K>,
  { outgoing, sent: { leftover, endpoint }, run }: OpeningRequest<K>,
  cancellation: Cancellation,
): Promise<PeekedSequence<AnswerPart<K>[]>> {
  const expected = { protocol, endpoint, call, cancellation }
  const observer = createObserver(attempt, leftover)
  observer.onLarge = growAnswer(world, run, kind)
  if (attempt.credential)
    observer.onHeaders = createLimitsReader(world, attempt.endpoint, attempt.credential)
  const opening = openAnswer(world, outgoing, expected, observer)
  if (!kind.admitParts) return opening
  return admitAnswer(world, kind, opening, {
    call,
    endpoint,
    cancellation,
    enterRoom: () => enterRoom(world, run),
  })
}

/** Counts this gateway in a request to an address that may be a gateway's, or its own. */
function markHop({ headers }: OutgoingRequest, { isHosted }: Provider, { origin }: CallBase): void {
  if (!isHosted) headers[HOPS_HEADER] = `gateway;hops=${(origin.hops ?? 0) + 1}`
}

/** The header in which the number travels (RFC 8586): a list, to which others may add themselves. */
export const HOPS_HEADER = 'cdn-loop'

const HOPS = /^ *gateway;hops=(\d+) *$/

/** Parses how many gateways a request has come through: the most that a member says, or 0. */
export function parseHops(header: string): number {
  const members = header.split(',').map(member => Number(HOPS.exec(member)?.[1] ?? 0))
  return Math.max(...members)
}

/** Sends every request of a call at once. The attempt shows the head of any answer. */
async function openInShares<K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  prepared: PreparedRequest<K>,
  opening: OpeningRequest<K>,
  cancellation: Cancellation,
): Promise<PeekedSequence<AnswerPart<K>[]>> {
  const provider = getPeer(opening.sent.endpoint)
  const all: ShareRequest<K>[] = [prepared, ...(prepared.others ?? [])]
  const open = async (share: ShareRequest<K>, branch: Cancellation) => {
    const outgoing =
      share === prepared
        ? opening.outgoing
        : await authorize(world, provider, share.request, branch)
    markHop(outgoing, provider, prepared.call)
    const one = { ...prepared, ...share }
    return openAdmitted(world, attempt, one, { ...opening, outgoing }, branch)
  }
  return openShares<K, ShareRequest<K>>(all, cancellation, open, createMerging(prepared))
}

/** What some pictures bring is enough. Of items each has to be there, in its place. */
function createMerging<K extends Kind>({ kind, call }: PreparedRequest<K>): Merging<K> {
  const { division } = kind
  if (!division) return { needsAll: false, place: (part, share) => ({ ...part, share }) }
  const each = division.countItems(call)
  return { needsAll: true, place: (part, share) => division.shift(part, share * each) }
}

/** Reads on to the end, for a client that can use nothing of an answer that breaks off. */
async function readToEnd<K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  { first, rest }: PeekedSequence<AnswerPart<K>[]>,
  kind: KindOfWork<K>,
): Promise<PeekedSequence<AnswerPart<K>[]>> {
  const batches: AnswerPart<K>[][] = [[]]
  let last = batches[0] as AnswerPart<K>[]
  for (let parts = first; ; ) {
    // One at a time: as arguments of one call, many parts overflow the stack.
    for (const part of parts) {
      if (last.length === MOST_AT_ONCE) {
        last = []
        batches.push(last)
      }
      last.push(part)
    }
    const step = await rest?.next()
    if (!step || step.done) break
    parts = step.value
  }
  if (
    !batches.some(parts => parts.some(kind.isMeaningful)) ||
    batches.some(parts => parts.some(part => kind.isFailure?.(part)))
  )
    throw explainEnd(world, attempt, batches.flat(), kind)
  const [all = [], ...others] = batches
  return { first: all, rest: others.length === 0 ? null : readInTurns(others) }
}

/** How many parts of an answer are read in one turn. */
const MOST_AT_ONCE = 16_384

/** Hands on what has come already, with turns for others between. */
async function* readInTurns<Batch>(batches: Batch[]): AsyncGenerator<Batch> {
  for (const batch of batches) {
    await yieldToEventLoop()
    yield batch
  }
}

/** Returns the failure of an answer that ended as one, with the provider's own word for that. */
function explainEnd<K extends Kind>(
  { events }: ExtendedWorld,
  { endpoint }: RunningAttempt,
  parts: AnswerPart<K>[],
  kind: KindOfWork<K>,
): GatewayError {
  const end = parts.find(part => kind.isFailure?.(part as Work[K]['part']))
  const word = end && 'native' in end && typeof end.native === 'string' ? end.native : null
  if (end && 'isUnknown' in end && word !== null)
    events.publish('finish.unknown', { endpoint, word })
  const reason = word === null ? undefined : buildReason(word, `The answer ended with ${word}`)
  return new GatewayError('provider_unavailable', 'Provider returned error', { reason })
}

/**
 * Returns what waits for the memory of an answer, and for its place where it needs one. The run has
 * it until it is over.
 */
function growAnswer<K extends Kind>(
  world: ExtendedWorld,
  run: Run<K>,
  { admitParts }: KindOfWork<K>,
): (bytes: number) => Promise<void> {
  const { admission } = world.traffic
  let answer: LargeAnswer | undefined
  return async bytes => {
    answer ??= beginMemory(world, run)
    await admission.growAnswer(answer, bytes)
    if (admitParts) await enterRoom(world, run)
  }
}

/** Begins to count what takes memory for a run, which has it until it is over. */
export function beginMemory<K extends Kind>(
  { traffic: { admission } }: ExtendedWorld,
  run: Run<K>,
): LargeAnswer {
  const begun = admission.beginAnswer(run.actor.key_hash ?? run.actor.kind, run)
  const freeOthers = run.freeMemory
  run.freeMemory = () => {
    admission.endAnswer(begun)
    freeOthers?.()
  }
  return begun
}

/** Waits for a place among the answers that take much memory. The run has it until it is over. */
async function enterRoom<K extends Kind>({ traffic }: ExtendedWorld, run: Run<K>): Promise<void> {
  run.room ??= traffic.largeAnswers.enter()
  await run.room
}

/** Returns the answer with every batch admitted by its kind. What is refused ends it. */
async function admitAnswer<K extends Kind>(
  world: ExtendedWorld,
  kind: KindOfWork<K>,
  opening: Promise<PeekedSequence<Work[K]['part'][]>>,
  asked: Asked<K>,
): Promise<PeekedSequence<Work[K]['part'][]>> {
  const { first, rest } = await opening
  const admit = async (parts: Work[K]['part'][], cancellation: Cancellation | null) =>
    (await kind.admitParts?.(world, parts, { ...asked, cancellation })) ?? parts
  if (!rest) return { first: await admit(first, asked.cancellation), rest: null }
  return { first, rest: new AdmittedParts(rest, parts => admit(parts, null)) }
}

/** The batches of a stream as they are admitted. */
class AdmittedParts<Part> implements AsyncIterator<Part[]> {
  readonly #parts: AsyncIterator<Part[]>
  readonly #admit: (parts: Part[]) => Promise<Part[]>

  constructor(parts: AsyncIterator<Part[]>, admit: (parts: Part[]) => Promise<Part[]>) {
    this.#parts = parts
    this.#admit = admit
  }

  async next(): Promise<IteratorResult<Part[]>> {
    const step = await this.#parts.next()
    if (step.done) return step
    try {
      return { done: false, value: await this.#admit(step.value) }
    } catch (thrown) {
      await this.return()
      throw thrown
    }
  }

  async return(): Promise<IteratorResult<Part[]>> {
    return (await this.#parts.return?.()) ?? { done: true, value: undefined }
  }
}

/** Creates what notes the head of the answer, and counts its bytes if it may be read on. */
function createObserver(
  attempt: RunningAttempt,
  leftover: Pick<Leftover<never>, 'countBytes'> | null,
): AnswerObserver {
  const onHead = ({ status, request_id }: ResponseHead) => {
    attempt.status = status
    attempt.request_id = request_id
  }
  return leftover ? { onHead, onBytes: size => leftover.countBytes(size) } : { onHead }
}

/** Reads on to the first part that a caller can use. */
async function readUntilMeaningful<K extends Kind>(
  world: ExtendedWorld,
  attempt: RunningAttempt,
  { first, rest }: PeekedSequence<Work[K]['part'][]>,
  kind: KindOfWork<K>,
): Promise<PeekedSequence<Work[K]['part'][]>> {
  for (let step = await rest?.next(); step && !step.done; step = await rest?.next()) {
    first.push(...step.value)
    if (step.value.some(kind.isMeaningful)) return { first, rest }
  }
  // The answer is complete and empty: a provider that has failed, whether it says so or not.
  throw explainEnd(world, attempt, first, kind)
}

// Images and files would fill the debug chunk with noise, and their content may be private.
function buildEcho({ provider, model }: Endpoint, body: unknown): CommonPart {
  return {
    type: 'echo',
    provider: provider.name,
    model,
    body: JSON.parse(
      JSON.stringify(body, (_, value) => hideServerCredentials(shortenDataUrl(value))),
    ),
  }
}

// Of an MCP server that the provider calls by itself: a preset's may be of somebody else, and its
// address may hold a secret, too.
function hideServerCredentials(value: unknown): unknown {
  if (!isObject(value) || value.type !== 'mcp') return value
  const { authorization: _, headers: __, server_url, ...shown } = value
  return {
    ...shown,
    ...(URL.canParse(String(server_url)) ? { server_url: new URL(String(server_url)).origin } : {}),
  }
}

const shortenDataUrl = (value: unknown) =>
  typeof value === 'string' && /^data:[^,]{0,100};base64,/.test(value) ? '[data]' : value
