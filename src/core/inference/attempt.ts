import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import type { Opened } from '../kernel/iterate.ts'
import type { CommonPart } from '../language/part.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { Protocol, UpstreamRequest } from '../protocols/protocol.ts'
import { protocols } from '../protocols/registry.ts'
import { openAnswer } from '../upstream/answer.ts'
import { authorize } from '../upstream/authorize.ts'
import { raced } from './attempt/hedge.ts'
import { type Failure, isWorthFallback, summaryOf } from './attempt/summary.ts'
import { type KindOfWork, kinds, type Understanding } from './kinds.ts'
import { withMedia } from './media.ts'
import { askedOf } from './plan/wanted.ts'
import type { Plan } from './plan.ts'
import { withinHold } from './reserve.ts'
import type { Attempt, Run, Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/** Sends a step and stores its answer once that begins. Throws as `attemptInOrder` does. */
export async function attemptStep<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
): Promise<void> {
  step.isSent = true
  step.begun = await attemptInOrder(world, step)
}

/**
 * Tries the plan's endpoints in order until one gives a first meaningful part. A 5xx, a 429, a
 * timeout, a refused connection or a stream that breaks before that moves on to the next endpoint.
 * What one provider of a model refuses as invalid the others would refuse too, so that moves on to
 * the next model. A second try skips endpoints in a cooldown, and needs a retry permit. If the call
 * or the config asks for hedges, another endpoint is tried beside a slow one. Throws the last
 * failure, with the attempts in `metadata.previous_errors`.
 */
export async function attemptInOrder<K extends Kind>(
  gateway: InferenceWorld,
  step: Step<K>,
): Promise<Begun<K>> {
  const line = new Line<K>(gateway, step)
  for (let next = line.next(); next; next = line.next()) {
    try {
      const delay = hedgeDelay(gateway, step, next.endpoint)
      const send = (one: Try) => tried(gateway, step, one, line.echoes)
      if (delay === null) return await send(next)
      const begun = await raced(gateway, next, { step, line, delay, send })
      if (begun) return begun
    } catch (thrown) {
      line.failed(next, thrown)
    } finally {
      line.over(next)
    }
  }
  throw summaryOf(step.call, line.failures)
}

/**
 * Computes after how many milliseconds without a first part another endpoint is tried beside this
 * one: as the call says, or once 95 of 100 answers have begun there. Null if none is: hedges are
 * off, the config forbids them, there are too few measurements, or the answer is not streamed. How
 * long whole answers take to begin is not measured.
 */
export function hedgeDelay(
  { config, traffic: { health } }: InferenceWorld,
  { call, plan }: { call: Work[Kind]['call']; plan: Pick<Plan, 'endpoints'> | null },
  endpoint: Endpoint,
): number | null {
  const usual = config.routing.hedge
  if (usual === 'never' || !call.stream || !plan || plan.endpoints.length < 2) return null
  const { hedge = usual } = call.routing
  if (hedge === false) return null
  return (hedge === true ? null : hedge.after_ms) ?? health.tail(endpoint)
}

/**
 * At most this many endpoints are tried for one call, so that an outage does not multiply traffic.
 */
const MOST_TRIES = 3

/** The endpoints of a plan that are still to be tried, and the failures of those that were. */
export class Line<K extends Kind> {
  readonly failures: Failure[] = []
  /** The requests that were sent, for a caller who asked to see them. */
  readonly echoes: AnswerPart<K>[] = []
  readonly #gateway: InferenceWorld
  readonly #endpoints: Endpoint[]
  readonly #cancellation: Cancellation
  readonly #asked: Endpoint[] = []
  #isStopped = false

  constructor(gateway: InferenceWorld, { plan, run }: Step<K>) {
    this.#gateway = gateway
    this.#endpoints = plan?.endpoints ?? []
    this.#cancellation = run.cancellation
  }

  /**
   * Returns the next attempt: the first endpoint that is not in a cooldown and whose model has not
   * refused the call. The first attempt of a call is made even if all endpoints are in a cooldown.
   * A retry takes a permit that `release` gives back. Undefined if there is no endpoint or no
   * permit left.
   */
  next(): Try | undefined {
    const isRetry = this.#asked.length > 0
    if (this.#isStopped || this.#asked.length === MOST_TRIES) return undefined
    if (isRetry && !this.#gateway.traffic.retries.take()) return undefined
    const endpoint = this.#firstWell() ?? (isRetry ? undefined : this.#endpoints[0])
    if (endpoint) return this.#turnOf(endpoint, isRetry)
    if (isRetry) this.#gateway.traffic.retries.leave()
    return undefined
  }

  /** Records a failed attempt. */
  failed({ endpoint, status }: Try, thrown: unknown): void {
    const error = GatewayError.from(thrown)
    this.failures.push({ endpoint, status, error })
    this.#gateway.events.publish('attempt.failed', { endpoint, error })
    if (error.type === 'server' || this.#cancellation.reason) this.#isStopped = true
  }

  /** Gives back the permit of an attempt that is over. */
  over({ isRetry }: Try): void {
    if (isRetry) this.#gateway.traffic.retries.leave()
  }

  #turnOf(endpoint: Endpoint, isRetry: boolean): Try {
    this.#asked.push(endpoint)
    return {
      endpoint,
      isRetry,
      cancellation: this.#cancellation,
      sent: null,
      onSent: null,
      latency: 0,
      status: null,
      error: null,
    }
  }

  // Checked here and not only in the plan: since it was made, another call may have begun to probe
  // whether the endpoint has recovered.
  #firstWell(): Endpoint | undefined {
    const {
      traffic: { health },
    } = this.#gateway
    for (const endpoint of this.#endpoints)
      if (
        !this.#asked.includes(endpoint) &&
        !this.#hasRefused(endpoint.model) &&
        health.admits(endpoint)
      )
        return endpoint
    return undefined
  }

  #hasRefused(model: string): boolean {
    return this.failures.some(
      ({ endpoint, error }) => endpoint.model === model && !isWorthFallback(error),
    )
  }
}

/** An answer that has begun: from here on no other endpoint may be tried. */
export interface Begun<K extends Kind> extends Opened<AnswerPart<K>[]> {
  endpoint: Endpoint
  /** When its request was sent, in steady milliseconds. */
  sent: number
}

/** One attempt at one endpoint while it runs. */
export interface Try extends Attempt {
  /** Whether it holds a retry permit. */
  isRetry: boolean
  /** Ends it. */
  cancellation: Cancellation
  /** When its request was sent, in steady milliseconds; null before. */
  sent: number | null
  /** Called when the request is sent; null if nothing waits for that. */
  onSent: (() => void) | null
}

/**
 * Sends the call to one endpoint and waits for the first meaningful part of its answer. Throws if
 * there is none.
 */
export async function tried<K extends Kind>(
  gateway: InferenceWorld,
  step: Step<K>,
  one: Try,
  echoes: AnswerPart<K>[],
): Promise<Begun<K>> {
  const { endpoint, cancellation } = one
  const { run } = step
  const kind: KindOfWork<K> = kinds[run.kind]
  const protocol = protocolOf(run.kind, endpoint)
  const began = gateway.clock.ticks()
  const ready = withMedia(gateway, callFor(gateway, step, endpoint, protocol), {
    kind,
    takesUrls: protocol.takesUrls,
    media: run.media,
    cancellation,
  })
  const call = ready instanceof Promise ? await ready : ready
  const request = protocol.request(call, endpoint)
  if (call.echoUpstreamBody && call.stream) echoes.push(echo(endpoint, request.body))
  step.attempts.push(one)
  gateway.events.publish('attempt.started', one)
  try {
    const { first, rest, sent } = await answered(gateway, one, { kind, protocol, call, request })
    if (run.firstPart === null) firstPart(gateway, run)
    gateway.traffic.health.answered(endpoint, sent, rest !== null)
    return { endpoint, sent, first: echoes.length > 0 ? [...echoes, ...first] : first, rest }
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    one.error = error
    if (!cancellation.reason) gateway.traffic.health.failed(endpoint, error)
    throw error
  } finally {
    one.latency = Math.round(gateway.clock.ticks() - began)
  }
}

/** Notes that the client has something to read. */
function firstPart(world: InferenceWorld, run: Run): void {
  run.firstPart = world.clock.ticks()
  world.events.publish('first.token', run)
}

function protocolOf<K extends Kind>(kind: K, endpoint: Endpoint): Protocol<K> {
  const protocol: Protocol<K> | undefined = protocols[kind][endpoint.protocol]
  if (!protocol) throw new GatewayError('server', 'Internal Server Error')
  return protocol
}

/**
 * Builds the call for the endpoint: as its model gets it, with no more output than was set aside,
 * and without what the endpoint does not support.
 */
function callFor<K extends Kind>(
  gateway: InferenceWorld,
  { run: { kind }, call, plan, hold, isBounded }: Step<K>,
  endpoint: Endpoint,
  { takesNames }: Protocol<K>,
): Work[K]['call'] {
  const { fitToEndpoint, removeNames }: Understanding<K> = kinds[kind].understanding
  const asked = plan ? askedOf(plan.models, call, endpoint) : call
  const payable = hold && isBounded ? withinHold(gateway, kind, asked, endpoint, hold) : asked
  const fitting = fitToEndpoint(payable, endpoint)
  return takesNames ? fitting : removeNames(fitting)
}

/** A request, and what is needed to read its answer. */
interface Asking<K extends Kind> {
  kind: KindOfWork<K>
  protocol: Protocol<K>
  call: Work[K]['call']
  request: UpstreamRequest
}

/** Sends the request and returns the answer from its first meaningful part on. */
async function answered<K extends Kind>(
  gateway: InferenceWorld,
  one: Try,
  { kind, protocol, call, request }: Asking<K>,
): Promise<Omit<Begun<K>, 'endpoint'>> {
  const { endpoint, cancellation } = one
  const authorized = authorize(gateway, endpoint.provider, request, cancellation)
  const outgoing = authorized instanceof Promise ? await authorized : authorized
  const sent = gateway.clock.ticks()
  one.sent = sent
  one.onSent?.()
  const opened = await openAnswer(
    gateway,
    outgoing,
    protocol,
    endpoint,
    call,
    cancellation,
    status => {
      one.status = status
    },
  )
  const { first, rest } = opened.first.some(kind.isMeaningful)
    ? opened
    : await untilMeaningful(opened, kind)
  return { first, rest, sent }
}

/** Reads on to the first part that a caller can use. */
async function untilMeaningful<K extends Kind>(
  { first, rest }: Opened<Work[K]['part'][]>,
  kind: KindOfWork<K>,
): Promise<Opened<Work[K]['part'][]>> {
  for (let step = await rest?.next(); step && !step.done; step = await rest?.next()) {
    first.push(...step.value)
    if (step.value.some(kind.isMeaningful)) return { first, rest }
  }
  // The answer is complete and empty: a provider that has failed without saying so.
  throw new GatewayError('provider_unavailable', 'Provider returned error')
}

// Images and files would fill the debug chunk with noise, and their content may be private.
function echo({ provider, model }: Endpoint, body: unknown): CommonPart {
  return {
    type: 'echo',
    provider: provider.name,
    model,
    body: JSON.parse(JSON.stringify(body, (_, value) => shortened(value))),
  }
}

const shortened = (value: unknown) =>
  typeof value === 'string' && /^data:[^,]{0,100};base64,/.test(value) ? '[data]' : value
