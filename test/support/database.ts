import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { findWaiting } from '../../src/store/record-log.ts'
import { listWaitingLines } from './log.ts'

/**
 * Opens the database of a data directory beside its server. A statement waits up to 5 s for a lock,
 * since the server writes when it wants to; SQLite's default is to fail at once. What the server has
 * put aside is awaited.
 */
export function openDatabase(
  data: string,
  options: ConstructorParameters<typeof Database>[1] = { readwrite: true, create: true },
): Database {
  awaitRecords(data)
  return openDatabaseNow(data, options)
}

/** Opens it as `openDatabase` does, with what is in it at this moment. */
export function openDatabaseNow(
  data: string,
  options: ConstructorParameters<typeof Database>[1],
): Database {
  const db = new Database(join(data, 'gateway.db'), options)
  db.run('pragma busy_timeout = 5000')
  return db
}

const PATIENCE = 2_000

/** Waits until the server has written the records that wait now. A dead one never does. */
export function awaitRecords(data: string): void {
  const first = findWaiting(data)
  for (let waited = 0; waited < PATIENCE; waited += 5) {
    const now = findWaiting(data)
    if (now === null || now !== first || areRecorded(data)) return
    Bun.sleepSync(5)
  }
}

/** Whether all that the log has is in the database: a server in this process cannot say so now. */
function areRecorded(data: string): boolean {
  const db = openDatabaseNow(data, { readonly: true })
  const find = db.query('select 1 from generations where id = ?')
  const lines = listWaitingLines(data).map(line => JSON.parse(line))
  const isThere = lines.every(({ record }) => !record || find.get(record[0]) !== null)
  db.close()
  return isThere
}
