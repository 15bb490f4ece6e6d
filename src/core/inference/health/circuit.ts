import { Tally } from './measures.ts'

/** When an endpoint rests, and for how long at first. All circuits share them, and they may change. */
export interface Thresholds {
  /** So many failures in a row, or half of twice as many calls: 0 never. */
  failures: number
  /** Milliseconds. */
  pause: number
}

/** It has failed too often, or its provider has asked to wait. */
export type Because = 'failures' | 'asked_to_wait'

/** Failures of the last 30 seconds are an outage (wire reference K.1). */
const RECENT = 30_000
const LONGEST_PAUSE = 300_000

/**
 * Whether an endpoint may be called. After too many failures it rests; when the pause is over one call tries whether it is well again:
 * if so it is as before, if not it rests for twice as long. All times are steady milliseconds.
 */
export class Circuit {
  readonly #thresholds: Thresholds
  readonly #recent = new Tally(RECENT, 6)
  #inARow = 0
  /** When it was opened; null while it is closed. */
  #opened: number | null = null
  /** Whether one call tries it, and nobody knows yet how that goes. */
  #trying = false
  #closed = Number.NEGATIVE_INFINITY
  #pause = 0
  #until = 0
  #asked = 0

  constructor(thresholds: Thresholds) {
    this.#thresholds = thresholds
  }

  /** Until when it rests; in the past where it does not. */
  get restsUntil(): number {
    return this.#thresholds.failures === 0 ? 0 : Math.max(this.#asked, this.#opened === null ? 0 : this.#until)
  }

  /** Why it rests, where it does. */
  get because(): Because {
    return this.#opened !== null && this.#until >= this.#asked ? 'failures' : 'asked_to_wait'
  }

  /**
   * Whether a call may go out now. When the pause is over, only the first that asks: it tries whether the endpoint is well again, and the
   * others stay away meanwhile, for no longer than the same pause.
   */
  admits(now: number): boolean {
    if (now < this.restsUntil) return false
    if (this.#opened === null) return true
    this.#trying = true
    this.#until = now + this.#pause
    return true
  }

  /** An answer has begun to a call that went out at `sent`: one that went out before the rest says nothing of now. */
  answered(now: number, sent: number): void {
    this.#inARow = 0
    if (this.#opened === null || sent < this.#opened) return
    this.#opened = null
    this.#trying = false
    this.#closed = now
    this.#recent.clear()
  }

  /** An answer has ended well. */
  ended(now: number): void {
    this.#recent.add(now, true)
  }

  /** The endpoint has failed. */
  failed(now: number): void {
    this.#inARow += 1
    this.#recent.add(now, false)
    if (this.#opened !== null) this.#reopen(now)
    else if (this.#isTooMuch(now)) this.#open(now)
  }

  /** The provider has asked to wait. It is not ill, only busy. */
  wait(now: number, milliseconds: number): void {
    if (this.#thresholds.failures > 0) this.#asked = Math.max(this.#asked, now + milliseconds)
  }

  #isTooMuch(now: number): boolean {
    const { failures } = this.#thresholds
    if (failures === 0) return false
    const { ok, failed } = this.#recent.sum(now)
    return this.#inARow >= failures || (failed >= failures && failed >= ok)
  }

  // One that was well for a short while only goes on where it was.
  #open(now: number): void {
    this.#opened = now
    this.#pause = now - this.#closed < LONGEST_PAUSE ? this.#longer() : this.#thresholds.pause
    this.#until = now + this.#pause
  }

  // What fails meanwhile, because nobody else was there to be asked, makes no pause longer.
  #reopen(now: number): void {
    if (this.#trying) this.#pause = this.#longer()
    this.#trying = false
    this.#until = now + this.#pause
  }

  #longer(): number {
    return Math.min(this.#pause * 2, LONGEST_PAUSE)
  }
}
