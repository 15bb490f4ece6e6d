/** A message about a call to an outside receiver. */
export interface OutboxMessage {
  /** The receiver. */
  topic: string
  /** The content, in the receiver's text format. */
  payload: string
  /** Whether it has what was asked or answered, and so is encrypted where it waits. */
  hasContent?: boolean
  /** The destinations that wait for it, by their ids. */
  receivers?: string[]
}

/** Messages that were recorded for the same receivers. */
export interface WrittenMessages {
  receivers: string[]
  count: number
  /** As the queue of each receiver counts them. */
  bytes: number
}

/** A message that waits to be sent, and the call that it was recorded with. */
interface OutboxRow extends Omit<OutboxMessage, 'receivers' | 'hasContent'> {
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
  /** Checks what waits outside the database. */
  inspect(): Promise<SpoolReport>
}

/** What waits for destinations in the spool. */
export interface SpoolReport {
  messages: number
  /** Segments that do not have what refers to them, as sentences. */
  problems: string[]
  /** In bytes: segments that nothing refers to. */
  unneeded: number
}
