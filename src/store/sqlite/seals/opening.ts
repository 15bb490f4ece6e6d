import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../base/mac.ts'
import { digestLedgerRow, hashLedgerRow } from '../../../limits/chain.ts'
import type { SealOpening } from '../../../limits/seals.ts'
import { SEALED_TABLES, type SealedRow } from '../../sql/seals/tables.ts'
import { anchorAgain } from '../generations/sealing.ts'
import { readLedger } from '../ledger.ts'
import { SealLog } from './log.ts'
import { readRows } from './tables.ts'

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

/** Writes the opening of a database that is known to have no rows. */
export const writeFirstOpening = (db: Database, mac: Mac): void =>
  openSeals(db, mac, { seq: 0, hash: '' }, [])

function openSeals(
  db: Database,
  mac: Mac,
  ledger: SealOpening['ledger'],
  rows: Iterable<SealedRow> = readSealedRows(db),
): void {
  new SealLog(db, mac).open(rows, { sealed_at: new Date().toISOString(), ledger })
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

function readLedgerEnd(db: Database): Required<SealOpening['ledger']> {
  const end = { seq: 0, hash: '', digest: '' }
  for (const row of readLedger(db)) {
    end.seq = row.seq
    end.hash = row.hash ?? hashLedgerRow(end.hash, row)
    end.digest = digestLedgerRow(end.digest, row)
  }
  return end
}
