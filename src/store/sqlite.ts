import { Database } from 'bun:sqlite'
import { Kysely, SqliteDialect, sql } from 'kysely'
import { systemClock } from '../base/clock.ts'
import type { RecordSecrets } from '../limits/seals.ts'
import { FreshCalls } from '../observability/rollups.ts'
import { replaceMethods } from './methods.ts'
import { type GivenSecret, requireOwnSecret } from './own-secret.ts'
import type { RecordLog } from './record-log.ts'
import type { Spool } from './spool.ts'
import { ChangeFeed, type Entry } from './sql/changes.ts'
import { claimOwner, openNouns } from './sql/contents.ts'
import { createInspector } from './sql/inspection.ts'
import { createRollupStore } from './sql/rollups.ts'
import { createSealer } from './sql/seals.ts'
import type { Tables } from './sql/tables.ts'
import type { OpenReader } from './sql/turns.ts'
import { createSomeReader } from './sql/turns.ts'
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
import { Messages } from './sqlite/outbox/messages.ts'
import { createRead, ENDPOINT_ID } from './sqlite/reader.ts'
import { readSealedColumns } from './sqlite/seals/tables.ts'
import { createSealStore, readSealedData } from './sqlite/seals.ts'
import { createWriters, nameDatabase } from './sqlite/write.ts'
import { createLogCopier } from './sqlite/write-log/copier.ts'
import { applyLogLimits, createWriteLogStore } from './sqlite/write-log.ts'
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
