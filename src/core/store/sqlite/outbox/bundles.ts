/** A row of the outbox: a message, or several with a line each. */
export interface BundleRow {
  /** The number of its last message. */
  sequence: number
  topic: string
  generation_id: string
  payload: string
  created_at: string
  /** How many messages it has. */
  calls: number
}

/** The most messages of a bundle: one that is longer than a batch would have to be cut. */
export const MOST_CALLS = 16

/** Opens a row into its messages, in order, each with its number. */
export function openBundle({ calls, ...row }: BundleRow): Omit<BundleRow, 'calls'>[] {
  if (calls === 1) return [row]
  const payloads = row.payload.split('\n')
  return row.generation_id.split('\n').map((generation_id, i) => ({
    ...row,
    sequence: row.sequence - calls + 1 + i,
    generation_id,
    payload: payloads[i] ?? '',
  }))
}

/** Lists the numbers of a row's messages. */
export const listNumbers = ({ sequence, calls }: { sequence: number; calls: number }): number[] =>
  Array.from({ length: calls }, (_, i) => sequence - calls + 1 + i)
