import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { hashOf } from '../../src/core/identity/keys.ts'
import { gateway, type Server } from './server.ts'

/** What the database of a data directory says of one key: three sums that must be the same, and the calls that it sets money aside for. */
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
  (select coalesce(sum(upstream_inference_cost), 0) from generations where key_hash = $key) as recorded,
  (select count(*) from generations where key_hash = $key) as calls,
  (select count(*) from holds where key_hash = $key) as held`

/** The books of a key, by its plaintext. Money in nano-dollars. */
export function booksOf(data: string, key: string): Books {
  return reading(data, db => db.query(SUMS).get({ key: hashOf(key) }) as Books)
}

/** How many rows there are, of which a condition may say more. */
export const countIn = (data: string, rows: string): number =>
  reading(data, db => (db.query(`select count(*) as count from ${rows}`).get() as { count: number }).count)

function reading<T>(data: string, read: (db: Database) => T): T {
  const db = new Database(join(data, 'gateway.db'), { readonly: true, strict: true })
  try {
    return read(db)
  } finally {
    db.close()
  }
}

/** Keeps the store's lock as a terminal would that writes, until what is given back is called. */
export function locked({ data }: Pick<Server, 'data'>): () => void {
  const db = new Database(join(data, 'gateway.db'))
  db.run('begin immediate')
  return () => {
    db.run('rollback')
    db.close()
  }
}

/** What `gateway doctor` finds wrong: nothing, or its words. */
export async function faultsIn(data: string): Promise<string | null> {
  const { code, stdout, stderr } = await gateway(['doctor', '--data', data])
  return code === 0 ? null : stdout + stderr
}

/** USD as JSON has it, in nano-dollars. */
export const nanosOf = (usd: number): number => Math.round(usd * 1e9)
