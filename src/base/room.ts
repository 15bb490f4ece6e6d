/**
 * Lets few at a time do what takes much memory, in the order in which they came. One that has waited
 * for long goes in all the same: a slow one inside keeps no other out for ever.
 */
export class Room {
  readonly #places: number
  readonly #longestWait: number
  readonly #waiting = new Set<() => void>()
  #inside = 0

  /** `longestWait` is in milliseconds. */
  constructor(places: number, longestWait: number) {
    this.#places = places
    this.#longestWait = longestWait
  }

  /** How many are inside. */
  get size(): number {
    return this.#inside
  }

  /** Resolves once there is a place. Returns what gives it back, which works once. */
  async enter(): Promise<() => void> {
    if (this.#inside >= this.#places) await this.#wait()
    this.#inside += 1
    let isInside = true
    return () => {
      if (!isInside) return
      isInside = false
      this.#inside -= 1
      this.#letNextIn()
    }
  }

  #wait(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => enter(), this.#longestWait)
    const enter = () => {
      clearTimeout(timer)
      this.#waiting.delete(enter)
      resolve()
    }
    this.#waiting.add(enter)
    return promise
  }

  #letNextIn(): void {
    const [next] = this.#waiting
    if (this.#inside < this.#places) next?.()
  }
}
