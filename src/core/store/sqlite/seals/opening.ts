import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../kernel/mac.ts'
import { hashLedgerRow } from '../../../ledger/chain.ts'
import { readLedger } from '../ledger.ts'
import { SealLog } from './log.ts'
import { readRows, SEALED_TABLES } from './tables.ts'

/**
 * Seals every row as it stands, and writes the opening. It runs in the migration that creates the
 * seals, so a database has one opening. What was forged before stays unnoticed: the opening says
 * since when rows are sealed.
 */
export function writeOpening(db: Database, mac: Mac): void {
  const rows = SEALED_TABLES.flatMap(noun => [...readRows(db, noun)])
  const ledger = readUnsealedEnd(db)
  new SealLog(db, mac).open(rows, { sealed_at: new Date().toISOString(), ledger })
}

function readUnsealedEnd(db: Database): { seq: number; hash: string } {
  const end = { seq: 0, hash: '' }
  for (const row of readLedger(db)) {
    end.seq = row.seq
    end.hash = row.hash ?? hashLedgerRow(end.hash, row)
  }
  return end
}
