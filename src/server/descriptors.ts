import { findLowestFree } from '../base/descriptors.ts'
import { readDescriptorLimit } from '../base/machine.ts'

/**
 * The file descriptors of this process. When none is left, Bun cannot accept a connection, and
 * tries again all the time. So some are kept for `/health` and for what runs: when only those are
 * left, descriptors are scarce.
 */
export class Descriptors {
  /** Whether only the reserve is left. */
  isScarce = false
  /** The first number that is no descriptor; infinite if the system does not tell. */
  readonly limit: number
  readonly #reserve: number
  readonly #onChange: (isScarce: boolean) => void
  readonly #countUnconnected: () => number
  readonly #findLowestFree: () => number
  /** Calls that were admitted and do not run yet: their bodies are still read. */
  #waiting = 0
  /** The most calls that may yet open a connection to a provider. */
  #pending = 0
  /** How many calls came since the last look, and at which number there is another one. */
  #calls = 0
  #nextLook = 0
  #lowestFree = 0

  constructor(options: DescriptorsOptions = {}) {
    this.limit = options.limit ?? readDescriptorLimit()
    this.#findLowestFree = options.findLowestFree ?? findLowestFree
    this.#countUnconnected = options.countUnconnected ?? (() => 0)
    this.#reserve = Math.min(LARGEST_RESERVE, Math.floor(this.limit / 4))
    this.#onChange = options.onChange ?? (() => {})
  }

  /** Looks again. Takes microseconds. */
  look(): void {
    const wasScarce = this.isScarce
    this.#lookAgain()
    this.isScarce = this.#room <= 0
    if (this.isScarce !== wasScarce) this.#onChange(this.isScarce)
  }

  /**
   * Returns whether another call finds a descriptor, whatever those do that were admitted before.
   * None is refused by an earlier count. An admitted call waits until `startCall`.
   */
  admitCall(): boolean {
    if (this.#calls >= this.#nextLook || this.#isFull) this.#lookAgain()
    this.#calls += 1
    if (this.#isFull) return false
    this.#pending += 1
    this.#waiting += 1
    return true
  }

  /** An admitted call runs now, or was refused. */
  startCall(): void {
    this.#waiting -= 1
  }

  #lookAgain(): void {
    this.#lowestFree = this.#findLowestFree()
    this.#pending = this.#waiting + this.#countUnconnected()
    this.#calls = 0
    this.#nextLook = Math.max(CALLS_PER_LOOK, this.#room * ROOM_PER_LOOK)
  }

  /** Whether those that were admitted may take all that is left. */
  get #isFull(): boolean {
    return this.#pending >= this.#room
  }

  /** How many descriptors are left besides the reserve. */
  get #room(): number {
    return this.limit - this.#reserve - this.#lowestFree
  }
}

/** How descriptors are counted. */
interface DescriptorsOptions {
  onChange?: (isScarce: boolean) => void
  /** Counts the running calls that have no connection to a provider yet. */
  countUnconnected?: () => number
  /** The first number that is no descriptor; infinite if the system does not tell. */
  limit?: number
  findLowestFree?: () => number
}

/**
 * Many connections may come between two regular looks, each with a call: after so many calls there
 * is another look, or after as many as would take this share of what was left.
 */
const CALLS_PER_LOOK = 16
const ROOM_PER_LOOK = 1 / 32

const LARGEST_RESERVE = 64
