import { Database } from 'bun:sqlite'
import { invalid, unavailable } from '../../base/errors.ts'
import { MIGRATIONS } from './contents.ts'
import { readVersion } from './migrations.ts'

/** Files that travel with the database, by their names. */
export type Parts = Map<string, Uint8Array>

/** The table that holds the files of a backup, beside the tables of the store. */
const TABLE = 'backup_parts'

/**
 * Copies the database at one moment into a new file, while others read and write it: a reader of
 * the write-ahead log keeps no writer waiting. Throws 400 for a database of another version, whose
 * own program can check what it copies, and what SQLite throws for a full disk.
 */
export function copyDatabase(from: string, to: string): void {
  const db = new Database(from, { readonly: true })
  try {
    db.run('pragma busy_timeout = 5000')
    if (readVersion(db) !== MIGRATIONS.length)
      throw invalid(
        `${from} has schema ${readVersion(db)}, this program ${MIGRATIONS.length}: ` +
          'back it up with the program that served it last',
      )
    vacuum(db, to)
  } finally {
    db.close()
  }
}

/** Copies a database of any version into a new file. Throws what SQLite throws for a full disk. */
export function copyWholeDatabase(from: string, to: string): void {
  const db = new Database(from, { readonly: true })
  try {
    db.run('pragma busy_timeout = 5000')
    vacuum(db, to)
  } finally {
    db.close()
  }
}

function vacuum(db: Database, to: string): void {
  try {
    db.query('vacuum main into ?').run(to)
  } catch (cause) {
    const { message } = cause as Error
    throw unavailable(
      `The copy could not be written: ${message}. Is the disk full?`,
      undefined,
      cause,
    )
  }
}

/** Finds which of these calls have charges in the ledger of a database. */
export function findCharged(path: string, ids: string[]): Set<string> {
  const db = new Database(path, { readonly: true })
  try {
    const rows = db
      .query<{ id: string }, [string]>(
        'select distinct id from ledger where id in (select value from json_each(?))',
      )
      .all(JSON.stringify(ids))
    return new Set(rows.map(({ id }) => id))
  } finally {
    db.close()
  }
}

/** Puts files into a closed copy of a database, which becomes one file without a log. */
export function addParts(path: string, parts: Parts): void {
  const db = new Database(path, { readwrite: true, strict: true })
  try {
    db.run('pragma synchronous = full')
    db.run('pragma journal_mode = delete')
    db.transaction(() => {
      db.run(`create table ${TABLE} (name text primary key, content blob not null) strict`)
      const insert = db.query(`insert into ${TABLE} values (?, ?)`)
      for (const [name, content] of parts) insert.run(name, content)
    })()
    checkIntegrity(db, path)
  } finally {
    db.close()
  }
}

/**
 * Takes the files out of a copied backup, so that the database of the store remains. Throws 400 for
 * a file that is no backup or is damaged.
 */
export function takeParts(path: string): Parts {
  const db = openBackup(path)
  try {
    db.run('pragma trusted_schema = off')
    db.run('pragma cell_size_check = on')
    checkIntegrity(db, path)
    const rows = db.query<{ name: string; content: Uint8Array }, []>(`select * from ${TABLE}`).all()
    db.run(`drop table ${TABLE}`)
    return new Map(rows.map(({ name, content }) => [String(name), Buffer.from(content)]))
  } catch (cause) {
    throw cause instanceof Error && 'code' in cause
      ? invalid(`The file is no backup, or is damaged: ${cause.message}`)
      : cause
  } finally {
    db.close()
  }
}

function openBackup(path: string): Database {
  try {
    return new Database(path, { readwrite: true, strict: true })
  } catch {
    throw invalid('The file is no backup, or is damaged')
  }
}

function checkIntegrity(db: Database, path: string): void {
  const rows = db.query<{ integrity_check: string }, []>('pragma integrity_check(3)').all()
  const problems = rows.map(row => row.integrity_check).filter(line => line !== 'ok')
  if (problems.length > 0) throw invalid(`${path} is damaged: ${problems.join('; ')}`)
}

/** Counts the rows of a copied database, and sums up what its ledger has charged. */
export function summarizeStore(path: string) {
  const db = new Database(path, { readonly: true })
  try {
    const count = (table: string) =>
      db.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n ?? 0
    const { nanos } = db
      .query<{ nanos: string | null }, []>('select cast(sum(nanos) as text) as nanos from ledger')
      .get() ?? { nanos: null }
    return {
      keys: count('keys'),
      generations: count('generations'),
      ledger_rows: count('ledger'),
      audit_entries: count('audit'),
      files: count('files'),
      nanos: BigInt(nanos ?? 0),
    }
  } finally {
    db.close()
  }
}
