/** How many messages one transaction drops: calls wait while it runs. */
export const DROPPED_AT_ONCE = 200

/** A message that waits for a destination. */
export interface WaitingDelivery {
  /** The order in which calls were recorded. */
  sequence: number
  generation_id: string
  /** The message in UTF-8: as JSON, or sealed. */
  payload: Uint8Array
  /** When the call was recorded: ISO 8601. */
  created_at: string
  bytes: number
}

/** Why a destination does not get a message any more, and when it was refused: ISO 8601. */
export interface DeliveryRefusal {
  reason: string
  /** The status of the answer; null if there was none. */
  status: number | null
  failed_at: string
}

/** A message that a destination has refused. */
export interface FailedDelivery extends DeliveryRefusal {
  sequence: number
  generation_id: string
  bytes: number
}

/**
 * What became of a destination's messages. Each that was recorded for it is in exactly one count.
 * Times are ISO 8601.
 */
export interface DeliveryCounts {
  destination_id: string
  /** Those that wait, and their bytes. */
  waiting: number
  bytes: number
  /** Those that were refused and may be sent again. */
  failed: number
  delivered: number
  /** Those that its filter rules left out. */
  skipped: number
  /** Those that were given up: the queue was full, or the destination was switched off. */
  dropped: number
  last_success_at: string | null
  last_error_at: string | null
  last_error: string | null
}

/** The counts of a destination that was never told anything. */
export const NO_COUNTS: Omit<DeliveryCounts, 'destination_id'> = {
  waiting: 0,
  bytes: 0,
  failed: 0,
  delivered: 0,
  skipped: 0,
  dropped: 0,
  last_success_at: null,
  last_error_at: null,
  last_error: null,
}

/** What was taken out of a destination's queue. */
export interface TakenDeliveries {
  destination_id: string
  count: number
  bytes: number
}

/**
 * Stores what waits for destinations. The recorder adds messages in the transaction of their call.
 * Whatever is counted was still there: a message that two outcomes claim counts once.
 */
export interface DeliveryStore {
  /**
   * Lists at most `limit` messages that wait for a destination, of greater sequence, in order. More
   * than one only as long as they have at most so many bytes.
   */
  listWaiting(
    destination_id: string,
    after: number,
    limit: number,
    bytes: number,
  ): Promise<WaitingDelivery[]>
  /** Removes messages that were delivered. */
  finish(destination_id: string, sequences: number[], at: string): Promise<TakenDeliveries>
  /** Removes messages that the destination is not to get. */
  skip(destination_id: string, sequences: number[]): Promise<TakenDeliveries>
  /** Keeps refused messages apart, the newest `most` of them; older ones are dropped. */
  fail(
    destination_id: string,
    sequences: number[],
    refusal: DeliveryRefusal,
    most: number,
  ): Promise<TakenDeliveries>
  /** Notes that sending failed for now. */
  noteError(destination_id: string, error: string, at: string): Promise<void>
  /**
   * Drops the oldest `count` messages of all destinations, and perhaps a few more that were recorded
   * in one transaction with them; fewer, but never none, where one transaction would take too long.
   */
  dropOldest(count: number): Promise<TakenDeliveries[]>
  /** Drops at most `limit` messages that wait for a destination. */
  drop(destination_id: string, limit: number): Promise<TakenDeliveries>
  /** Lists what failed, oldest first, and how many there are. */
  listFailed(
    destination_id: string,
    offset: number,
    limit: number,
  ): Promise<{ rows: FailedDelivery[]; total: number }>
  /** Lets everything that failed wait again. */
  replay(destination_id: string): Promise<void>
  /** Drops everything that failed. */
  dropFailed(destination_id: string): Promise<void>
  /** Counts what failed, by destination. Much cheaper than `count`. */
  countFailed(): Promise<Map<string, number>>
  /** Counts what became of the messages of every destination that has had any. */
  count(): Promise<DeliveryCounts[]>
}
