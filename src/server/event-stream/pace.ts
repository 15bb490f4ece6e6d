/** How fast a client has to take a stream. */
export interface PaceLimits {
  /** The window in which its bytes are counted. */
  milliseconds: number
  /** The fewest bytes that it takes in a window in which the stream waits for it. */
  bytes: number
}

/** The share of a window in which the stream waits for the client, from which on it is judged. */
const WAITING = 0.8

/**
 * The pace of a client that reads a stream, in one window after the other. Only while the stream
 * waits for the client is that its own pace: otherwise it waits for the provider.
 */
export class ReaderPace {
  readonly #limits: PaceLimits
  #windowStart: number
  #taken = 0
  #waited = 0
  /** Since when the stream waits for the client; null while it does not. */
  #waitingSince: number | null = null

  /** Times in steady milliseconds. */
  constructor(limits: PaceLimits, now: number) {
    this.#limits = limits
    this.#windowStart = now
  }

  /** Notes that so many bytes were handed over, and that the stream waits until they are taken. */
  hand(bytes: number, now: number): void {
    this.#taken += bytes
    this.#waitingSince ??= now
  }

  /** Notes that the client has taken what was handed over. Tells whether it was too slow. */
  take(now: number): boolean {
    if (this.#waitingSince !== null) this.#waited += now - this.#waitingSince
    this.#waitingSince = null
    return now - this.#windowStart >= this.#limits.milliseconds && this.isTooSlow(now)
  }

  /** Tells whether the client was too slow in the window that has ended by now, if one has. */
  isTooSlow(now: number): boolean {
    const elapsed = now - this.#windowStart
    if (elapsed < this.#limits.milliseconds) return false
    const since = this.#waitingSince
    const waited = this.#waited + (since === null ? 0 : now - since)
    const isSlow = waited >= elapsed * WAITING && this.#taken < this.#limits.bytes
    this.#windowStart = now
    this.#taken = 0
    this.#waited = 0
    if (since !== null) this.#waitingSince = now
    return isSlow
  }
}
