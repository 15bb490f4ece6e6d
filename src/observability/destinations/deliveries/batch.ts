import type { WaitingDelivery } from './store.ts'

/** Messages that go to a destination in one request. They stay in the store until it has them. */
export interface Batch {
  items: BatchItem[]
  /** How often it was answered with a failure that may pass. */
  failures: number
  /** How many requests had succeeded when it failed first; null if it has not. */
  successesBefore: number | null
}

export type BatchItem = Pick<WaitingDelivery, 'sequence' | 'created_at'>

/** Cuts a batch in two. What is known of the first failure stays. */
export function splitBatch({ items, successesBefore }: Batch): [Batch, Batch] {
  const middle = Math.ceil(items.length / 2)
  return [
    { ...createBatch(items.slice(0, middle)), successesBefore },
    { ...createBatch(items.slice(middle)), successesBefore },
  ]
}

export const createBatch = (items: BatchItem[]): Batch => ({
  items: items.map(({ sequence, created_at }) => ({ sequence, created_at })),
  failures: 0,
  successesBefore: null,
})

/** Lists the sequences of a batch, in order. */
export const listSequences = ({ items }: Batch): number[] => items.map(({ sequence }) => sequence)
