import type { Clock } from '../../base/clock.ts'

/** The state of one limit as one call meets it. */
export interface Limit {
  /** Its name in the error, as the public service has it (wire reference L.5). */
  name: string
  maximum: number
  used: number
  /** Milliseconds since 1970: when it makes sense to try again. */
  reset: number
  count(): void
  /** Takes the count back, unless its window is over. Absent if it is a place. */
  uncount?(): void
}

/** What is counted by name in one window. */
export interface WindowCounts {
  number: number
  counts: Map<string, number>
}

/**
 * Counts by name within the current window of the clock, which may jump back and forth. Beyond the
 * most names, all others count as one.
 */
export class Window {
  readonly #length: number
  readonly #clock: Clock
  readonly #most: number
  /** The counts of the windows that were entered last, the current one at the end. */
  readonly #entered = new Map<number, Map<string, number>>()
  #counts = new Map<string, number>()
  #number = 0
  /** Hears of each count by a limit. */
  onCount: ((name: string, by: number) => void) | null = null

  constructor(length: number, clock: Clock, most = Number.POSITIVE_INFINITY) {
    this.#length = length
    this.#clock = clock
    this.#most = most
  }

  /** The number of the current window, from 1970. */
  get number(): number {
    this.#advance()
    return this.#number
  }

  getCount(name: string): number {
    this.#advance()
    return this.#counts.get(this.#findPlace(name)) ?? 0
  }

  setCount(name: string, count: number): void {
    this.#advance()
    this.#counts.set(this.#findPlace(name), count)
  }

  buildLimit(name: string, counter: string, maximum: number): Limit {
    const used = this.getCount(counter)
    const window = this.#number
    return {
      name,
      maximum,
      used,
      reset: (window + 1) * this.#length,
      count: () => this.count(counter, 1),
      uncount: () => {
        this.#advance()
        if (this.#number === window) this.count(counter, -1)
      },
    }
  }

  /** Adds to a count that others have told of; none falls below zero. */
  addCount(name: string, by: number): void {
    this.setCount(name, Math.max(0, this.getCount(name) + by))
  }

  /** Adds to a count that others are told of. */
  count(counter: string, by: number): void {
    this.addCount(counter, by)
    this.onCount?.(counter, by)
  }

  exportCounts(): WindowCounts {
    this.#advance()
    return { number: this.#number, counts: new Map(this.#counts) }
  }

  /** Counts of another window are over. */
  importCounts({ number, counts }: WindowCounts): void {
    this.#advance()
    if (number === this.#number) keepLarger(this.#counts, counts)
  }

  #findPlace(name: string): string {
    return this.#counts.size < this.#most || this.#counts.has(name) ? name : OTHERS
  }

  #advance(): void {
    const number = Math.floor(this.#clock.now().getTime() / this.#length)
    if (number === this.#number) return
    const entered = this.#entered.get(number) ?? new Map<string, number>()
    // A clock that is set back begins no new window: what was counted in the later one still counts.
    if (number < this.#number) keepLarger(entered, this.#counts)
    this.#number = number
    this.#counts = entered
    this.#entered.delete(number)
    this.#entered.set(number, entered)
    for (const old of this.#entered.keys())
      if (this.#entered.size > WINDOWS_KEPT) this.#entered.delete(old)
  }
}

/** A window that the clock has left is entered again after a jump, soon or never. */
const WINDOWS_KEPT = 3

function keepLarger(counts: Map<string, number>, others: Map<string, number>): void {
  for (const [name, count] of others) counts.set(name, Math.max(count, counts.get(name) ?? 0))
}

/** The place of all names beyond the most. */
const OTHERS = ''
