import { closeSync, openSync, readFileSync } from 'node:fs'

/**
 * The file descriptors of this process. When none is left, Bun cannot accept a connection, and
 * tries again all the time. So some are kept for `/health` and for what runs: when only those are
 * left, descriptors are scarce.
 */
export class Descriptors {
  /** Whether only the reserve is left. */
  isScarce = false
  readonly #limit: number
  readonly #reserve: number
  readonly #onChange: (isScarce: boolean) => void
  readonly #findLowestFree: () => number
  #calls = 0
  /** At which number of calls since the last regular look there is another one. */
  #nextLook = 0
  #lowestFree = 0

  /** `limit` is the first number that is no descriptor; infinite if the system does not tell. */
  constructor(
    onChange: (isScarce: boolean) => void = () => {},
    limit = readLimit(),
    findLowestFree = openLowestFree,
  ) {
    this.#limit = limit
    this.#findLowestFree = findLowestFree
    this.#reserve = Math.min(LARGEST_RESERVE, Math.floor(limit / 4))
    this.#onChange = onChange
  }

  /** Looks again. Takes microseconds. */
  look(): void {
    const wasScarce = this.isScarce
    this.#calls = 0
    this.#nextLook = 0
    this.#lowestFree = this.#findLowestFree()
    this.isScarce = !this.#hasRoomFor(0)
    if (this.isScarce !== wasScarce) this.#onChange(this.isScarce)
  }

  /**
   * Returns whether another call finds a descriptor. `running` calls may not have opened theirs
   * yet, if they came since the last look.
   */
  admitCall(running: number): boolean {
    if (this.#calls >= this.#nextLook) {
      this.#lowestFree = this.#findLowestFree()
      this.#nextLook = this.#calls + Math.max(CALLS_PER_LOOK, this.#room * ROOM_PER_LOOK)
    }
    this.#calls += 1
    return this.#hasRoomFor(Math.min(this.#calls, running))
  }

  /** How many descriptors are left besides the reserve. */
  get #room(): number {
    return this.#limit - this.#reserve - this.#lowestFree
  }

  #hasRoomFor(more: number): boolean {
    return more < this.#room
  }
}

/**
 * Many connections may come between two regular looks, each with a call: after so many calls there
 * is another look, or after as many as would take this share of what was left.
 */
const CALLS_PER_LOOK = 16
const ROOM_PER_LOOK = 1 / 32

const LARGEST_RESERVE = 64

// The kernel assigns the lowest free number, so all below it are in use.
function openLowestFree(): number {
  try {
    const descriptor = openSync('/dev/null', 'r')
    closeSync(descriptor)
    return descriptor
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

// Only Linux has this file. Elsewhere descriptors are scarce when none is left.
function readLimit(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
