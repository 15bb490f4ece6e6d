import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../base/mac.ts'
import { hashLedgerRow } from '../../../limits/chain.ts'
import type { SealOpening } from '../../../limits/seals.ts'
import { parseRow, type RawLedgerRow, selectLedger } from '../../sql/ledger.ts'
import { SEALED_TABLES, type SealedRow } from '../../sql/seals/tables.ts'
import { SealLog } from './log.ts'
import { readRows } from './tables.ts'

/**
 * Seals every row as it stands for the first time, and writes the opening. It runs in the migration
 * that creates the seals. What was forged before stays unnoticed: the opening says since when rows
 * are sealed.
 */
export function writeOpening(db: Database, mac: Mac): void {
  const opening = { sealed_at: new Date().toISOString(), ledger: readLedgerEnd(db) }
  new SealLog(db, mac).open(readSealedRows(db), opening)
}

/** Writes the opening of a database that is known to have no rows. */
export function writeFirstOpening(db: Database, mac: Mac): void {
  const opening = { sealed_at: new Date().toISOString(), ledger: { seq: 0, hash: '' } }
  new SealLog(db, mac).open([], opening)
}

function* readSealedRows(db: Database): Generator<SealedRow> {
  for (const noun of listFilledTables(db)) yield* readRows(db, noun)
}

/** Lists the sealed tables that have rows: of a new database they are asked about all at once. */
function listFilledTables(db: Database): string[] {
  const names = db.query<{ name: string }, []>('select name from main.sqlite_schema').all()
  const there = new Set(names.map(({ name }) => name))
  // A database that is not migrated to the end lacks the newest ones.
  const asked = SEALED_TABLES.filter(table => there.has(table)).map(
    table => `select '${table}' as noun where exists (select 1 from main.${table})`,
  )
  return db
    .query<{ noun: string }, []>(asked.join(' union all '))
    .all()
    .map(({ noun }) => noun)
}

function readLedgerEnd(db: Database): SealOpening['ledger'] {
  const end = { seq: 0, hash: '' }
  for (const raw of db.query<RawLedgerRow, []>(selectLedger()).iterate()) {
    const row = parseRow(raw)
    end.seq = row.seq
    end.hash = row.hash ?? hashLedgerRow(end.hash, row)
  }
  return end
}
