import type { GatewayError } from './errors.ts'

/**
 * Cancels work from outside, with a reason. It is a lightweight AbortController for one call. It
 * has one listener at a time: the attempt that runs.
 */
export class Cancellation {
  reason: GatewayError | null = null
  #listener: ((reason: GatewayError) => void) | null = null

  /** Cancels the work. The first reason stays. */
  cancel(reason: GatewayError): void {
    if (this.reason) return
    this.reason = reason
    this.#listener?.(reason)
  }

  /** Sets the listener; null removes it. It is called at once if the work is already cancelled. */
  listen(listener: ((reason: GatewayError) => void) | null): void {
    this.#listener = listener
    if (this.reason) listener?.(this.reason)
  }

  /** Creates cancellations for parallel work. Each is cancelled when this one is. */
  createBranches(count: 2): [Cancellation, Cancellation]
  createBranches(count: number): Cancellation[]
  createBranches(count: number): Cancellation[] {
    const branches = Array.from({ length: count }, () => new Cancellation())
    this.listen(reason => {
      for (const branch of branches) branch.cancel(reason)
    })
    return branches
  }

  /** Awaits work that takes no cancellation itself. Throws the reason once this is cancelled. */
  async awaitUnlessCancelled<T>(work: Promise<T>): Promise<T> {
    const cancelled = Promise.withResolvers<never>()
    this.listen(cancelled.reject)
    try {
      return await Promise.race([work, cancelled.promise])
    } finally {
      this.listen(null)
    }
  }
}
