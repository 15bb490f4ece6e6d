import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../kernel/mac.ts'
import { digestLedgerRow, hashLedgerRow } from '../../../ledger/chain.ts'
import type { SealOpening } from '../../../ledger/seals.ts'
import { anchorAgain } from '../generations/sealing.ts'
import { readLedger } from '../ledger/rows.ts'
import { SealLog } from './log.ts'
import { readRows, SEALED_TABLES, type SealedRow } from './tables.ts'

/**
 * Seals every row as it stands for the first time, and writes the opening. It runs in the migration
 * that creates the seals. What was forged before stays unnoticed: the opening says since when rows
 * are sealed.
 */
export function writeOpening(db: Database, mac: Mac): void {
  const { digest: _, ...ledger } = readLedgerEnd(db)
  openSeals(db, mac, ledger)
}

/**
 * Seals every row as it stands once more, with an opening that covers the ledger as it stands.
 * Earlier openings no longer count. Records of calls are sealed from then on.
 */
export function writeNewOpening(db: Database, mac: Mac): void {
  db.run('delete from seals')
  openSeals(db, mac, readLedgerEnd(db))
  anchorAgain(db, mac)
}

function openSeals(db: Database, mac: Mac, ledger: SealOpening['ledger']): void {
  new SealLog(db, mac).open(readSealedRows(db), { sealed_at: new Date().toISOString(), ledger })
}

function* readSealedRows(db: Database): Generator<SealedRow> {
  for (const noun of SEALED_TABLES) if (hasTable(db, noun)) yield* readRows(db, noun)
}

// A database that is not migrated to the end lacks the newest ones.
const hasTable = (db: Database, table: string): boolean =>
  db.query('select 1 from sqlite_schema where name = ?').get(table) !== null

function readLedgerEnd(db: Database): Required<SealOpening['ledger']> {
  const end = { seq: 0, hash: '', digest: '' }
  for (const row of readLedger(db)) {
    end.seq = row.seq
    end.hash = row.hash ?? hashLedgerRow(end.hash, row)
    end.digest = digestLedgerRow(end.digest, row)
  }
  return end
}
