import type { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import type { WriteLogStore } from '../../observability/write-log.ts'
import type { LogCopier } from './write-log/copier.ts'

/** In bytes: a longer log is copied and emptied, and what is kept of it on disk is no more. */
const LARGEST_LOG = 64 * 1024 * 1024
/**
 * In pages: after how many a write copies the log, which all others wait for. With 4,000, the slowest
 * hundredth took about twice as long as with 1,000 at 2,000 calls a second, at about the same cost.
 * While a thread of its own copies the log, a write does so only if that thread falls far behind.
 */
const COPIED_AFTER = { alone: 1_000, beside: 8_000, held: 0 }
/** In rows between two looks: from so many on, a thread of its own copies the log. */
const MANY = 250
/** After so many looks that find fewer, writes copy it again. */
const QUIET_LOOKS = 4
/** In milliseconds: how long readers are waited for. All who wait are held up. */
const WAIT = 50

/** Who copies the log: writes, a thread beside them, or a look each time while a reader holds it. */
type Copying = keyof typeof COPIED_AFTER

/** What the store of a log is given for tests. */
interface WriteLogOptions {
  /** In bytes. */
  largest?: number
  /** Without one, writes copy the log themselves. */
  copier?: LogCopier | null
  keepReserve?: () => void
}

/** Sets when a log is copied by itself, and how much of it is kept. */
export function applyLogLimits(db: Database): void {
  setCopying(db, 'alone')
  db.run(`pragma journal_size_limit = ${LARGEST_LOG}`)
}

const setCopying = (db: Database, copying: Copying): void =>
  void db.run(`pragma wal_autocheckpoint = ${COPIED_AFTER[copying]}`)

/**
 * Creates the store of the log of a database. As long as every reader ends within `WAIT`, no log is
 * longer than `largest` and what is written between two looks. While many write, a thread of its own
 * copies the log, so that no call waits for the disk. While a reader holds it, the log is copied at
 * each look and not after each write, as each of these would look through all of it.
 */
export const createWriteLogStore = (db: Database, options: WriteLogOptions = {}): WriteLogStore =>
  new SqliteWriteLog(db, options)

class SqliteWriteLog implements WriteLogStore {
  readonly #db: Database
  readonly #largest: number
  readonly #copier: LogCopier | null
  readonly #keepReserve: (() => void) | undefined
  #copying: Copying = 'alone'
  #changes = 0
  #quietLooks = 0

  constructor(
    db: Database,
    { largest = LARGEST_LOG, copier = null, keepReserve }: WriteLogOptions,
  ) {
    this.#db = db
    this.#largest = largest
    this.#copier = copier
    this.#keepReserve = keepReserve
  }

  async shorten() {
    this.#keepReserve?.()
    if (measureLog(this.#db) > this.#largest || this.#copying === 'held') this.#empty()
    if (this.#copying !== 'held') await this.#copyBeside()
    return { bytes: measureLog(this.#db), isHeld: this.#copying === 'held' }
  }

  #empty(): void {
    const isHeld = !emptyLog(this.#db) && measureLog(this.#db) > this.#largest
    if (isHeld) this.#switch('held')
    else if (this.#copying === 'held') this.#switch('alone')
  }

  async #copyBeside(): Promise<void> {
    if (!this.#copier) return
    const changes = countChanges(this.#db)
    const isBusy = changes - this.#changes >= MANY
    this.#changes = changes
    this.#quietLooks = isBusy ? 0 : this.#quietLooks + 1
    if (isBusy) this.#switch('beside')
    else if (this.#quietLooks >= QUIET_LOOKS) this.#switch('alone')
    if (isBusy) await this.#copier.copy()
  }

  #switch(copying: Copying): void {
    if (copying === this.#copying) return
    this.#copying = copying
    setCopying(this.#db, copying)
  }
}

/** Copies the whole log and empties it. Returns false where a reader keeps it from being done. */
function emptyLog(db: Database): boolean {
  const before = readTimeout(db)
  db.run(`pragma busy_timeout = ${WAIT}`)
  try {
    const row = db.query<{ busy: number }, []>('pragma wal_checkpoint(truncate)').get()
    return row?.busy === 0
  } finally {
    db.run(`pragma busy_timeout = ${before}`)
  }
}

// Not a cached query: SQLite reads this setting when it compiles the statement.
function readTimeout(db: Database): number {
  const query = db.prepare<{ timeout: number }, []>('pragma busy_timeout')
  const before = query.get()?.timeout ?? 0
  query.finalize()
  return before
}

const countChanges = (db: Database): number =>
  db.query<{ changes: number }, []>('select total_changes() as changes').get()?.changes ?? 0

// A database in memory has none.
const measureLog = (db: Database): number =>
  statSync(`${db.filename}-wal`, { throwIfNoEntry: false })?.size ?? 0
