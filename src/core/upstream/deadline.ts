import { GatewayError } from '../errors.ts'
import { Cancellation } from '../kernel/cancellation.ts'

/** The limits of one attempt, in milliseconds. */
export interface Limits {
  firstByte: number
  idle: number
  total: number
}

/**
 * Watches over one attempt: it is cancelled when its call is, or when the upstream is silent for too long. It begins with the
 * wait for the first byte.
 */
export class Deadline {
  /** What ends the attempt. */
  readonly attempt = new Cancellation()
  readonly #call: Cancellation
  readonly #limits: Limits
  readonly #ends: number
  #silence: ReturnType<typeof setTimeout>
  #begun = false

  constructor(call: Cancellation, limits: Limits) {
    this.#call = call
    this.#limits = limits
    this.#ends = performance.now() + limits.total
    this.#silence = setTimeout(this.#expire, Math.min(limits.firstByte, limits.total))
    call.listen(reason => this.attempt.cancel(reason))
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
    this.#call.listen(null)
  }

  /** The attempt is given up, and its connection with it. */
  abort(): void {
    this.close()
    this.attempt.cancel(GIVEN_UP)
  }

  /** What a failure of the upstream means: the deadline's own reason where it has fired, else the connection's trouble. */
  failure(thrown: unknown): GatewayError {
    const reason = this.attempt.reason ?? thrown
    return reason instanceof GatewayError ? reason : new GatewayError('provider_unavailable', 'Provider returned error', { cause: reason })
  }

  #begin(): void {
    this.#begun = true
    clearTimeout(this.#silence)
    this.#silence = setTimeout(this.#expire, this.#limits.idle)
  }

  readonly #expire = (): void => this.attempt.cancel(new GatewayError('timeout', 'Request timed out. Please try again later.'))
}

/** Nobody waits for this attempt any more. */
const GIVEN_UP = new GatewayError('unmapped', 'The attempt was given up')
