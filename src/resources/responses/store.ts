import type { AuditEntry } from '../audit/store.ts'

/** How a stored response stands: it is made in the background, or has ended. */
export type ResponseStatus = 'queued' | 'completed' | 'incomplete' | 'failed' | 'cancelled'

/** A response that its key may go on from. Only the gateway’s secret opens it. */
export interface StoredResponse {
  /** The id of its generation. */
  id: string
  workspace_id: string
  key_hash: string
  status: ResponseStatus
  /** In ISO 8601. */
  created_at: string
  /** The bytes of the sealed text. */
  size_bytes: number
  sealed: string
}

/** Stores responses, and where their items are. */
export interface ResponseStore {
  /**
   * Inserts a response with the ids of its items. Throws 400 where the workspace no longer exists,
   * and what `judge` throws for the bytes that all others of the workspace take.
   */
  insert(response: StoredResponse, items: string[], judge: (used: number) => void): Promise<void>
  /**
   * Ends a response that is made in the background. False where it has ended, or is gone. The entry
   * is null for one that ends by itself.
   */
  end(
    ended: Pick<StoredResponse, 'id' | 'status' | 'size_bytes' | 'sealed'>,
    items: string[],
    entry: AuditEntry | null,
  ): Promise<boolean>
  find(id: string): Promise<StoredResponse | undefined>
  /** Lists those of these ids that are there and were not cancelled. */
  listUncancelled(ids: string[]): Promise<string[]>
  /** Finds the response of a key that has an item. */
  findByItem(key_hash: string, item_id: string): Promise<StoredResponse | undefined>
  /** Computes what all responses of a workspace take, by whole blocks of a disk. */
  computeUse(workspace_id: string): Promise<number>
  /** Removes a response. Throws 404 if another request has just removed it. */
  remove(id: string, entry: AuditEntry): Promise<void>
  /** Removes some from before a time, and counts them. */
  removeBefore(time: string, now: string): Promise<number>
}
