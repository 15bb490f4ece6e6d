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

  /** So many more, each of which is cancelled when this is: for work that goes on at the same time. */
  branches(count: 2): [Cancellation, Cancellation]
  branches(count: number): Cancellation[]
  branches(count: number): Cancellation[] {
    const branches = Array.from({ length: count }, () => new Cancellation())
    this.listen(reason => {
      for (const branch of branches) branch.cancel(reason)
    })
    return branches
  }

  /** What somebody else's work comes to, awaited no longer than this lasts: throws the reason once it is cancelled. */
  async orCancelled<T>(work: Promise<T>): Promise<T> {
    const cancelled = Promise.withResolvers<never>()
    this.listen(cancelled.reject)
    try {
      return await Promise.race([work, cancelled.promise])
    } finally {
      this.listen(null)
    }
  }
}
