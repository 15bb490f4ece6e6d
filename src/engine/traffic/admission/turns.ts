/** In milliseconds: how long a turn of the event loop should be at most. */
const LONG_TURN = 20

/** How many calls begin in one turn: at first, at least and at most. */
const FIRST = 32
const FEWEST = 4
const MOST = 1_024

/** By how many calls more a turn has, after one that was short. */
const GROWTH = 8

/** A call begins for each that is refused in a turn, which make it long as well; at most so many. */
const MOST_FOR_REFUSALS = 256

/** What turns need from the process; tests replace it. */
export interface TurnWorld {
  /** Steady milliseconds. */
  now(): number
  /** Calls the function once all that is ready in this turn of the event loop has been done. */
  onTurnEnd(next: () => void): void
}

const EVENT_LOOP: TurnWorld = {
  now: () => performance.now(),
  onTurnEnd: next => void setImmediate(next),
}

/**
 * Lets only so many calls begin in one turn of the event loop that the turn stays short: `/health`,
 * streams that run and requests of management get their turn in between. The other calls wait in
 * the order in which they came. How many begin in a turn follows how long turns are.
 */
export class Turns {
  readonly #world: TurnWorld
  readonly #waiting: { begin: () => void; since: number }[] = []
  /** The index of the first that waits: a list that is cut off at its front is copied each time. */
  #first = 0
  #size = FIRST
  #left = FIRST
  #refused = 0
  #startedAt = 0
  #isCounting = false

  constructor(world: TurnWorld = EVENT_LOOP) {
    this.#world = world
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting.length - this.#first
  }

  /** How long the first of those that wait has waited, in milliseconds; 0 if none does. */
  get wait(): number {
    const first = this.#waiting[this.#first]
    return first ? this.#world.now() - first.since : 0
  }

  /** Returns null if a call may begin now, and a promise of its turn otherwise. */
  enter(): Promise<void> | null {
    if (!this.#isCounting) this.#count()
    if (this.#left > 0 && this.size === 0) {
      this.#left -= 1
      return null
    }
    return new Promise(begin => this.#waiting.push({ begin, since: this.#world.now() }))
  }

  /** Notes that a call is refused: however many are, those that wait must not wait for ever. */
  refuse(): void {
    this.#refused += 1
    if (!this.#isCounting) this.#count()
  }

  #count(): void {
    this.#isCounting = true
    this.#startedAt = this.#world.now()
    this.#world.onTurnEnd(this.#startNext)
  }

  readonly #startNext = (): void => {
    this.#adapt(this.#world.now() - this.#startedAt)
    this.#left = Math.max(this.#size, Math.min(MOST_FOR_REFUSALS, this.#refused))
    this.#refused = 0
    this.#isCounting = false
    if (this.size === 0) return
    this.#count()
    for (; this.#left > 0 && this.size > 0; this.#left--) this.#beginFirst()
  }

  #beginFirst(): void {
    const first = this.#waiting[this.#first++]
    if (this.#first === this.#waiting.length || this.#first > MOST) {
      this.#waiting.splice(0, this.#first)
      this.#first = 0
    }
    first?.begin()
  }

  #adapt(length: number): void {
    if (length > LONG_TURN) this.#size = Math.max(FEWEST, this.#size >> 1)
    else if (this.size > 0) this.#size = Math.min(MOST, this.#size + GROWTH)
  }
}
