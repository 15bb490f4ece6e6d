import { SQL } from 'bun'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely'
import { awaitWithin, systemClock } from '../../base/clock.ts'
import { GatewayError, unavailable } from '../../base/errors.ts'
import { Room } from '../../base/room.ts'
import type { Tables } from '../sql/tables.ts'
import { Pool } from './pool.ts'

/** What runs statements: the pool, or the connection of a transaction. */
export type Runner = Pick<SQL, 'unsafe'>

/** Runs a statement, and returns its rows with numbers as SQLite has them. */
export async function run<Row>(
  on: Runner,
  text: string,
  parameters: readonly unknown[] = [],
): Promise<Row[]> {
  const rows = await on.unsafe(numberPlaces(text), parameters.map(toParameter) as never[])
  const names = listWide(rows)
  if (names.length > 0)
    for (const row of rows as Wide[]) for (const name of names) narrow(row, name)
  return [...rows] as Row[]
}

type Wide = Record<string, unknown>

const INT8 = 20
const NUMERIC = 1700

/** Lists the columns whose values come as texts, because they may be of more than 53 bits. */
function listWide(rows: unknown): string[] {
  const { columns = [] } = rows as { columns?: { name: string; type: number }[] }
  return columns.filter(({ type }) => type === INT8 || type === NUMERIC).map(({ name }) => name)
}

function narrow(row: Wide, name: string): void {
  const number = Number(row[name])
  if (typeof row[name] === 'string' && Number.isSafeInteger(number)) row[name] = number
}

const numbered = new Map<string, string>()

/** Numbers the places of a text that is written for all engines: `?` is the next, `?1` the first. */
function numberPlaces(text: string): string {
  if (!text.includes('?')) return text
  let known = numbered.get(text)
  if (known === undefined) {
    let next = 0
    known = text.replace(/\?(\d*)/g, (_, number) => `$${number === '' ? ++next : number}`)
    numbered.set(text, known)
  }
  return known
}

// Postgres takes no zero character in a text.
const toParameter = (value: unknown) =>
  typeof value === 'bigint'
    ? String(value)
    : typeof value === 'string' && value.includes('\0')
      ? value.replaceAll('\0', '\ufffd')
      : value

/** The schema of a database that has the tables of a store. */
export const SCHEMA = 'gateway'

/** Opens a pool of connections to the schema of a store. */
export const connect = (url: string, connections: number): Pool =>
  new Pool(name => {
    const connection = { search_path: SCHEMA, application_name: name }
    return new SQL(url, { max: connections, connection } as never)
  })

/** What a statement has waited for is seen by the next one, whatever the database has by default. */
export const LEVEL = 'isolation level read committed'

/** A machine that is cut off in a transaction keeps what that has locked from others no longer. */
const HURRY = "select set_config('idle_in_transaction_session_timeout', ?, true)"

/** Is sent with what follows it, as all that has parameters. */
export const hurry = (connection: Runner): Promise<unknown> => run(connection, HURRY, ['10s'])

/** Does something in a transaction that locks what others wait for. */
export const transact = <Result>(
  pool: Pool,
  work: (connection: Runner) => Promise<Result>,
): Promise<Result> =>
  pool.begin(LEVEL, async connection => {
    const [, result] = await Promise.all([hurry(connection), work(connection)])
    return result
  }) as Promise<Result>

/** Does something once others of its kind leave a connection to it. */
export type Lane = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Who takes connections for what may take long, or waits for others. */
export interface Lanes {
  write: Lane
  read: Lane
  report: Lane
}

/**
 * Shares connections out, so that some are left for what is short, and calls wait for: money, records,
 * and what others have changed. Transactions of administration wait for one another in any case.
 */
export function createLanes(connections: number): Lanes {
  const writers = connections < 6 ? 1 : 2
  const readers = Math.max(1, connections - writers - 2)
  const read = createLane(readers, PATIENCE.read)
  const report = createLane(Math.max(1, Math.floor(readers / 2)), PATIENCE.read)
  return {
    write: createLane(writers, PATIENCE.write),
    read,
    report: work => report(() => read(work)),
  }
}

/** Lets so many in at a time. Who has waited for so many milliseconds was given up on. */
function createLane(places: number, milliseconds: number): Lane {
  const room = new Room(places, NEVER)
  return async work => {
    const since = systemClock.ticks()
    const leave = await room.enter()
    try {
      if (systemClock.ticks() - since > milliseconds) throw unavailable(NO_ANSWER)
      return await work()
    } finally {
      leave()
    }
  }
}

/** The longest time that a timer takes, in milliseconds: some weeks. */
const NEVER = 2 ** 31 - 1

/** Opens Kysely over a pool. What changes something is run by `write.ts`. */
export const openKysely = (pool: Pool, read: Lane): Kysely<Tables> =>
  new Kysely<Tables>({ dialect: new PoolDialect(pool, read) })

class PoolDialect implements Dialect {
  readonly #pool: Pool
  readonly #read: Lane

  constructor(pool: Pool, read: Lane) {
    this.#pool = pool
    this.#read = read
  }

  createAdapter = () => new PostgresAdapter()
  createQueryCompiler = () => new PostgresQueryCompiler()
  createIntrospector = (kysely: Kysely<never>) => new PostgresIntrospector(kysely)
  createDriver = () => new PoolDriver(this.#pool, this.#read)
}

/** The pool itself chooses a connection for each statement. */
class PoolDriver implements Driver {
  readonly #connection: DatabaseConnection

  constructor(pool: Pool, read: Lane) {
    this.#connection = {
      executeQuery: async <Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> => ({
        rows: await answerWithin(PATIENCE.read, () => read(() => run<Row>(pool, sql, parameters))),
      }),
      streamQuery: refuse,
    }
  }

  async init() {}
  acquireConnection = async () => this.#connection
  beginTransaction = refuse
  commitTransaction = refuse
  rollbackTransaction = refuse
  async releaseConnection() {}
  async destroy() {}
}

const refuse = () => {
  throw new TypeError('Transactions are run by the writer')
}

/** Runs what needs the database. Throws 503 where it cannot be reached. */
export async function explainFaults<Result>(use: () => Promise<Result>): Promise<Result> {
  try {
    return await use()
  } catch (thrown) {
    if (thrown instanceof GatewayError || !isAway(thrown)) throw thrown
    throw unavailable('The database cannot be reached').with({ cause: thrown } as never)
  }
}

/** In milliseconds: how long a database that has stopped is waited for. */
export const PATIENCE = { version: 2_000, lease: 2_000, write: 10_000, read: 30_000 }

/**
 * Runs what needs the database, as `explainFaults` does, and throws 503 where it does not answer in
 * time: a machine that has stopped breaks no connection. What it was told it may still do.
 */
export const answerWithin = <Result>(
  milliseconds: number,
  use: () => Promise<Result>,
): Promise<Result> => awaitWithin(milliseconds, explainFaults(use), () => unavailable(NO_ANSWER))

const NO_ANSWER = 'The database does not answer'

const AWAY = /^(ERR_POSTGRES_CONNECTION|ERR_POSTGRES_IDLE|ERR_POSTGRES_LIFETIME|ECONN|EPIPE)/
/**
 * Postgres' own codes, and classes of them: connections, what others did at the same moment, resources,
 * operators and limits of time that intervene, disks. 25006: it takes no changes, as one that follows
 * another now. 25P03, 25P04 and 55P03: it was waited for too long.
 */
const AWAY_CODES = /^(08|40|53|57|58|25006|25P03|25P04|55P03)/

/** Whether this says that the database cannot be reached. */
export const isAway = (thrown: unknown): boolean => {
  const { code, errno } = thrown as { code?: unknown; errno?: unknown }
  return AWAY.test(String(code)) || AWAY_CODES.test(String(errno))
}

/** The code of what Postgres has refused; empty where it was not asked. */
export const readCode = (thrown: unknown): string => {
  const { errno } = (thrown ?? {}) as { errno?: unknown }
  return typeof errno === 'string' ? errno : ''
}
