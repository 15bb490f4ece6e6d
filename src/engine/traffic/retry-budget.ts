import type { Clock } from '../../base/clock.ts'
import type { Health } from '../health.ts'
import type { RunningCalls } from './running-calls.ts'

/**
 * The share of running calls that may be hedged, or retried in vain, at once: an outage must not
 * multiply traffic. And how many always may: a burst at a small gateway multiplies little.
 */
const SHARE = 0.2
const LEAST = 10

/** How many retries answers pay for in advance. */
const MOST_CREDIT = 30

/** In milliseconds: in this time half of the retries that were in vain are forgotten. */
const HALF_LIFE = 10_000

/** What a permit is for: an attempt beside a slow one, or another one after failures. */
export type Permit = 'hedge' | 'retry'

/**
 * Bounds how much further attempts multiply the traffic of an outage, and nothing else: a retry is
 * in vain until it is answered, and so many may be. Each answer of any endpoint pays for one that
 * was in vain, and time for all of them, so that there are permits wherever most calls are answered.
 */
export class RetryBudget {
  readonly #calls: Pick<RunningCalls, 'size'>
  readonly #health: Pick<Health, 'answers'>
  readonly #clock: Pick<Clock, 'ticks'>
  #hedges = 0
  #vain = 0
  #countedAt = 0
  #answers = 0

  constructor(
    calls: Pick<RunningCalls, 'size'>,
    health: Pick<Health, 'answers'>,
    clock: Pick<Clock, 'ticks'>,
  ) {
    this.#calls = calls
    this.#health = health
    this.#clock = clock
  }

  /** Takes a permit if there is one; tells whether it did. Each permit must be released. */
  tryAcquire(permit: Permit): boolean {
    const taken = permit === 'hedge' ? this.#hedges : this.#countVain()
    if (taken >= Math.max(LEAST, this.#calls.size * SHARE)) return false
    if (permit === 'hedge') this.#hedges += 1
    else this.#vain += 1
    return true
  }

  /** Gives a permit back. That of a retry which has failed is spent. */
  release(permit: Permit, hasFailed: boolean): void {
    if (permit === 'hedge') this.#hedges -= 1
    else if (!hasFailed) this.#vain -= 1
  }

  // Read from what health counts anyway: a call that is answered at once does nothing for this.
  #countVain(): number {
    const { answers } = this.#health
    const now = this.#clock.ticks()
    const kept = 0.5 ** ((now - this.#countedAt) / HALF_LIFE)
    this.#vain = Math.max(-MOST_CREDIT, this.#vain * kept - (answers - this.#answers))
    this.#answers = answers
    this.#countedAt = now
    return this.#vain
  }
}
