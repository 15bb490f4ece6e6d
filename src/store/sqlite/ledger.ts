import type { Database } from 'bun:sqlite'
import type { LedgerRow } from '../../limits/chain.ts'
import { parseRow, type RawLedgerRow, selectLedger } from '../sql/ledger.ts'

/** Reads the ledger row by row, in order. */
export function* readLedger(db: Database): Generator<LedgerRow> {
  const rows = db.query(selectLedger()).iterate()
  for (const row of rows as IterableIterator<RawLedgerRow>) yield parseRow(row)
}
