import { Room } from '../../base/room.ts'

/** How many pictures are read, checked and passed on at once: each takes several times its size. */
const PLACES = 4

/** In milliseconds: a provider that sends its picture slowly keeps no other out for longer. */
const LONGEST_WAIT = 30_000

/** How many answers may be over and still take memory. */
const MOST_DEAD = 4

/** The room in which answers are read that take much memory. */
export class LargeAnswers {
  readonly #room = new Room(PLACES, LONGEST_WAIT)
  readonly #collect: () => void
  #dead = 0

  /** Tests count collections. */
  constructor(collect: () => void = () => Bun.gc(true)) {
    this.#collect = collect
  }

  /** How many are inside. */
  get size(): number {
    return this.#room.size
  }

  /**
   * Resolves once there is a place for a large answer. Returns what gives it back. The memory of
   * those before it is collected now, once there are several: the collector does not see how much
   * the texts of pictures take, and would let them grow to several times that. Everything else
   * stands still meanwhile, so that it does not happen for each.
   */
  async enter(): Promise<() => void> {
    const leave = await this.#room.enter()
    if (this.#dead >= MOST_DEAD) {
      this.#dead = 0
      this.#collect()
    }
    let isInside = true
    return () => {
      if (isInside) this.#dead += 1
      isInside = false
      leave()
    }
  }
}
