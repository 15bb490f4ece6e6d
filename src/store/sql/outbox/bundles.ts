import type { SpoolPlace } from '../../spool.ts'

/** A row of the outbox: a message, or several with a line each. */
export interface BundleRow {
  /** The number of its last message. */
  sequence: number
  topic: string
  generation_id: string
  /** Empty where the messages are in the spool. */
  payload: string
  created_at: string
  /** How many messages it has. */
  calls: number
  /** The block of the spool that has them; null where the payload does. */
  segment: SpoolPlace['segment'] | null
  start: SpoolPlace['start'] | null
  length: SpoolPlace['length'] | null
  /** Which message of the block is its first. */
  first: number | null
  /** How many bytes each has, a line each; null for rows of earlier versions. */
  sizes: string | null
}

/** A message of a row, as a row of its own. */
export type MessageRow = Omit<BundleRow, 'calls'>

/** The most messages of a bundle: one that is longer than a batch would have to be cut. */
export const MOST_CALLS = 16

/** Cuts a row into its messages, in order, each with its number. */
export function cutBundle({ calls, ...row }: BundleRow): MessageRow[] {
  if (calls === 1) return [row]
  const payloads = row.segment === null ? row.payload.split('\n') : []
  const sizes = row.sizes?.split('\n')
  return row.generation_id.split('\n').map((generation_id, i) => ({
    ...row,
    sequence: row.sequence - calls + 1 + i,
    generation_id,
    payload: payloads[i] ?? '',
    first: row.first === null ? null : row.first + i,
    sizes: sizes?.[i] ?? null,
  }))
}

/** Returns the size of a message, in bytes. */
export const measureMessage = ({
  sizes,
  payload,
}: Pick<MessageRow, 'sizes' | 'payload'>): number =>
  sizes === null ? payload.length : Number(sizes)

/** Returns where the messages of a row are in the spool; null where they are in the row. */
export const findPlace = ({ segment, start, length }: MessageRow): SpoolPlace | null =>
  segment === null || start === null || length === null ? null : { segment, start, length }

/** Lists the numbers of a row's messages. */
export const listNumbers = ({ sequence, calls }: { sequence: number; calls: number }): number[] =>
  Array.from({ length: calls }, (_, i) => sequence - calls + 1 + i)
