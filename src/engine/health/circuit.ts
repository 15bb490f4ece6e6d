import { Tally } from './measures.ts'

/**
 * When a cooldown begins, and how long the first one lasts. All circuits share one object, which
 * may change.
 */
export interface Thresholds {
  /** This many failures in a row, or half of twice as many calls; 0 for never. */
  failures: number
  /** Milliseconds. */
  pause: number
}

/** Too many failures, the provider has asked to wait, or the operator has. */
export type CooldownReason = 'failures' | 'asked_to_wait' | 'by_hand'

/** Failures of the last 30 seconds count as an outage (wire reference K.1). */
const RECENT = 30_000
const LONGEST_PAUSE = 300_000

/**
 * A circuit breaker. Too many failures begin a cooldown; after it one call probes the endpoint. If
 * that succeeds, the circuit closes; if not, the next cooldown is twice as long. All times are
 * steady milliseconds.
 */
export class Circuit {
  readonly #thresholds: Thresholds
  readonly #recent = new Tally(RECENT, 6)
  #failuresInARow = 0
  /** When it was opened; null while it is closed. */
  #openedAt: number | null = null
  /** Whether a call is probing the endpoint, and its outcome is not known yet. */
  #isProbing = false
  #closedAt = Number.NEGATIVE_INFINITY
  #pause = 0
  #pauseEnd = 0
  #waitUntil = 0
  /** Until when the operator lets it rest. */
  #restUntil = 0

  constructor(thresholds: Thresholds) {
    this.#thresholds = thresholds
  }

  /** When the cooldown ends; in the past if there is none. */
  get cooldownEnd(): number {
    return this.#thresholds.failures === 0
      ? this.#restUntil
      : Math.max(this.#restUntil, this.#waitUntil, this.#openedAt === null ? 0 : this.#pauseEnd)
  }

  /** Why it is in a cooldown, if it is. */
  get cooldownReason(): CooldownReason {
    if (this.#restUntil > 0 && this.cooldownEnd === this.#restUntil) return 'by_hand'
    return this.#openedAt !== null && this.#pauseEnd >= this.#waitUntil
      ? 'failures'
      : 'asked_to_wait'
  }

  /**
   * Tells whether a call may be sent now. After a cooldown only the first that asks may: it probes
   * the endpoint. The others stay away meanwhile, for at most the same pause.
   */
  tryAdmit(now: number): boolean {
    if (now < this.cooldownEnd) return false
    if (this.#openedAt === null) return true
    this.#isProbing = true
    this.#pauseEnd = now + this.#pause
    return true
  }

  /**
   * Records an answer to a request sent at `sent`. A request from before the cooldown proves
   * nothing about now.
   */
  recordAnswer(now: number, sent: number): void {
    this.#failuresInARow = 0
    if (this.#openedAt === null || sent < this.#openedAt) return
    this.#openedAt = null
    this.#isProbing = false
    this.#closedAt = now
    this.#recent.clear()
  }

  /** Records an answer that ended well. */
  recordEnd(now: number): void {
    this.#recent.add(now, true)
  }

  /** Records a failure. */
  recordFailure(now: number): void {
    this.#failuresInARow += 1
    this.#recent.add(now, false)
    if (this.#openedAt !== null) this.#reopen(now)
    else if (this.#isOutage(now)) this.#open(now)
  }

  /** Records that the provider has asked to wait: it is busy, not failing. */
  startWait(now: number, milliseconds: number): void {
    if (this.#thresholds.failures > 0)
      this.#waitUntil = Math.max(this.#waitUntil, now + milliseconds)
  }

  /** Whether a call is finding out if the endpoint has recovered. */
  get isProbing(): boolean {
    return this.#isProbing
  }

  /** Lets the endpoint rest, whatever its calls tell, until the operator wakes it or time is up. */
  rest(now: number, milliseconds: number): void {
    this.#restUntil = now + milliseconds
  }

  /** Ends every cooldown. What failed before is forgotten. */
  wake(now: number): void {
    this.#restUntil = 0
    this.#waitUntil = 0
    this.#failuresInARow = 0
    this.#recent.clear()
    if (this.#openedAt === null) return
    this.#openedAt = null
    this.#isProbing = false
    this.#closedAt = now
  }

  #isOutage(now: number): boolean {
    const { failures } = this.#thresholds
    if (failures === 0) return false
    const { ok, failed } = this.#recent.sum(now)
    return this.#failuresInARow >= failures || (failed >= failures && failed >= ok)
  }

  // An endpoint that was well only for a short while continues with a longer pause.
  #open(now: number): void {
    this.#openedAt = now
    this.#pause =
      now - this.#closedAt < LONGEST_PAUSE ? this.#lengthenPause() : this.#thresholds.pause
    this.#pauseEnd = now + this.#pause
  }

  // Failures during a cooldown, of calls that had no other endpoint, make no pause longer.
  #reopen(now: number): void {
    if (this.#isProbing) this.#pause = this.#lengthenPause()
    this.#isProbing = false
    this.#pauseEnd = now + this.#pause
  }

  #lengthenPause(): number {
    return Math.min(this.#pause * 2, LONGEST_PAUSE)
  }
}
