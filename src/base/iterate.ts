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
