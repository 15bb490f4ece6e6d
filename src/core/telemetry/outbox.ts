/** What is to be told to others of a call. */
export interface OutboxMessage {
  /** Who it is for. */
  topic: string
  /** What they are told, in whatever text they read. */
  payload: string
}

/** A message that waits, and the call that it was recorded with. */
export interface OutboxRow extends OutboxMessage {
  /** Grows with every message, and is never given again. */
  sequence: number
  generation_id: string
  /** When the call, or its step, was settled: ISO 8601. */
  created_at: string
}

/**
 * Remembers what is still to be told. Messages are added by the recorder, in the transaction of the
 * call that they tell of: whoever sends them sends those of every call that is on record, and of no
 * other. One that was sent and not yet removed is found again after a crash.
 */
export interface OutboxStore {
  /** Returns at most `limit` messages, the oldest first; with `after`, those of greater sequence. */
  pending(limit: number, after?: number): Promise<OutboxRow[]>
  /** Forgets these messages. Those that are gone are no mistake. */
  remove(sequences: number[]): Promise<void>
}
