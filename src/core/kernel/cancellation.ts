import type { GatewayError } from '../errors.ts'

/**
 * Ends something from outside, with a reason. It does for one call what an AbortController does for the platform, without
 * its weight: one listener at a time, the attempt that runs.
 */
export class Cancellation {
  reason: GatewayError | null = null
  #listener: ((reason: GatewayError) => void) | null = null

  /** Ends it. The first reason stays. */
  cancel(reason: GatewayError): void {
    if (this.reason) return
    this.reason = reason
    this.#listener?.(reason)
  }

  /** Whom to tell; null for nobody. Told at once when it has been cancelled before. */
  listen(listener: ((reason: GatewayError) => void) | null): void {
    this.#listener = listener
    if (this.reason) listener?.(this.reason)
  }
}
