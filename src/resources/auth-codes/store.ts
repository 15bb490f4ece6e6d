import type { Period } from '../../base/clock.ts'
import type { AuditEntry } from '../audit/store.ts'

/**
 * A code that an app exchanges for a key: never the code itself, only its hash. Money in
 * nano-dollars, times in ISO 8601.
 */
export interface AuthCode {
  hash: string
  /** Whose key it becomes. */
  user_id: string
  workspace_id: string
  /** The key that made it; null if a member did on the page of consent. */
  key_hash: string | null
  /** Where the code was sent; null if it was shown to the member. */
  callback_url: string | null
  code_challenge: string | null
  code_challenge_method: 'S256' | 'plain' | null
  /** The name, limit and expiry of the key. */
  key_label: string
  limit: bigint | null
  limit_reset: Period | null
  expires_at: string | null
  created_at: string
}

/** Stores codes. */
export interface AuthCodeStore {
  /**
   * Inserts a code and removes those from before a time. Throws 409 where its key, or the member who
   * has consented, has `most` others, and 400 where the workspace no longer exists.
   */
  insert(code: AuthCode, before: string, most: number, entry: AuditEntry): Promise<void>
  /** Takes a code: of simultaneous callers one gets it, and later ones get undefined. */
  take(hash: string): Promise<AuthCode | undefined>
}
