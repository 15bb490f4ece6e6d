import type { AuditEntry } from '../../identity/audit.ts'

/**
 * A provider key that a caller brings along, as it is kept: sealed, and never shown again. Times in
 * ISO 8601.
 */
export interface ByokKey {
  id: string
  workspace_id: string
  /** By the public service's slug, where it has one. */
  provider: string
  name: string | null
  label: string
  /** The key itself, sealed for this id. */
  sealed: string
  disabled: boolean
  /** Tried after the gateway's own credential instead of before it. */
  is_fallback: boolean
  /** The gateway's own credential serves no model of this provider. */
  is_byok_only: boolean
  /** The gateway's own credential serves none of the models that this key is for. */
  is_required: boolean
  /** Whether the provider keeps nothing for the owner of this key; null: what is publicly known. */
  declared_zdr: boolean | null
  /** Whom it may serve. Null: all. */
  allowed_models: string[] | null
  allowed_api_key_hashes: string[] | null
  allowed_user_ids: string[] | null
  /** Its place among the keys of its provider: the lowest is tried first. */
  sort_order: number
  created_at: string
}

/** Remembers callers' provider keys. An id is unique. */
export interface ByokStore {
  /** Those that were not deleted. */
  all(): Promise<ByokKey[]>
  insert(key: ByokKey, entry: AuditEntry): Promise<void>
  /** Changes these fields of a key and no others: another process may have changed those. */
  update(id: string, change: Partial<ByokKey>, entry: AuditEntry): Promise<void>
  /** Forgets what was sealed, and keeps that there was a key. */
  remove(id: string, at: string, entry: AuditEntry): Promise<void>
}
