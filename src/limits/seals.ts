import type { Mac } from '../base/mac.ts'
import type { Seal } from '../base/seal.ts'
import type { AuditEntry } from '../resources/audit/store.ts'

/** What seals and encrypts records: three keys of one secret. */
export interface RecordSecrets {
  /** Seals the ledger, the audit trail and every rule. */
  mac: Mac
  /** Encrypts provider keys. Throws when the secret cannot be read. */
  seal: () => Seal
  /** Encrypts credentials in presets. Throws when the secret cannot be read. */
  presetSeal: () => Seal
  /** Encrypts what calls asked and answered. Throws as the others do. */
  contentSeal: () => Seal
  /** Encrypts what destinations are configured with and told. Throws as the others do. */
  destinationSeal: () => Seal
}

/** The newest entry in the log of seals. */
export interface SealHead {
  n: number
  seal: string
}

/**
 * What stood in the store when it was sealed as it was: for the first time, or again by its owner.
 * The opening is sealed itself, and every later seal follows from it.
 */
export interface SealOpening {
  /** ISO 8601. */
  sealed_at: string
  /**
   * The last row of the ledger that the opening covers, and its hash; 0 and empty without any. Up
   * to it, hashes have no key where there is no `digest`. A digest is that of all these rows as
   * they stood, and their hashes are no longer looked at.
   */
  ledger: { seq: number; hash: string; digest?: string }
}

/** What the seals of a store show, as sentences. An empty list is a good one. */
export interface SealReport {
  /** Tables, indexes and triggers that this program did not make, or that are missing. */
  schema: string[]
  /** Entries of the audit trail that were changed, added or removed. */
  audit: string[]
  /** Rows of keys, limits, members and other rules that were changed, added or removed. */
  rules: string[]
  /** Faults of the opening and of the log of seals. */
  seals: string[]
}

/**
 * Seals rows with a key that only the gateway has: the audit trail, credits, and every row that
 * grants or limits something. A seal is written in the transaction that writes its row. A row that
 * another program has touched is never sealed again, so it stays visible.
 */
export interface SealStore {
  /** Returns the opening; null if it is missing or was sealed with another secret. */
  readOpening(): Promise<SealOpening | null>
  /** Returns the newest entry of the log; null if it is empty. */
  readHead(): Promise<SealHead | null>
  /** Lists the tables whose rows nothing proves: another program could change them unnoticed. */
  listUnsealed(): Promise<string[]>
  /** Whether the log has this entry. */
  has(head: SealHead): Promise<boolean>
  /** Verifies every seal, in one snapshot. */
  inspect(): Promise<SealReport>
  /** Returns these seals as the owner of another secret sees them, to read. */
  under(mac: Mac): Pick<SealStore, 'readOpening' | 'inspect'>
  /**
   * Seals every row and the ledger as they stand, and encrypts again what `previous` has encrypted,
   * in one transaction with the entry. Killed in the middle, it has done nothing.
   */
  reseal(entry: AuditEntry, previous: RecordSecrets | null): Promise<void>
}
