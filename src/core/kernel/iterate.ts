/** How a watched sequence came to its end. Exactly one of them, exactly once. */
export type Ending = { how: 'completed' } | { how: 'failed'; thrown: unknown } | { how: 'abandoned' }

export interface Watcher<T> {
  /** Sees each item as it passes. */
  each(item: T): void
  /** Called once, whatever the end was; may add one last item for a reader that is still there. */
  ended(ending: Ending): Promise<T | undefined>
}

/**
 * The source, with somebody looking on. Not a generator: one that is abandoned before its first step never runs its
 * `finally`, and the upstream would stay open and the call unsettled. Here leaving early closes the source and is told.
 */
export function watch<T>(source: AsyncIterator<T>, watcher: Watcher<T>): AsyncIterableIterator<T> {
  let over = false
  const finish = async (ending: Ending): Promise<IteratorResult<T>> => {
    over = true
    const last = await watcher.ended(ending)
    return last === undefined ? END : { done: false, value: last }
  }
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    async next() {
      if (over) return END
      try {
        const step = await source.next()
        // The reader left while we waited: `return` has told the watcher.
        if (over) return END
        if (step.done) return finish({ how: 'completed' })
        watcher.each(step.value)
        return step
      } catch (thrown) {
        return over ? END : finish({ how: 'failed', thrown })
      }
    },
    async return() {
      if (over) return END
      over = true
      await Promise.all([source.return?.(), watcher.ended({ how: 'abandoned' })])
      return END
    },
  }
}

/** The first item, already taken, and then the rest. Leaving early leaves the rest early. */
export function prepend<T>(first: T, rest: AsyncIterator<T>): AsyncIterableIterator<T> {
  let given = false
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    async next() {
      if (given) return rest.next()
      given = true
      return { done: false, value: first }
    },
    async return() {
      given = true
      await rest.return?.()
      return END
    },
  }
}

/** A sequence of one item. */
export function once<T>(item: T): AsyncIterableIterator<T> {
  return prepend(item, { next: async () => END })
}

/** Everything the sequence has, in order. */
export async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of source) items.push(item)
  return items
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }
