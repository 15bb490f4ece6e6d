import type { Database } from 'bun:sqlite'
import { hashSecret } from '../../src/base/credential.ts'
import type { HeldCall } from '../../src/limits/ledger.ts'
import { listHeldCalls as readHeldCalls } from '../../src/store/hold-journal.ts'
import { runCommand } from './commands.ts'
import { openDatabase } from './database.ts'
import type { Server } from './server.ts'

/**
 * A key's books in a data directory: three sums that must be equal, and the calls with open holds.
 */
export interface Books {
  ledger: number
  counted: number
  recorded: number
  calls: number
  held: number
}

const SUMS = `select
  (select coalesce(sum(nanos), 0) from ledger where key_hash = $key) as ledger,
  (select coalesce(sum(nanos), 0) from spend where key_hash = $key) as counted,
  (select coalesce(sum(upstream_inference_cost), 0) from generations where key_hash = $key)
    as recorded,
  (select count(*) from generations where key_hash = $key) as calls`

/** Reads the books of a key, given its plaintext. Money in nano-dollars. */
export function readBooks(data: string, key: string): Books {
  const sums = queryDatabase(
    data,
    db => db.query(SUMS).get({ key: hashSecret(key) }) as Omit<Books, 'held'>,
  )
  return {
    ...sums,
    held: listHeldCalls(data).filter(one => one.key_hash === hashSecret(key)).length,
  }
}

/** Lists the calls that are in the journal but have no record. */
export const listHeldCalls = (data: string): HeldCall[] =>
  queryDatabase(data, db => {
    const record = db.query('select 1 from generations where id = ?')
    return readHeldCalls(data).filter(({ id }) => record.get(id) === null)
  })

/** Counts the rows of a table, which a condition may follow. */
export const countRows = (data: string, rows: string): number =>
  queryDatabase(
    data,
    db => (db.query(`select count(*) as count from ${rows}`).get() as { count: number }).count,
  )

/** Reads the database of a data directory. */
export function queryDatabase<T>(data: string, read: (db: Database) => T): T {
  const db = openDatabase(data, { readonly: true, strict: true })
  try {
    return read(db)
  } finally {
    db.close()
  }
}

/** Locks the store as a writing process would. Returns a function that releases the lock. */
export function lockStore({ data }: Pick<Server, 'data'>): () => void {
  const db = openDatabase(data)
  db.run('begin immediate')
  return () => {
    db.run('rollback')
    db.close()
  }
}

/** Runs `gateway doctor` and returns its output if it finds faults; otherwise null. */
export async function findFaults(data: string): Promise<string | null> {
  const { code, stdout, stderr } = await runCommand(['doctor', '--data', data])
  return code === 0 ? null : stdout + stderr
}

/** Converts USD from JSON into nano-dollars. */
export const toNanos = (usd: number): number => Math.round(usd * 1e9)
