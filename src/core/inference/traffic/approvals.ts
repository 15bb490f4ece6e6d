import { type Mac, openMac } from '../../kernel/mac.ts'

/** How many approvals that were used are remembered. */
const MOST_USED = 10_000

/** The characters of an authentication code in an id: 128 bits. */
const CODE_LENGTH = 32

/**
 * What clients were asked to approve, and what they approved. A request is in the client's hands
 * alone: its id has the authentication code of what it is about, so that an approval is of nothing
 * else, and is used once. The key is of this process: what was asked before a restart is asked
 * again.
 */
export class Approvals {
  readonly #mac: Mac
  /** The numbers of those that were used. */
  readonly #used = new Set<number>()
  #issued = 0
  /** All up to this number count as used: too many others were. */
  #floor = 0

  constructor() {
    this.#mac = openMac(crypto.getRandomValues(new Uint8Array(32)), 'approvals')
  }

  /** Creates the id of a request for the approval of this subject. */
  issue(subject: string): string {
    this.#issued += 1
    return this.#buildId(this.#issued, subject)
  }

  /** Tells whether this is the id of a request for this subject, and whether it was used. */
  check(id: string, subject: string): 'good' | 'used' | 'unknown' {
    const number = readNumber(id)
    if (number === null || this.#buildId(number, subject) !== id) return 'unknown'
    return number <= this.#floor || this.#used.has(number) ? 'used' : 'good'
  }

  /** Uses an approval that was checked. Returns whether it is the first use. */
  use(id: string): boolean {
    const number = readNumber(id)
    if (number === null || number <= this.#floor || this.#used.has(number)) return false
    this.#used.add(number)
    const oldest = this.#used.values().next().value
    if (this.#used.size > MOST_USED && oldest !== undefined) {
      this.#used.delete(oldest)
      this.#floor = Math.max(this.#floor, oldest)
    }
    return true
  }

  /** Makes one usable again whose use did not begin. */
  giveBack(id: string): void {
    const number = readNumber(id)
    if (number !== null) this.#used.delete(number)
  }

  #buildId(number: number, subject: string): string {
    const code = this.#mac(`${number} ${subject}`).slice(0, CODE_LENGTH)
    return `mcpr_${number.toString(36)}_${code}`
  }
}

function readNumber(id: string): number | null {
  const [, digits] = /^mcpr_([0-9a-z]{1,10})_[0-9a-f]{32}$/.exec(id) ?? []
  return digits === undefined ? null : Number.parseInt(digits, 36)
}
