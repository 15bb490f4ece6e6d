import type { Database } from 'bun:sqlite'
import type { LedgerRow } from '../../../limits/chain.ts'

/** Selects rows of the ledger that match a condition, in order. */
export const selectLedger = (condition = ''): string =>
  'select seq, id, step, settled_at, key_hash, user_id, workspace_id, byok, ' +
  `cast(nanos as text) as nanos, source, hash from ledger ${condition} order by seq`

/** Reads the ledger row by row, in order. */
export function* readLedger(db: Database): Generator<LedgerRow> {
  const rows = db.query(selectLedger()).iterate()
  for (const row of rows as IterableIterator<Omit<LedgerRow, 'byok' | 'nanos'> & RawRow>)
    yield parseRow(row)
}

/** A row as SQL returns it: flags are 0 and 1, money is text. */
export type RawRow = { byok: number; nanos: string }

/** Returns the row with its flag and its money. */
export const parseRow = <Row extends { byok: number | boolean; nanos: string }>(row: Row) => ({
  ...row,
  byok: row.byok === 1,
  nanos: BigInt(row.nanos),
})

/** Returns money from its column. */
export const parseMoney = (text: string | null) => (text === null ? null : BigInt(text))
