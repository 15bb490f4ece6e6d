import type { Database } from 'bun:sqlite'
import type { Mac } from '../../../base/mac.ts'
import { renderAnchor, renderRecords } from '../../sql/generations/rows.ts'

const INSERT = 'insert into record_seals (first_row, last_row, columns, seal) values (?, ?, ?, ?)'

/**
 * Creates the function that seals the records of a transaction, inside it: so many columns of each,
 * as JSON. They have the rows from `first` on, one after the other.
 */
export function createRecordSealer(db: Database, mac: Mac) {
  const insert = db.query(INSERT)
  return (first: number, records: string[], columns: number): void => {
    insert.run(first, first + records.length - 1, columns, mac(renderRecords(first, records)))
  }
}

/**
 * Writes the first seal where there is none: which records are from before. Without it, removed
 * seals would look like records that never had one.
 */
export function anchorRecords(db: Database, mac: Mac): void {
  if (!hasSeals(db) || db.query('select 1 from record_seals').get()) return
  const { last } = db.query('select coalesce(max(rowid), 0) as last from generations').get() as {
    last: number
  }
  db.query(INSERT).run(0, last, 0, mac(renderAnchor(last)))
}

// A database that is migrated in part has none.
const hasSeals = (db: Database): boolean =>
  db.query("select 1 from sqlite_schema where name = 'record_seals'").get() !== null
