/** A message about a call to an outside receiver. */
export interface OutboxMessage {
  /** The receiver. */
  topic: string
  /** The content, in the receiver's text format. */
  payload: string
  /** The destinations that wait for it, by their ids. */
  receivers?: string[]
}

/** A message that waits to be sent, and the call that it was recorded with. */
export interface OutboxRow extends Omit<OutboxMessage, 'receivers'> {
  /** Grows with every message, and is never reused. */
  sequence: number
  generation_id: string
  /** When the call, or its step, was settled: ISO 8601. */
  created_at: string
}

/**
 * Stores messages that are not sent yet. The recorder adds them in the transaction of their call,
 * so messages exist for exactly the calls that are on record. A message that was sent but not
 * removed before a crash is found again.
 */
export interface OutboxStore {
  /**
   * Returns at most `limit` messages, oldest first; with `after`, only those of greater sequence.
   */
  listPending(limit: number, after?: number): Promise<OutboxRow[]>
  /** Removes these messages. Missing ones are no error. */
  remove(sequences: number[]): Promise<void>
}
