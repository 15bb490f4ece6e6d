import type { Period } from '../../base/clock.ts'
import type { AuditEntry } from '../audit/store.ts'

/**
 * An API key as it is stored: never the secret, only its hash. Money in nano-dollars, times in ISO
 * 8601.
 */
export interface Key {
  /** The key's public name: lowercase hex SHA-256 of the plaintext that it was created with. */
  hash: string
  /** The hash of the plaintext since the last rotation; null if there was none. */
  secret_hash: string | null
  /** The hash of the plaintext before it, and until when that is valid too. */
  previous_secret_hash: string | null
  previous_secret_until: string | null
  name: string
  label: string
  kind: 'management' | 'inference'
  workspace_id: string
  /**
   * Whether it was created without naming a workspace. It then belongs to the default one, and is
   * disabled with it.
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

/** What a change of a key may rest on, which another change could overtake. */
export type ChangingKey = Pick<
  Key,
  'secret_hash' | 'limit' | 'limit_reset' | 'include_byok_in_limit' | 'disabled'
>

/** Bounds the keys of external users that a workspace has. */
export interface NamedBounds {
  /** Where the workspace has fewer, nothing is judged. */
  most: number
  /** Throws where these allow no other one. */
  judge(named: Pick<Key, 'hash' | 'external_user'>[]): void
}

/**
 * Stores keys. Hashes are unique. Each change is one transaction with its audit entry.
 */
export interface KeyStore {
  /** Lists all keys, or those that have these hashes. */
  all(hashes?: string[]): Promise<Iterable<Key>>
  /**
   * Inserts a new key. Throws 400 when its workspace was deleted, unless the key manages the whole
   * organization, and when its creator has left or is not as `bounds` wants them; 403 when they have
   * as many keys as it allows. Those who manage the organization have no bounds. Refuses as
   * `named` throws of the keys of its workspace that are of external users then.
   */
  insert(key: Key, entry: AuditEntry, bounds?: MakerBounds, named?: NamedBounds): Promise<void>
  /**
   * Changes only these fields of a key: another process may have changed others. With a new secret
   * the sessions of the one before end when that does. Refuses with 400 to enable a key whose
   * workspace was deleted or whose creator has left, as `judge` throws of the key as it is then, and
   * with 404 where it was deleted.
   */
  update(
    hash: string,
    change: Partial<Key>,
    entry: AuditEntry,
    judge?: (now: ChangingKey) => void,
  ): Promise<void>
  /** Removes a key. Throws 404 when it was deleted before. */
  remove(hash: string, entry: AuditEntry): Promise<void>
}

/** What bounds a new key of a creator who does not manage the organization. */
export interface MakerBounds {
  /** Whether they have to be in the key's workspace. */
  inWorkspace?: true
  /** How many keys for inference they may have, in all workspaces. */
  most?: number
  /** The hash of the key that makes it, which nothing may bind. */
  maker?: string
}

/** Keys that are disabled in the transaction of another change. */
export interface KeyDisabling {
  hashes: string[]
  updated_at: string
  entries: AuditEntry[]
}
