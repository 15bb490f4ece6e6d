/** How a sequence ended. Reported exactly once. */
export type Ending =
  | { how: 'completed' }
  | { how: 'failed'; thrown: unknown }
  | { how: 'abandoned' }

/** A sequence whose first item has already arrived. */
export interface Opened<T> {
  first: T
  /** Null when there is only the first item. */
  rest: AsyncIterator<T> | null
}

/** Functions that are called while a sequence is read. */
export interface Watcher<T> {
  /** Called with each item as it passes. */
  each(item: T): void
  /** Called once, however the sequence ended. May add a last item if it is still being read. */
  ended(ending: Ending): Promise<T | undefined>
}

/** A sequence that can also be read at once. */
export interface Sequence<T> extends AsyncIterableIterator<T> {
  /** Reads all items, in order. */
  all(): Promise<T[]>
}

/** Returns the sequence with hooks that see each item and its end, even if it is never read. */
export const watch = <T>(opened: Opened<T>, watcher: Watcher<T>): Sequence<T> =>
  new Watched(opened, watcher)

// Not a generator: one that is abandoned before its first step never runs its `finally`. The
// upstream would stay open and the call unsettled. Here leaving early, even before reading, closes
// the source and calls `onEnd`.
class Watched<T> implements Sequence<T> {
  #opened: Opened<T> | null
  readonly #rest: AsyncIterator<T> | null
  readonly #watcher: Watcher<T>
  #over = false

  constructor(opened: Opened<T>, watcher: Watcher<T>) {
    this.#opened = opened
    this.#rest = opened.rest
    this.#watcher = watcher
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<T>> {
    if (this.#over) return END
    try {
      const step = this.#first() ?? (await this.#rest?.next()) ?? END
      // The reader left during the wait: `return` has called `onEnd`.
      if (this.#over) return END
      if (step.done) return this.#finish({ how: 'completed' })
      this.#watcher.each(step.value)
      return step
    } catch (thrown) {
      return this.#over ? END : this.#finish({ how: 'failed', thrown })
    }
  }

  async return(): Promise<IteratorResult<T>> {
    if (this.#over) return END
    this.#over = true
    await Promise.all([this.#rest?.return?.(), this.#watcher.ended({ how: 'abandoned' })])
    return END
  }

  async all(): Promise<T[]> {
    const items: T[] = []
    if (this.#opened && !this.#rest && !this.#over) return this.#atOnce(this.#opened.first)
    for (let step = await this.next(); !step.done; step = await this.next()) items.push(step.value)
    return items
  }

  // An answer of one item needs no iteration.
  async #atOnce(only: T): Promise<T[]> {
    this.#opened = null
    this.#over = true
    const ending = this.#see(only)
    const items = ending.how === 'completed' ? [only] : []
    const last = await this.#watcher.ended(ending)
    return last === undefined ? items : [...items, last]
  }

  #see(item: T): Ending {
    try {
      this.#watcher.each(item)
      return { how: 'completed' }
    } catch (thrown) {
      return { how: 'failed', thrown }
    }
  }

  #first(): IteratorResult<T> | undefined {
    if (!this.#opened) return undefined
    const value = this.#opened.first
    this.#opened = null
    return { done: false, value }
  }

  async #finish(ending: Ending): Promise<IteratorResult<T>> {
    this.#over = true
    const last = await this.#watcher.ended(ending)
    return last === undefined ? END : { done: false, value: last }
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }
