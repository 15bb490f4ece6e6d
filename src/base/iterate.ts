/** How a sequence ended. Reported exactly once. */
export type SequenceEnding =
  | { type: 'completed' }
  | { type: 'failed'; thrown: unknown }
  | { type: 'abandoned' }

/** A sequence whose first item has already arrived. */
export interface PeekedSequence<T> {
  first: T
  /** Null when there is only the first item. */
  rest: AsyncIterator<T> | null
}

/** Functions that are called while a sequence is read. */
interface IterationHooks<T> {
  /** Called with each item as it passes. */
  onItem(item: T): void
  /** Called once, however the sequence ended. May add a last item if it is still being read. */
  onEnd(ending: SequenceEnding): Promise<T | undefined>
}

/** A sequence that can also be read at once. */
export interface Sequence<T> extends AsyncIterableIterator<T> {
  /** Reads all items, in order. */
  collect(): Promise<T[]>
}

/** Returns these items as a sequence. */
export const toSequence = <T>(items: T[]): Sequence<T> =>
  Object.assign(iterate(items), { collect: async () => items })

/** Goes through items that are there. */
export async function* iterate<T>(items: T[]): AsyncGenerator<T> {
  yield* items
}

/** Returns the sequence with hooks that see each item and its end, even if it is never read. */
export const withCleanup = <T>(peeked: PeekedSequence<T>, hooks: IterationHooks<T>): Sequence<T> =>
  new CleanupIterator(peeked, hooks)

// Not a generator: one that is abandoned before its first step never runs its `finally`. The
// upstream would stay open and the call unsettled. Here leaving early, even before reading, closes
// the source and calls `onEnd`.
class CleanupIterator<T> implements Sequence<T> {
  #peeked: PeekedSequence<T> | null
  readonly #rest: AsyncIterator<T> | null
  readonly #hooks: IterationHooks<T>
  #isOver = false
  /** What `onEnd` returned; null before. */
  #end: Promise<T | undefined> | null = null

  constructor(opened: PeekedSequence<T>, watcher: IterationHooks<T>) {
    this.#peeked = opened
    this.#rest = opened.rest
    this.#hooks = watcher
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  // Not async: each part of a stream passes here, and one promise for each is enough.
  next(): Promise<IteratorResult<T>> {
    if (this.#isOver) return Promise.resolve(END)
    const first = this.#peeked && this.#takeFirst(this.#peeked)
    if (first) return Promise.resolve(this.#pass(first))
    if (!this.#rest) return Promise.resolve(this.#pass(END))
    return this.#rest.next().then(this.#pass, this.#fail)
  }

  readonly #pass = (step: IteratorResult<T>): IteratorResult<T> | Promise<IteratorResult<T>> => {
    // The reader left during the wait: `return` has called `onEnd`.
    if (this.#isOver) return END
    if (step.done) return this.#finish({ type: 'completed' })
    try {
      this.#hooks.onItem(step.value)
      return step
    } catch (thrown) {
      return this.#finish({ type: 'failed', thrown })
    }
  }

  readonly #fail = (thrown: unknown): IteratorResult<T> | Promise<IteratorResult<T>> =>
    this.#isOver ? END : this.#finish({ type: 'failed', thrown })

  // Who leaves while a failure is being handled waits for that, too: after `return` all is done.
  async return(): Promise<IteratorResult<T>> {
    if (this.#isOver) {
      await this.#end?.catch(() => undefined)
      return END
    }
    this.#isOver = true
    const closed = this.#rest?.return?.()
    this.#end = this.#hooks.onEnd({ type: 'abandoned' })
    await Promise.all([closed, this.#end])
    return END
  }

  collect(): Promise<T[]> {
    return this.#peeked && !this.#rest && !this.#isOver
      ? this.#collectWhole(this.#peeked.first)
      : this.#collectEach()
  }

  async #collectEach(): Promise<T[]> {
    const items: T[] = []
    for (let step = await this.next(); !step.done; step = await this.next()) items.push(step.value)
    return items
  }

  // An answer of one item needs no iteration.
  async #collectWhole(only: T): Promise<T[]> {
    this.#peeked = null
    this.#isOver = true
    let ending: SequenceEnding = { type: 'completed' }
    try {
      this.#hooks.onItem(only)
    } catch (thrown) {
      ending = { type: 'failed', thrown }
    }
    const items = ending.type === 'completed' ? [only] : []
    const last = await this.#hooks.onEnd(ending)
    return last === undefined ? items : [...items, last]
  }

  #takeFirst({ first }: PeekedSequence<T>): IteratorResult<T> {
    this.#peeked = null
    return { done: false, value: first }
  }

  async #finish(ending: SequenceEnding): Promise<IteratorResult<T>> {
    this.#isOver = true
    this.#end = this.#hooks.onEnd(ending)
    const last = await this.#end
    return last === undefined ? END : { done: false, value: last }
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }
