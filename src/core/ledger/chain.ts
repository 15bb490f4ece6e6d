/** One charge as the ledger keeps it, in the order of settling. */
export interface LedgerRow {
  seq: number
  /** The generation that was charged, and for which of its steps, from 1. */
  id: string
  step: number
  settled_at: string
  key_hash: string
  user_id: string
  workspace_id: string
  byok: boolean
  /** Nano-dollars. */
  nanos: bigint
  /** How its cost is known; `opening` is what was spent before there was a chain. */
  source: 'exact' | 'estimated' | 'none' | 'opening'
  /** Null for rows that were there before the chain. */
  hash: string | null
}

/** The last row of a chain. */
export type LedgerHead = { seq: number; hash: string }

/**
 * The hash of a row that follows this one: whoever changes, adds or takes out a row changes every
 * hash after it. Lowercase hex SHA-256. The first step is left out of what is hashed, since rows of
 * the time before there were steps are such.
 */
export function chained(before: string, row: Omit<LedgerRow, 'seq' | 'hash'>): string {
  const { id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source } = row
  const said = [
    before,
    id,
    settled_at,
    key_hash,
    user_id,
    workspace_id,
    byok,
    String(nanos),
    source,
  ]
  const text = JSON.stringify(step === 1 ? said : [...said, step])
  return Bun.CryptoHasher.hash('sha256', text, 'hex')
}

/** Where the ledger ended when it was last written down. */
export interface HeadFile {
  read(): LedgerHead | null
  write(head: LedgerHead): void
}
