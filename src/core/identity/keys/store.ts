import type { Period } from '../../kernel/clock.ts'
import type { AuditEntry } from '../audit.ts'

/**
 * An API key as it is kept: never the secret, only its hash. Money in nano-dollars, times in ISO
 * 8601.
 */
export interface Key {
  /** Lowercase hex SHA-256 of the plaintext. The key's public name. */
  hash: string
  name: string
  label: string
  kind: 'management' | 'inference'
  workspace_id: string
  /**
   * Whether it was made without naming a workspace, and so belongs to the default one and goes with
   * it.
   */
  isUnscoped: boolean
  creator_user_id: string | null
  external_user: string | null
  external_api_key_hash: string | null
  disabled: boolean
  limit: bigint | null
  limit_reset: Period | null
  include_byok_in_limit: boolean
  expires_at: string | null
  created_at: string
  updated_at: string | null
}

/**
 * Remembers keys. A hash is unique. What changes one is one transaction with the entry that tells
 * of it.
 */
export interface KeyStore {
  all(): Promise<Key[]>
  /**
   * A new one. Throws 400 where its workspace is gone, unless it manages all, and where its creator
   * has left.
   */
  insert(key: Key, entry: AuditEntry): Promise<void>
  /**
   * Changes these fields of a key and no others: another process may have changed those. Throws 400
   * where it shall open again, and its workspace or its creator is gone.
   */
  update(hash: string, change: Partial<Key>, entry: AuditEntry): Promise<void>
  remove(hash: string, entry: AuditEntry): Promise<void>
}

/** Keys that are disabled together with another change: their part of its transaction. */
export interface Disabling {
  hashes: string[]
  updated_at: string
  entries: AuditEntry[]
}
