import { closeSync, openSync, readFileSync } from 'node:fs'

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

  constructor(limit = readLimit()) {
    this.limit = limit
    this.#reserve = Math.min(LARGEST_RESERVE, Math.floor(limit / 4))
  }

  /** Looks again. Takes microseconds. Returns whether the answer changed. */
  look(): boolean {
    const wasScarce = this.isScarce
    this.isScarce = findLowestFree() >= this.limit - this.#reserve
    return this.isScarce !== wasScarce
  }
}

const LARGEST_RESERVE = 64

// The kernel assigns the lowest free number, so all below it are in use.
function findLowestFree(): number {
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
