/**
 * A set of items that are added and removed all the time, in no order. It is an array and not a
 * Set. A Set under such use replaces its table again and again, and each old table points to the
 * next. So everything that any of them held stays alive until the next full collection.
 */
export class LiveSet<T> implements Iterable<T> {
  readonly #items: T[] = []
  readonly #slots: Slot[] = []

  get size(): number {
    return this.#items.length
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items.values()
  }

  /** Adds an item and returns a function that removes it. Calling that again does nothing. */
  add(item: T): () => void {
    const slot = { index: this.#items.push(item) - 1 }
    this.#slots.push(slot)
    return () => this.#remove(slot)
  }

  // The last item moves into the free slot, so that no other item has to move.
  #remove(place: Slot): void {
    const { index } = place
    if (index === GONE) return
    place.index = GONE
    const thing = this.#items.pop() as T
    const last = this.#slots.pop()
    if (!last || last === place) return
    last.index = index
    this.#items[index] = thing
    this.#slots[index] = last
  }
}

/** The position of an item. */
interface Slot {
  index: number
}

const GONE = -1
