import { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { Kysely, SqliteDialect, sql } from 'kysely'
import { systemClock } from '../base/clock.ts'
import type { Mac } from '../base/mac.ts'
import type { Seal } from '../base/seal.ts'
import type { RecordSecrets, SealStore } from '../limits/seals.ts'
import { FreshCalls } from '../observability/rollups.ts'
import type { WriteLogStore } from '../observability/write-log.ts'
import { replaceMethods } from './methods.ts'
import { type GivenSecret, requireOwnSecret, type SealedData } from './own-secret.ts'
import type { RecordLog } from './record-log.ts'
import type { Spool } from './spool.ts'
import { buildEntryInsert } from './sql/audit.ts'
import { ChangeFeed, type Entry } from './sql/changes.ts'
import { claimOwner, openNouns } from './sql/contents.ts'
import { renderAnchor } from './sql/generations/rows.ts'
import { createInspector } from './sql/inspection.ts'
import { BlockReader } from './sql/outbox/blocks.ts'
import type { BundleRow } from './sql/outbox/bundles.ts'
import { createRollupStore } from './sql/rollups.ts'
import { inspectSeals } from './sql/seals/inspection.ts'
import { encryptAgain, sealAgain } from './sql/seals/resealing.ts'
import { type Column, createSealer, isUnproven } from './sql/seals.ts'
import type { Tables } from './sql/tables.ts'
import { createSomeReader, type OpenReader } from './sql/turns.ts'
import { Recording } from './sqlite/generations/recording.ts'
import { openInspected, runCheck } from './sqlite/inspection.ts'
import {
  migrate,
  needsMigration,
  openInMemory,
  readVersion,
  refuseForeign,
  refuseNewer,
  SCHEMA,
} from './sqlite/migrations.ts'
import { Messages, moveIntoRow, renderPayload } from './sqlite/outbox/messages.ts'
import { createRead, ENDPOINT_ID, takeSteps } from './sqlite/reader.ts'
import { SealLog } from './sqlite/seals/log.ts'
import { compareSchemas } from './sqlite/seals/schema.ts'
import { readSealedColumns } from './sqlite/seals/tables.ts'
import { createWriters, nameDatabase } from './sqlite/write.ts'
import { createLogCopier, type LogCopier } from './sqlite/write-log/copier.ts'
import type { Store } from './store.ts'

export interface SqliteOptions {
  /** The path of a file, or `:memory:`. */
  path: string
  durability: 'normal' | 'full'
  /**
   * How many milliseconds a statement may wait for another process's lock. A server does not wait:
   * it retries later.
   */
  busyTimeout: number
  secrets: RecordSecrets
  /** The secret that has to be that of the data. Without it, any may be. */
  ownSecret?: GivenSecret | undefined
  /** What a migration of records that are there has to wait for; nothing by default. */
  guardMigration?: MigrationGuard
  /** Where records wait for their transaction. Without it, they do not. */
  recordLog?: RecordLog | undefined
  /** Where messages wait for their destinations. Without it, they are in the database. */
  spool?: Spool | undefined
  /** In milliseconds. */
  ticks?: () => number
  /** Is told what keeps waiting records from the database. */
  onFault?: (error: unknown) => void
  /** Is told of a call that its destinations are not told, and why. */
  onUntold?: (id: string, error: unknown) => void
  /** Is told how many lines of what a dead process has left are not as they were written. */
  onGarbled?: (lines: number) => void
}

/** Runs a migration when nothing is in its way. The schema may have changed by then. */
export type MigrationGuard = (readSchema: () => number, migrate: () => void) => Promise<void>

/** Older versions can lose writes when two connections checkpoint at once (fixed in 3.51.3). */
const OLDEST_SQLITE = [3, 51, 3]

/**
 * Opens a store in one SQLite file. Throws when the file is no store, was written by a newer
 * program or sealed with another secret, or cannot be written.
 */
export async function openSqlite({
  path,
  durability,
  busyTimeout,
  secrets,
  ownSecret,
  guardMigration,
  recordLog,
  spool,
  onFault,
  onUntold,
  onGarbled,
  ticks = systemClock.ticks,
}: SqliteOptions): Promise<Store> {
  const isInMemory = path === ':memory:'
  const db = isInMemory
    ? openInMemory(secrets)
    : nameDatabase(path, () => new Database(path, { create: true, strict: true }))
  try {
    nameDatabase(path, () => {
      // Opening a new file takes its lock for a moment, so that two starting processes take turns.
      db.run('pragma busy_timeout = 5000')
      refuseForeign(db)
      refuseNewer(db)
      if (ownSecret) requireOwnSecret(readSealedData(db), ownSecret)
      applyPragmas(db, durability)
    })
    const migrateDatabase = () => nameDatabase(path, () => migrate(db, secrets))
    if (guardMigration && needsMigration(db))
      await guardMigration(() => readVersion(db), migrateDatabase)
    else migrateDatabase()
  } catch (error) {
    db.close()
    throw error
  }
  const fresh = new FreshCalls()
  const seal = secrets.destinationSeal
  const recording = new Recording({
    ...{ db, mac: secrets.mac, fresh, log: recordLog, onFault, ticks },
    ...{ spool: spool ?? null, seal, onUntold },
  })
  onGarbled?.(await recording.restore())
  const messages = new Messages({
    ...{ db, spool: spool ?? null, seal },
    findOldestWaiting: () => recording.findOldestSegment(),
  })
  messages.open()
  db.run(`pragma busy_timeout = ${busyTimeout}`)
  const kysely = new Kysely<Tables>({ dialect: new SqliteDialect({ database: adaptDatabase(db) }) })
  let columns: ReturnType<typeof readSealedColumns> | undefined
  const getColumns = () => {
    columns ??= readSealedColumns(db)
    return columns
  }
  const sealer = createSealer({ kysely, mac: secrets.mac, getColumns })
  const feed = await ChangeFeed.open(async (text, values) =>
    db.query<Entry, number[]>(text).all(...values),
  )
  const writers = createWriters(db, { seal: sealer, feed, path: isInMemory ? null : path })
  const copier = recordLog?.isOpen ? createLogCopier(path) : null
  const nouns = openNouns(
    { kysely, ...writers, openReader: createReader(kysely), recording, messages },
    secrets,
  )
  const stores = {
    ...nouns,
    ledger: { ...nouns.ledger, inspect: createInspector(openInspected(db), secrets.mac) },
    rollups: {
      ...createRollupStore({
        write: writers.write,
        read: createRead(db),
        fresh,
        endpointId: ENDPOINT_ID,
      }),
      verify: () => runCheck(db, 'roll-ups'),
    },
    writeLog: createWriteLogStore(db, { copier, keepReserve: writers.keepReserve }),
    seals: createSealStore(kysely, db, { secrets, messages, schema: SCHEMA, getColumns }),
  }
  flushFirst(stores, recording)
  return {
    ...stores,
    owner: candidate => claimOwner(kysely, writers.write, candidate),
    version: createVersionReader(db),
    changes: { read: () => feed.read() },
    async close() {
      // What cannot be written now is in the log, for the next start.
      await recording.flush().catch(() => undefined)
      await recordLog?.settle()
      messages.close()
      copier?.close()
      db.close()
    },
  }
}

/**
 * What records calls, what reads nothing that they change, and what knows by itself how much it has
 * to see.
 */
const UNFLUSHED = new Set([
  ...['generations.record', 'generations.keep', 'generations.flush', 'writeLog.shorten'],
  // It answers at once, and its readers are of what records do not change.
  'seals.under',
  ...['listWaiting', 'finish', 'skip', 'fail', 'noteError'].map(name => `deliveries.${name}`),
])

/**
 * Has every method of every noun write what waits for its transaction, so that it sees all that is
 * on record. What cannot be written now is seen later.
 */
function flushFirst(stores: object, recording: Recording): void {
  for (const [noun, part] of Object.entries(stores))
    replaceMethods(part, (name, method) => {
      if (UNFLUSHED.has(`${noun}.${name}`)) return method
      return (...parameters) => {
        const run = () => method(...parameters)
        return recording.isWaiting ? recording.flush().then(run, run) : run()
      }
    })
}

function applyPragmas(db: Database, durability: 'normal' | 'full'): void {
  const { version } = db.query('select sqlite_version() as version').get() as { version: string }
  if (isOlder(version.split('.').map(Number), OLDEST_SQLITE))
    throw new Error(`SQLite ${version} is too old: ${OLDEST_SQLITE.join('.')} is needed`)
  db.run('pragma journal_mode = wal')
  db.run(`pragma synchronous = ${durability}`)
  db.run('pragma foreign_keys = on')
  db.run('pragma trusted_schema = off')
  db.run('pragma cell_size_check = on')
  db.run('pragma temp_store = memory')
  applyLogLimits(db)
}

function isOlder(version: number[], minimum: number[]): boolean {
  const index = minimum.findIndex((part, i) => version[i] !== part)
  return index !== -1 && (version[index] ?? 0) < (minimum[index] ?? 0)
}

// Adapts bun:sqlite to Kysely's own dialect. A statement that returns rows is a reader.
function adaptDatabase(db: Database): ConstructorParameters<typeof SqliteDialect>[0]['database'] {
  return {
    close: () => db.close(),
    prepare(sql: string) {
      const statement = db.query(sql)
      return {
        reader: statement.columnNames.length > 0,
        all: (values: readonly unknown[]) => statement.all(...(values as never[])),
        run: (values: readonly unknown[]) => statement.run(...(values as never[])),
        iterate: (values: readonly unknown[]) =>
          statement.iterate(...(values as never[])) as IterableIterator<unknown>,
      }
    },
  } as ConstructorParameters<typeof SqliteDialect>[0]['database']
}

function createVersionReader(db: Database): () => Promise<number> {
  const statement = db.query('pragma data_version')
  return async () => (statement.get() as { data_version: number }).data_version
}

/** Creates the function that opens a table of a SQLite database for reading in turns. */
const createReader =
  (kysely: Kysely<Tables>): OpenReader =>
  (table, renderRow) => {
    const from = sql.table(table)
    const row = renderRow(items => sql<string>`json_array(${sql.join(items)})`)
    return {
      async findNext(after) {
        const found = sql<{ place: number | bigint | null }>`
        select min(rowid) as place from ${from} where rowid > ${after}
      `
        const place = (await found.execute(kysely)).rows[0]?.place ?? null
        return place === null ? null : Number(place)
      },
      // Not by a count of rows: to stop after so many, SQLite copies each before it is used.
      async read(first, last) {
        const page = sql<{ rows: Uint8Array | null; count: number | bigint }>`
        select cast(group_concat(${row}, char(10)) as blob) as rows, count(*) as count
        from ${from} where rowid between ${first} and ${last}
      `
        const [{ rows, count }] = (await page.execute(kysely)).rows as [
          { rows: Uint8Array | null; count: number | bigint },
        ]
        return { rows, count: Number(count) }
      },
      readSome: createSomeReader(kysely, from, row),
    }
  }

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

/** What the store of seals works with. */
interface SealParts {
  secrets: RecordSecrets
  messages: Messages
  /** What creates the schema that the database has to have. */
  schema: string[]
  getColumns(): Map<string, Column[]>
}

/** Creates the store of seals in SQL. */
function createSealStore(
  kysely: Kysely<Tables>,
  db: Database,
  { secrets, messages, schema, getColumns }: SealParts,
): SealStore {
  const log = new SealLog(db, secrets.mac)
  const createReader = (mac: Mac) => createSealReader(db, mac, { schema, getColumns })
  return {
    ...createReader(secrets.mac),
    readHead: async () => log.readHead(),
    has: async head => log.has(head),
    listUnsealed: async () => listUnsealed(db),
    under: createReader,
    reseal: async (entry, previous) =>
      db
        .transaction(() => {
          if (previous) encryptStored(db, secrets, previous, messages.spool)
          const insert = buildEntryInsert(kysely, entry).compile()
          takeSteps(db, sealAgain(secrets.mac, getColumns(), insert))
        })
        .immediate(),
  }
}

function createSealReader(
  db: Database,
  mac: Mac,
  { schema, getColumns }: Pick<SealParts, 'schema' | 'getColumns'>,
): Pick<SealStore, 'readOpening' | 'inspect'> {
  const log = new SealLog(db, mac)
  return {
    readOpening: async () => log.readOpening(),
    inspect: async () =>
      db.transaction(() => ({
        schema: compareSchemas(db, schema),
        ...takeSteps(db, inspectSeals(mac, getColumns())),
      }))(),
  }
}

/** Lists the tables whose rows nothing proves. */
const listUnsealed = (db: Database): string[] =>
  db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' order by name",
    )
    .all()
    .map(({ name }) => name)
    .filter(isUnproven)

/** Encrypts again all that the previous secret has encrypted, in the database and in the spool. */
function encryptStored(
  db: Database,
  current: RecordSecrets,
  previous: RecordSecrets,
  spool: Spool | null,
): void {
  takeSteps(db, encryptAgain(current, previous))
  encryptSpooled(db, current.destinationSeal(), previous.destinationSeal(), spool)
}

/** Moves what the previous secret has encrypted in the spool into the database. */
function encryptSpooled(db: Database, current: Seal, previous: Seal, spool: Spool | null): void {
  const reader = new BlockReader(spool, () => previous)
  const next = db.query<BundleRow, [number]>(
    'select * from outbox where segment is not null and sequence > ? order by sequence limit 1',
  )
  for (let row = next.get(0); row; row = next.get(row.sequence)) {
    const payload = renderPayload(row, reader, current)
    if (payload !== null) moveIntoRow(db, row.sequence, payload)
  }
}

/** Tells what a database has that was sealed. Data from before the seals keeps the secret that it has. */
export const readSealedData = (db: Database): SealedData => ({
  isNew: !hasTable(db, 'meta'),
  isSealed: isSealed(db),
  isOf: mac => isOpeningGenuine(db, mac) || isAnchorGenuine(db, mac),
})

const hasTable = (db: Database, name: string): boolean =>
  db.query('select 1 from sqlite_schema where name = ?').get(name) !== null

const isSealed = (db: Database): boolean =>
  hasTable(db, 'seal_log') &&
  db.query('select 1 from seal_log where opening is not null').get() !== null

const isOpeningGenuine = (db: Database, mac: Mac): boolean =>
  new SealLog(db, mac).readOpening() !== null

/** Records have a seal of their own that says where they begin. */
function isAnchorGenuine(db: Database, mac: Mac): boolean {
  if (!hasTable(db, 'record_seals')) return false
  const anchor = db
    .query<{ last_row: number; seal: string }, []>(
      'select last_row, seal from record_seals where columns = 0 order by n limit 1',
    )
    .get()
  return anchor !== null && anchor.seal === mac(renderAnchor(anchor.last_row))
}
