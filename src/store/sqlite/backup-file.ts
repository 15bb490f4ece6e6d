import { Database } from 'bun:sqlite'
import { renameSync } from 'node:fs'
import { invalid, unavailable } from '../../base/errors.ts'
import type { BlobPlace } from '../../resources/files/blobs.ts'
import { MIGRATIONS, readVersion } from './migrations.ts'

/**
 * Files that travel with the database, by their names. They are small: the bytes of stored files are
 * in a table of their own.
 */
export type Parts = Map<string, Uint8Array>

/** The table that holds the files of a backup, beside the tables of the store. */
const TABLE = 'backup_parts'

/** The table that holds the bytes of stored files, in the order of their pieces. */
const BYTES = 'backup_bytes'

/** In bytes. A longer piece is written as several: reading one back takes no more memory. */
const PIECE = 1024 * 1024

/** What is on record of stored bytes: a file, or a file of a container by the name of its blob. */
export type ByteRecord =
  | { table: 'files'; column: 'id'; value: string }
  | { table: 'container_files'; column: 'blob'; value: string }

/** A piece of stored bytes: the first of a file has the position 0. */
export interface BackedUpPiece {
  place: BlobPlace
  position: number
  bytes: Uint8Array
}

/** The bytes of stored files in a copied database, which is a backup or becomes one. */
export class BackupBytes {
  readonly #path: string
  readonly #db: Database

  constructor(path: string) {
    this.#path = path
    this.#db = new Database(path, { readwrite: true, strict: true })
    this.#db.run('pragma busy_timeout = 5000')
    // What is interrupted is thrown away, and `addParts` waits for the disk.
    this.#db.run('pragma synchronous = off')
  }

  /** Makes room for pieces. */
  begin(): void {
    this.#db.run(
      `create table ${BYTES} (workspace_id text not null, name text not null, ` +
        'position integer not null, bytes blob not null) strict',
    )
  }

  /** Adds bytes of a file behind those that were added before. */
  add({ workspace_id, name }: BlobPlace, position: number, bytes: Uint8Array): void {
    const insert = this.#db.query(`insert into ${BYTES} values (?, ?, ?, ?)`)
    for (let start = 0; start === 0 || start < bytes.length; start += PIECE)
      insert.run(workspace_id, name, position + start, bytes.subarray(start, start + PIECE))
  }

  /**
   * Forgets a file that was deleted after the copy was made: the record, and what was added of its
   * bytes. Returns false where the database that was copied still has it.
   */
  forgetDeleted(source: string, { workspace_id, name }: BlobPlace, record: ByteRecord): boolean {
    if (hasRecord(source, record)) return false
    const { table, column, value } = record
    this.#db.query(`delete from ${table} where ${column} = ?`).run(value)
    this.#db
      .query(`delete from ${BYTES} where workspace_id = ? and name = ?`)
      .run(workspace_id, name)
    return true
  }

  /** Reads all pieces, one at a time. Throws 400 where they cannot be read. */
  *list(): Iterable<BackedUpPiece> {
    try {
      yield* this.#list()
    } catch (cause) {
      throw explainDamage(cause)
    }
  }

  *#list(): Iterable<BackedUpPiece> {
    const next = this.#db.query<Record<string, unknown>, [number]>(
      `select rowid, * from ${BYTES} where rowid > ? order by rowid limit 1`,
    )
    for (let row = next.get(0); row; row = next.get(Number(row.rowid)))
      yield {
        place: { workspace_id: String(row.workspace_id), name: String(row.name) },
        position: Number(row.position),
        bytes: row.bytes as Uint8Array,
      }
  }

  /** Drops what was read: the database takes no more room than it needs. Closes this. */
  drop(): void {
    this.#db.run(`drop table ${BYTES}`)
    vacuum(this.#db, `${this.#path}.small`)
    this.close()
    renameSync(`${this.#path}.small`, this.#path)
  }

  close(): void {
    this.#db.close()
  }
}

function hasRecord(path: string, { table, column, value }: ByteRecord): boolean {
  const db = new Database(path, { readonly: true })
  try {
    db.run('pragma busy_timeout = 5000')
    return db.query(`select 1 from ${table} where ${column} = ?`).get(value) !== null
  } finally {
    db.close()
  }
}

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
    throw explainDamage(cause)
  } finally {
    db.close()
  }
}

const explainDamage = (cause: unknown): unknown =>
  cause instanceof Error && 'code' in cause
    ? invalid(`The file is no backup, or is damaged: ${cause.message}`)
    : cause

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
      container_files: count('container_files'),
      nanos: BigInt(nanos ?? 0),
    }
  } finally {
    db.close()
  }
}
