/**
 * Things that come and go, in no order. An array, and not a Set: a Set that is added to and taken from all the time replaces its table
 * again and again, each old table points to the next, and so whatever ever stood in one is kept alive until the next full collection.
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

  /** Takes one in, and gives back how to let it go: a second time does nothing. */
  add(thing: T): () => void {
    const place = { at: this.#things.push(thing) - 1 }
    this.#places.push(place)
    return () => this.#remove(place)
  }

  // The last one takes its place, so that nobody has to move up.
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

/** Where a thing stands. */
interface Place {
  at: number
}

const GONE = -1
