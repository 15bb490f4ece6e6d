import { GatewayError } from '../errors.ts'
import type { Cancellation } from '../kernel/cancellation.ts'

/** The limits of one attempt, in milliseconds. */
export interface Limits {
  firstByte: number
  idle: number
  total: number
}

/**
 * Watches over one attempt: its signal fires when the call is cancelled or the upstream is silent for too long. It begins
 * with the wait for the first byte.
 */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #cancellation: Cancellation
  readonly #limits: Limits
  readonly #ends: number
  #silence: ReturnType<typeof setTimeout>
  #begun = false

  constructor(cancellation: Cancellation, limits: Limits) {
    this.#cancellation = cancellation
    this.#limits = limits
    this.#ends = performance.now() + limits.total
    this.#silence = setTimeout(this.#expire, Math.min(limits.firstByte, limits.total))
    cancellation.listen(reason => this.#controller.abort(reason))
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Bytes have come. The total is looked at here, so that one timer serves both limits. */
  touched(): void {
    if (performance.now() > this.#ends) this.#expire()
    else if (this.#begun) this.#silence.refresh()
    else this.#begin()
  }

  /** The answer is whole: nothing is watched any more, and the connection may serve another. */
  close(): void {
    clearTimeout(this.#silence)
    this.#cancellation.listen(null)
  }

  /** The attempt is given up, and its connection with it. */
  abort(): void {
    this.close()
    this.#controller.abort()
  }

  /** What a failure of the upstream means: the deadline's own reason where it has fired, else the connection's trouble. */
  failure(thrown: unknown): GatewayError {
    const reason = this.signal.aborted ? this.signal.reason : thrown
    return reason instanceof GatewayError ? reason : new GatewayError('provider_unavailable', 'Provider returned error', { cause: reason })
  }

  #begin(): void {
    this.#begun = true
    clearTimeout(this.#silence)
    this.#silence = setTimeout(this.#expire, this.#limits.idle)
  }

  readonly #expire = (): void => this.#controller.abort(new GatewayError('timeout', 'Request timed out. Please try again later.'))
}
