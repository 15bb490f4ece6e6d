import type { Calls } from './calls.ts'

/** Of the calls that run so many may be second tries, and this many always: an outage is not to multiply traffic. */
const SHARE = 0.2
const ALWAYS = 3

/** How many second tries there may be at once. */
export class Retries {
  readonly #calls: Pick<Calls, 'size'>
  #running = 0

  constructor(calls: Pick<Calls, 'size'>) {
    this.#calls = calls
  }

  /** Whether there is room for one more, which is taken then: whoever gets it gives it back. */
  take(): boolean {
    if (this.#running >= Math.max(ALWAYS, this.#calls.size * SHARE)) return false
    this.#running += 1
    return true
  }

  /** Gives a place back. */
  leave(): void {
    this.#running -= 1
  }
}
