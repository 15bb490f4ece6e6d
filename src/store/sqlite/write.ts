import type { Database } from 'bun:sqlite'
import { closeSync, rmSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { conflict, unavailable } from '../../base/errors.ts'
import { hasCode, openDataFile } from '../data-files.ts'
import { type ChangeFeed, type Entry, FIND_LAST } from '../sql/changes.ts'
import type { Seal } from '../sql/seals.ts'
import { Prepared, type Statement, type Write, type Writers } from '../sql/write.ts'

const LONGEST_WAIT = 2_000
const FIRST_PAUSE = 2
const LONGEST_PAUSE = 50

/**
 * Creates the writers of a database, which is at a path or in memory. `seal` adds their seals to the
 * statements of each transaction, and `feed` hears which changes are this process's. A transaction is
 * synchronous inside, as the recorder's are: they share one connection, and a transaction that waited
 * in the middle would absorb the records of calls. It waits between retries instead, so that no
 * stream stalls.
 */
export function createWriters(
  db: Database,
  { seal, feed, path }: { seal: Seal; feed: ChangeFeed; path: string | null },
): Writers {
  const run = createTransaction(db, seal, feed)
  const reserve = path === null ? null : join(dirname(path), 'gateway.reserve')
  const write: Write = (...statements) => retryWhileLocked(() => run(statements))
  return {
    write,
    writeQuietly: write,
    writeDurably: createDurableWriter(db, run),
    writeFreeing: reserve === null ? write : createFreeingWriter(db, run, reserve),
    keepReserve: () => (reserve === null ? undefined : keepReserve(reserve)),
  }
}

type Transaction = (statements: Statement[]) => void

/**
 * Creates the function that runs a step inside a transaction, of which there are few: each of its
 * statements is kept by its text.
 */
export function createRunner(db: Database): (statement: Statement) => void {
  const kept = new Map<string, ReturnType<Database['query']>>()
  return createStepRunner(text => {
    const known = kept.get(text)
    if (known) return known
    const statement = db.query(text)
    kept.set(text, statement)
    return statement
  })
}

function createStepRunner(find: (text: string) => ReturnType<Database['query']>) {
  const run = (statement: Statement): void => {
    if (statement instanceof Prepared) {
      find(statement.sql).run(...(statement.parameters as never[]))
      return
    }
    if ('later' in statement) {
      statement.later().forEach(run)
      return
    }
    const { sql, parameters } = ('query' in statement ? statement.query : statement).compile()
    const [query, values] = [find(sql), parameters as never[]]
    if ('judge' in statement) statement.judge(query.all(...values))
    else if ('follow' in statement) statement.follow(query.all(...values) as unknown[]).forEach(run)
    else query.run(...values)
  }
  return run
}

function createTransaction(db: Database, seal: Seal, feed: ChangeFeed): Transaction {
  const run = createStepRunner(text => db.query(text))
  const last = db.query<Entry, []>(FIND_LAST)
  const findLast = () => last.get() ?? undefined
  const transaction = db.transaction((statements: Statement[]) => {
    const before = findLast()
    seal(statements).forEach(run)
    return [before, findLast()]
  })
  return statements =>
    nameDatabase(db.filename, () => feed.noteOwn(...transaction.immediate(statements)))
}

function createDurableWriter(db: Database, write: Transaction): Write {
  const synchronous = db.query<{ synchronous: number }, []>('pragma synchronous')
  return (...statements) =>
    retryWhileLocked(() => {
      const before = synchronous.get()?.synchronous ?? 1
      db.run('pragma synchronous = full')
      try {
        write(statements)
      } finally {
        db.run(`pragma synchronous = ${before}`)
      }
    })
}

/** In bytes. A deletion and its entry in the audit trail take some forty thousand of the log. */
const RESERVE_SIZE = 1024 * 1024

/**
 * Where the disk is full, a deletion takes the room of a file that is there for it, in the same turn:
 * a record that is written between would take it. What is left is set aside again.
 */
function createFreeingWriter(db: Database, write: Transaction, reserve: string): Write {
  const writeFromReserve = (statements: Statement[], cause: unknown) => {
    if (!isDiskFull(cause) || measureReserve(reserve) === 0) throw cause
    rmSync(reserve, { force: true })
    try {
      write(statements)
      copyIfSmall(db)
    } finally {
      keepReserve(reserve)
    }
  }
  return (...statements) =>
    retryWhileLocked(() => {
      try {
        write(statements)
      } catch (thrown) {
        writeFromReserve(statements, thrown)
      }
    })
}

// A quota is a failed write to SQLite, and so is memory that it shares through a file.
const isDiskFull = (thrown: unknown): boolean =>
  ['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_IOERR_SHMSIZE'].some(code => hasCode(thrown, code))

// What the log holds is in the database then, and the next transaction begins the log anew. A copy
// that would make the database much larger would end in the middle, and take all room for nothing.
function copyIfSmall(db: Database): void {
  const pages = db.query<{ bytes: number }, []>(
    'select page_count * page_size as bytes from pragma_page_count, pragma_page_size',
  )
  if ((pages.get()?.bytes ?? 0) - statSync(db.filename).size > RESERVE_SIZE / 2) return
  try {
    db.run('pragma wal_checkpoint(passive)')
  } catch {
    // The next look at the log copies it.
  }
}

function keepReserve(path: string): void {
  const missing = RESERVE_SIZE - measureReserve(path)
  if (missing <= 0) return
  try {
    extendReserve(path, missing)
  } catch {
    // The disk is full: the next look tries again.
  }
}

const measureReserve = (path: string): number =>
  statSync(path, { throwIfNoEntry: false })?.size ?? 0

// Random bytes: some file systems keep no room for those that compress to nothing.
function extendReserve(path: string, size: number): void {
  const file = openDataFile(path, 'append')
  try {
    const bytes = crypto.getRandomValues(new Uint8Array(RANDOM_AT_ONCE))
    for (let left = size; left > 0; )
      left -= writeSync(file, bytes, 0, Math.min(left, bytes.length))
  } finally {
    closeSync(file)
  }
}

const RANDOM_AT_ONCE = 64 * 1024

/** Names the file in what SQLite throws, which does not. */
export const nameFile = (thrown: unknown, path: string): unknown =>
  thrown instanceof Error && 'code' in thrown ? Object.assign(thrown, { path }) : thrown

/** Does something with the database at a path, which is named in what SQLite throws. */
export function nameDatabase<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (thrown) {
    throw nameFile(thrown, path)
  }
}

/**
 * Runs a transaction, and again while another process writes. Throws as `Write` does.
 */
export async function retryWhileLocked<Result>(run: () => Result): Promise<Result> {
  for (
    let waited = 0, pause = FIRST_PAUSE;
    ;
    waited += pause, pause = Math.min(pause * 2, LONGEST_PAUSE)
  ) {
    const done = tryTransaction(run)
    if (done) return done.result
    if (waited > LONGEST_WAIT) throw unavailable('The store is locked by another process')
    await Bun.sleep(pause)
  }
}

/** Runs a transaction. Returns null if another process holds the lock. */
function tryTransaction<Result>(run: () => Result): { result: Result } | null {
  try {
    return { result: run() }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (code.startsWith('SQLITE_BUSY')) return null
    throw CONFLICT_CODES.has(code)
      ? conflict('It was changed at the same moment. Please try again.')
      : error
  }
}

const CONFLICT_CODES = new Set([
  'SQLITE_CONSTRAINT_UNIQUE',
  'SQLITE_CONSTRAINT_PRIMARYKEY',
  'SQLITE_CONSTRAINT_FOREIGNKEY',
])
