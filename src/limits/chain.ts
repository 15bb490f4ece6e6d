import type { Mac } from '../base/mac.ts'
import type { SealHead } from './seals.ts'

/** One charge in the ledger, in settlement order. */
export interface LedgerRow {
  seq: number
  /** The charged generation, and which of its steps, counted from 1. */
  id: string
  step: number
  settled_at: string
  key_hash: string
  user_id: string
  workspace_id: string
  byok: boolean
  /** Nano-dollars. */
  nanos: bigint
  /** How the cost is known. `opening` stands for what was spent before the chain existed. */
  source: 'exact' | 'estimated' | 'none' | 'opening'
  /** Null for rows older than the chain. */
  hash: string | null
}

/** The last row of a chain. */
export type LedgerHead = { seq: number; hash: string }

/** The fields that a row's hash covers, in addition to the hash before it. */
type HashedRow = Omit<LedgerRow, 'seq' | 'hash'>

/**
 * Returns the hash of a row that follows `previousHash`: lowercase hex of HMAC with SHA-256.
 * Changing, adding or removing a row changes every hash after it, and only the owner of the secret
 * can compute them again.
 */
export const sealLedgerRow = (mac: Mac, previousHash: string, row: HashedRow): string =>
  mac(renderRow(previousHash, row))

/**
 * Returns the hash of a row from before the ledger was sealed: SHA-256 without a key. The opening
 * of the seals covers the last one.
 */
export const hashLedgerRow = (previousHash: string, row: HashedRow): string =>
  Bun.CryptoHasher.hash('sha256', renderRow(previousHash, row), 'hex')

/**
 * Continues the digest of rows as they stand, with their numbers and hashes: lowercase hex of
 * SHA-256. It begins with an empty text.
 */
export const digestLedgerRow = (digest: string, row: LedgerRow): string =>
  hashLedgerRow(`${digest} ${row.seq} ${row.hash ?? ''}`, row)

// The first step is left out, because rows from before steps existed have none.
function renderRow(previousHash: string, row: HashedRow): string {
  const { id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source } = row
  const fields = [
    previousHash,
    id,
    settled_at,
    key_hash,
    user_id,
    workspace_id,
    byok,
    String(nanos),
    source,
  ]
  return JSON.stringify(step === 1 ? fields : [...fields, step])
}

/** Where the ledger and the log of seals ended. */
export interface Ends {
  ledger: LedgerHead
  /** Null in a file from before the seals. */
  seals: SealHead | null
}

/** Keeps where the ledger and the seals ended when that was last written. */
export interface HeadFile {
  /** Whether there is a place for it: not for a store in memory. */
  isKept: boolean
  /** Returns what the file says; null if there is none, or none that can be read. */
  read(): Ends | null
  /**
   * Returns whether the file is there and as it was written. An earlier version has written an
   * unsealed one.
   */
  examine(): 'genuine' | 'unsealed' | 'missing' | 'altered'
  write(ends: Ends): void
}
