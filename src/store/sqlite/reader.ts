import type { Database } from 'bun:sqlite'

import type { Query, Reader, Reading } from '../sql/reading.ts'
import type { Read } from '../sql/rollups.ts'

/** Creates the function that reads by statements of which none is kept. */
export const createRead =
  (db: Database): Read =>
  async (text, values) =>
    readRows(db, { text, values }) as never

function readRows(db: Database, { text, values }: Query): unknown[] {
  const statement = db.prepare(text)
  try {
    return statement.all(...values)
  } finally {
    statement.finalize()
  }
}

/** Creates the reader that takes all steps in one turn, in a transaction that keeps nobody waiting. */
export const createStepper = (db: Database): Reader => ({
  async readAtOnce(reading) {
    if (db.inTransaction) return takeSteps(db, reading)
    db.run('begin deferred')
    try {
      return takeSteps(db, reading)
    } finally {
      // Nothing was written, and SQLite does not commit where a page could not be read.
      if (db.inTransaction) db.run('rollback')
    }
  },
  readDamage,
})

/** Takes all steps in one turn, in the transaction that is open, if any is. */
export function takeSteps<Result>(db: Database, reading: Reading<Result>): Result {
  let step = reading.next()
  while (!step.done) {
    let rows: unknown[]
    try {
      rows = readRows(db, step.value)
    } catch (thrown) {
      step = reading.throw(thrown)
      continue
    }
    step = reading.next(rows)
  }
  return step.value
}

/** Returns what SQLite says about a damaged file; null for any other error. */
export function readDamage(thrown: unknown): string | null {
  if (!(thrown instanceof Error && 'code' in thrown)) return null
  const code = String(thrown.code)
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB' ? thrown.message : null
}

/** The endpoint that answered, in SQL. One garbled record keeps no other from being summed. */
export const ENDPOINT_ID = `iif(json_valid(provider_responses),
  coalesce(json_extract(provider_responses, '$[#-1].endpoint_id'), ''), '')`
