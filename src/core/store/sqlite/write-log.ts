import type { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import type { WriteLogStore } from '../../telemetry/write-log.ts'

/** In bytes: a longer log is copied and emptied, and what is kept of it on disk is no more. */
export const LARGEST_LOG = 64 * 1024 * 1024
/**
 * In pages. All others wait for a copy: at 2,000 calls a second the slowest hundredth took about
 * twice as long with 4,000 pages, at about the same cost.
 */
const COPIED_AFTER = 1_000
/** In milliseconds: how long readers are waited for. All who wait are held up. */
const WAIT = 50

/** Sets when a log is copied by itself, and how much of it is kept. */
export function applyLogLimits(db: Database): void {
  db.run(`pragma wal_autocheckpoint = ${COPIED_AFTER}`)
  db.run(`pragma journal_size_limit = ${LARGEST_LOG}`)
}

/**
 * Creates the store of the log of a database. As long as every reader ends within `WAIT`, no log is
 * longer than `largest` and what is written between two looks. While one holds it, the log is copied
 * at each look and not after each write, as each of these would look through all of it.
 */
export function createWriteLogStore(db: Database, largest = LARGEST_LOG): WriteLogStore {
  const empty = (): boolean => {
    const before = readTimeout(db)
    db.run(`pragma busy_timeout = ${WAIT}`)
    try {
      const row = db.query<{ busy: number }, []>('pragma wal_checkpoint(truncate)').get()
      return row?.busy === 0
    } finally {
      db.run(`pragma busy_timeout = ${before}`)
    }
  }
  let isHeld = false
  return {
    async shorten() {
      if (measureLog(db) > largest || isHeld) {
        const wasHeld = isHeld
        isHeld = !empty() && measureLog(db) > largest
        if (isHeld !== wasHeld) db.run(`pragma wal_autocheckpoint = ${isHeld ? 0 : COPIED_AFTER}`)
      }
      return { bytes: measureLog(db), isHeld }
    },
  }
}

// Not a cached query: SQLite reads this setting when it compiles the statement.
function readTimeout(db: Database): number {
  const query = db.prepare<{ timeout: number }, []>('pragma busy_timeout')
  const before = query.get()?.timeout ?? 0
  query.finalize()
  return before
}

// A database in memory has none.
const measureLog = (db: Database): number =>
  statSync(`${db.filename}-wal`, { throwIfNoEntry: false })?.size ?? 0
