import type { Precondition } from '../../base/entity-tag.ts'

/** Who acts: an API key by what it may do, an identity provider, a member, or the operator. */
export type ActorKind = 'operator' | 'management' | 'inference' | 'scim' | 'member'

/**
 * The record of one change: the actor, the action, the time, and the resource before and after it.
 * Never contains a secret. Times in ISO 8601.
 */
export interface AuditEntry {
  id: string
  created_at: string
  /** The kind of actor, the user, and the key. The key is null at the terminal. */
  actor: ActorKind
  user_id: string
  key_hash: string | null
  /** The workspace of the resource; null if it belongs to none. */
  workspace_id: string | null
  /** `<noun>.<verb>`: `keys.create`. */
  action: string
  resource_id: string
  before: object | null
  after: object | null
  /** The version that the resource must have until it is written; of none that was written. */
  ifMatch?: Precondition['ifMatch']
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
 * changes or removes one. Where the resource of a new one has another version than it requires,
 * nothing of that is written: 412.
 */
export interface AuditStore {
  /** Adds the entry of a change that is stored nowhere else. */
  append(entry: AuditEntry): Promise<void>
  /** Reads the version of a resource, which each of its entries changes. */
  readVersion(resource_id: string): Promise<string>
  /** Returns one page of the matching entries, the newest first, and their total number. */
  listPage(
    filter: AuditFilter,
    offset: number,
    limit: number,
  ): Promise<{ entries: AuditEntry[]; total: number }>
}
