import type { ByteSource } from '../base/byte-source.ts'
import { Cancellation } from '../base/cancellation.ts'
import { Timeout } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'

/** Cancels a request that has been silent for too long, either way. */
export class Patience {
  readonly cancellation = new Cancellation()
  readonly #timeout: Timeout

  /** Begins now. After so many milliseconds without `renew`, `silence` cancels the request. */
  constructor(milliseconds: number, silence: GatewayError) {
    this.#timeout = new Timeout(milliseconds, () => this.cancellation.cancel(silence))
  }

  renew(): void {
    this.#timeout.restart()
  }

  /** Waits for nothing until it is renewed. */
  rest(): void {
    this.#timeout.stop()
  }

  /** Ends the request, if it is not over. */
  end(): void {
    this.rest()
    this.cancellation.cancel(OVER)
  }

  /** Returns the source with each piece that is read of it as a sign of life. */
  watch = (source: ByteSource): ByteSource => ({
    size: source.size,
    read: (position, length) => {
      this.renew()
      return source.read(position, length)
    },
  })
}

const OVER = new GatewayError('unmapped', 'The request is over')
