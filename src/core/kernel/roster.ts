/**
 * A set of items that are added and removed all the time, in no order. It is an array and not a
 * Set. A Set under such use replaces its table again and again, and each old table points to the
 * next. So everything that any of them held stays alive until the next full collection.
 */
export class Roster<T> implements Iterable<T> {
  readonly #things: T[] = []
  readonly #places: Place[] = []

  get size(): number {
    return this.#things.length
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#things.values()
  }

  /** Adds an item and returns a function that removes it. Calling that again does nothing. */
  add(thing: T): () => void {
    const place = { at: this.#things.push(thing) - 1 }
    this.#places.push(place)
    return () => this.#remove(place)
  }

  // The last item moves into the free slot, so that no other item has to move.
  #remove(place: Place): void {
    const { at } = place
    if (at === GONE) return
    place.at = GONE
    const thing = this.#things.pop() as T
    const last = this.#places.pop()
    if (!last || last === place) return
    last.at = at
    this.#things[at] = thing
    this.#places[at] = last
  }
}

/** The position of an item. */
interface Place {
  at: number
}

const GONE = -1
