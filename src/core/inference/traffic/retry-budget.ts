import type { RunningCalls } from './running-calls.ts'

/**
 * The share of running calls that may be retries: an outage must not multiply traffic. And how many
 * always may: a burst at a small gateway multiplies little, and its calls would have no fallback.
 */
const RETRY_SHARE = 0.2
const MIN_RETRIES = 10

/** Limits how many retries run at once. */
export class RetryBudget {
  readonly #calls: Pick<RunningCalls, 'size'>
  #running = 0

  constructor(calls: Pick<RunningCalls, 'size'>) {
    this.#calls = calls
  }

  /** Takes a permit if there is one; tells whether it did. Each permit must be released. */
  tryAcquire(): boolean {
    if (this.#running >= Math.max(MIN_RETRIES, this.#calls.size * RETRY_SHARE)) return false
    this.#running += 1
    return true
  }

  /** Gives a permit back. */
  release(): void {
    this.#running -= 1
  }
}
