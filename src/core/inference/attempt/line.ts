import type { Endpoint } from '../../catalog/models.ts'
import { GatewayError } from '../../errors.ts'
import type { Cancellation } from '../../kernel/cancellation.ts'
import type { AnswerPart, Kind } from '../../language/work.ts'
import type { Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'
import { type Failure, isWorthFallback } from './summary.ts'
import type { Try } from './try.ts'

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
