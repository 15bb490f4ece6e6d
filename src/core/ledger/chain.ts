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

/**
 * Returns the hash of a row that follows `previousHash`: lowercase hex SHA-256. Changing, adding or
 * removing a row changes every hash after it. The first step is left out of the hashed text,
 * because rows from before steps existed have none.
 */
export function hashLedgerRow(previousHash: string, row: Omit<LedgerRow, 'seq' | 'hash'>): string {
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
  const text = JSON.stringify(step === 1 ? fields : [...fields, step])
  return Bun.CryptoHasher.hash('sha256', text, 'hex')
}

/** Keeps where the ledger ended when it was last written. */
export interface HeadFile {
  read(): LedgerHead | null
  write(head: LedgerHead): void
}
