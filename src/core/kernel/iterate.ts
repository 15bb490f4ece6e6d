/** How a watched sequence came to its end. Exactly one of them, exactly once. */
export type Ending =
  | { how: 'completed' }
  | { how: 'failed'; thrown: unknown }
  | { how: 'abandoned' }

/** A sequence whose first item is already there. */
export interface Opened<T> {
  first: T
  /** Null where the first is all. */
  rest: AsyncIterator<T> | null
}

export interface Watcher<T> {
  /** Sees each item as it passes. */
  each(item: T): void
  /** Called once, whatever the end was; may add one last item for a reader that is still there. */
  ended(ending: Ending): Promise<T | undefined>
}

/** A sequence that can also be had at once. */
export interface Sequence<T> extends AsyncIterableIterator<T> {
  /** Everything it has, in order. */
  all(): Promise<T[]>
}

/** A sequence with somebody looking on. */
export const watch = <T>(opened: Opened<T>, watcher: Watcher<T>): Sequence<T> =>
  new Watched(opened, watcher)

// Not a generator: one that is abandoned before its first step never runs its `finally`, and the upstream would stay open
// and the call unsettled. Here leaving early, even before reading, closes the source and is told.
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
      // The reader left while we waited: `return` has told the watcher.
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

  // A whole answer takes no steps: it is seen, and it is over.
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
