import type { Database } from 'bun:sqlite'
import type { Compilable, CompiledQuery } from 'kysely'
import { conflict, unavailable } from '../../base/errors.ts'
import { nameDatabase } from '../data-files.ts'

/**
 * Runs statements in one transaction, all or none. It is retried while another process writes.
 * Throws 409 for a row that exists already or that another row needs, 503 when the store stays
 * locked, and what a check throws.
 */
export type Write = (...statements: Statement[]) => Promise<void>

/** A step of a transaction. */
export type Statement = Compilable | Check | FollowUp

/** Makes a statement of a text that is always the same: it is compiled once for all its runs. */
export const prepare = <Row = unknown>(
  text: string,
  ...parameters: (string | number)[]
): Compilable<Row> => ({
  compile: () => ({ sql: text, parameters }) as unknown as CompiledQuery<Row>,
})

/** A query inside a transaction, so that no other process can change what it sees. */
export interface Check {
  query: Compilable
  /** Throws if the rows forbid the transaction. It is then rolled back. */
  judge(rows: unknown[]): void
}

/** Makes a check of a query's rows. */
export const check = <Row>(query: Compilable<Row>, judge: (rows: Row[]) => void): Check => ({
  query,
  judge: judge as Check['judge'],
})

/** A query inside a transaction whose rows decide the next statements. */
export interface FollowUp {
  query: Compilable
  /** Runs again when the transaction is retried. Throws to roll the transaction back. */
  follow(rows: unknown[]): Statement[]
}

/** Makes a step whose statements depend on a query's rows. */
export const follow = <Row>(
  query: Compilable<Row>,
  then: (rows: Row[]) => Statement[],
): FollowUp => ({
  query,
  follow: then as FollowUp['follow'],
})

const LONGEST_WAIT = 2_000
const FIRST_PAUSE = 2
const LONGEST_PAUSE = 50

/**
 * Creates the writer of a database. `onEnd` runs at the end of each transaction, inside it. A
 * transaction is synchronous inside, as the recorder's are: they share one connection, and a
 * transaction that waited in the middle would absorb the records of calls. It waits between retries
 * instead, so that no stream stalls.
 */
export function createWriter(db: Database, onEnd: () => void): Write {
  const write = createTransaction(db, onEnd)
  return (...statements) => retryWhileLocked(() => write(statements))
}

function createTransaction(db: Database, onEnd: () => void): (statements: Statement[]) => void {
  const prepareStatement = (statement: Compilable) => {
    const { sql, parameters } = statement.compile()
    return [db.query(sql), parameters as never[]] as const
  }
  const run = (statement: Statement): void => {
    const [query, values] = prepareStatement('query' in statement ? statement.query : statement)
    if ('judge' in statement) statement.judge(query.all(...values))
    else if ('follow' in statement) statement.follow(query.all(...values) as unknown[]).forEach(run)
    else query.run(...values)
  }
  const transaction = db.transaction((statements: Statement[]) => {
    statements.forEach(run)
    onEnd()
  })
  return statements => nameDatabase(db.filename, () => transaction.immediate(statements))
}

/**
 * Creates a writer whose transactions are on the disk when they are done, also where others wait for
 * the next copy of the log: what is shown once must not be lost with the power.
 */
export function createDurableWriter(db: Database, onEnd: () => void): Write {
  const write = createTransaction(db, onEnd)
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
