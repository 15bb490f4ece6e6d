import type { AuditEntry } from '../audit/store.ts'

/**
 * The record of a caller's provider key. The key is sealed and never shown again. Times are ISO
 * 8601.
 */
export interface ByokKey {
  id: string
  workspace_id: string
  /** The public service's slug, where it has one. */
  provider: string
  name: string | null
  label: string
  /** The key itself, sealed for this id. */
  sealed: string
  disabled: boolean
  /** Tried after the gateway's own credential instead of before it. */
  is_fallback: boolean
  /** Set when the gateway's own credential serves no model of this provider. */
  is_byok_only: boolean
  /** Set when the gateway's own credential serves none of the models that this key is for. */
  is_required: boolean
  /**
   * Whether the provider retains nothing for the owner of this key. Null means what is publicly
   * known.
   */
  declared_zdr: boolean | null
  /** The models it may serve. Null means all, here and in the next two. */
  allowed_models: string[] | null
  allowed_api_key_hashes: string[] | null
  allowed_user_ids: string[] | null
  /** Its position among the keys of its provider: the lowest is tried first. */
  sort_order: number
  created_at: string
}

/** When a key is tried, which not every two changes agree about. */
export type ByokRoles = Pick<ByokKey, 'is_fallback' | 'is_byok_only'>

/** Stores callers' provider keys. An id is unique. */
export interface ByokStore {
  /** Returns the keys that were not deleted: all, or those that have these ids. */
  all(ids?: string[]): Promise<ByokKey[]>
  insert(key: ByokKey, entry: AuditEntry): Promise<void>
  /**
   * Changes only these fields of a key: another process may have changed the others. Refuses as
   * `judge` throws of the key as it is then. Throws 404 when it was deleted.
   */
  update(
    id: string,
    change: Partial<ByokKey>,
    entry: AuditEntry,
    judge?: (now: ByokRoles) => void,
  ): Promise<void>
  /**
   * Removes the sealed credential and keeps the record that there was a key. Throws 404 when it was
   * deleted before.
   */
  remove(id: string, at: string, entry: AuditEntry): Promise<void>
}
