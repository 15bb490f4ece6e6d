import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { raced } from './attempt/hedge.ts'
import { type Failure, isWorthFallback, summaryOf } from './attempt/summary.ts'
import { type Begun, type Try, tried } from './attempt/try.ts'
import type { Plan } from './plan.ts'
import type { Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/** Sends a step, and has its answer when it begins. Throws as `attemptInOrder` does. */
export async function attemptStep<K extends Kind>(world: InferenceWorld, step: Step<K>): Promise<void> {
  step.isSent = true
  step.begun = await attemptInOrder(world, step)
}

/**
 * Tries the plan's endpoints in order until one gives a first meaningful part. A 5xx, a 429, silence, a refused connection or a broken
 * stream before that moves on to the next endpoint; what one provider of a model refuses as invalid the others would refuse too, so that
 * moves on to the next model. A second try goes to none that rests, and only while few calls are on theirs. Where the call or the config
 * wants hedges, a slow one gets a rival. Throws the last failure, with the attempts in `metadata.previous_errors`.
 */
export async function attemptInOrder<K extends Kind>(gateway: InferenceWorld, step: Step<K>): Promise<Begun<K>> {
  const line = new Line<K>(gateway, step)
  for (let next = line.next(); next; next = line.next()) {
    try {
      const delay = hedgeDelay(gateway, step, next.endpoint)
      if (delay === null) return await tried(gateway, step, next, line.echoes)
      const begun = await raced(gateway, step, line, next, delay)
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
 * After how many milliseconds without a first part another endpoint is asked beside this one: as the call says, or when 95 of 100 answers
 * have begun there. Null where none is asked: where nobody wants that, or may, or too little was measured, and for whole answers, of which nobody
 * measures how long they take to begin.
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

/** At most this many endpoints are tried for one call, so that an outage does not multiply traffic. */
const MOST_TRIES = 3

/** The endpoints of a call's plan as they wait for their turn, and what became of those that had theirs. */
export class Line<K extends Kind> {
  readonly failures: Failure[] = []
  /** What was sent, for a caller who asked to see it. */
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
   * Who is asked next: the first that does not rest and whose model has refused nothing. The first of a call is somebody in any case,
   * also where all of them rest. A second try takes a place among the second tries, which `over` gives back; nobody where there is none.
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

  /** A try has failed. */
  failed({ endpoint, status }: Try, thrown: unknown): void {
    const error = GatewayError.from(thrown)
    this.failures.push({ endpoint, status, error })
    this.#gateway.events.publish('attempt.failed', { endpoint, error })
    if (error.type === 'server' || this.#cancellation.reason) this.#isStopped = true
  }

  /** Nobody waits for the try any more. */
  over({ isRetry }: Try): void {
    if (isRetry) this.#gateway.traffic.retries.leave()
  }

  #turnOf(endpoint: Endpoint, isRetry: boolean): Try {
    this.#asked.push(endpoint)
    return { endpoint, isRetry, cancellation: this.#cancellation, sent: null, onSent: null, latency: 0, status: null, error: null }
  }

  // Looked at here and not in the plan alone: since that was made, another call may have begun to try whether the endpoint is well.
  #firstWell(): Endpoint | undefined {
    const {
      traffic: { health },
    } = this.#gateway
    for (const endpoint of this.#endpoints)
      if (!this.#asked.includes(endpoint) && !this.#hasRefused(endpoint.model) && health.admits(endpoint)) return endpoint
    return undefined
  }

  #hasRefused(model: string): boolean {
    return this.failures.some(({ endpoint, error }) => endpoint.model === model && !isWorthFallback(error))
  }
}
