import type { Actor } from '../actor'

/**
 * The record of one change: the actor, the action, the time, and the resource before and after it.
 * Never contains a secret. Times in ISO 8601.
 */
export interface AuditEntry {
  id: string
  created_at: string
  /** The kind of actor, the user, and the key. The key is null at the terminal. */
  actor: Actor['kind']
  user_id: string
  key_hash: string | null
  /** The workspace of the resource; null if it belongs to none. */
  workspace_id: string | null
  /** `<noun>.<verb>`: `keys.create`. */
  action: string
  resource_id: string
  before: object | null
  after: object | null
}

/**
 * Selects entries that match every given member. `since` is inclusive, `until` exclusive.
 */
export type AuditFilter = Partial<
  Pick<AuditEntry, 'action' | 'resource_id' | 'user_id' | 'key_hash' | 'workspace_id'>
> & {
  since?: string
  until?: string
}

/**
 * Stores audit entries. They are inserted together with the changes that they record, and no method
 * changes or removes one.
 */
export interface AuditStore {
  /** Adds the entry of a change that is stored nowhere else. */
  append(entry: AuditEntry): Promise<void>
  /** Returns one page of the matching entries, the newest first, and their total number. */
  listPage(
    filter: AuditFilter,
    offset: number,
    limit: number,
  ): Promise<{ entries: AuditEntry[]; total: number }>
}
