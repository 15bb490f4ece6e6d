import type { Compilable, CompiledQuery } from 'kysely'
import { notFound } from '../../base/errors.ts'

/**
 * Runs statements in one transaction, all or none. It is retried while another process writes.
 * Throws 409 for a row that exists already or that another row needs, 503 when the store stays
 * locked, and what a check throws.
 */
export type Write = (...statements: Statement[]) => Promise<void>

/** A step of a transaction. */
export type Statement = Compilable | Check | FollowUp | Later

type Parameter = string | number | bigint | null

/** A statement of a text that is always the same: an engine compiles it once for all its runs. */
export class Prepared<Row = unknown> implements Compilable<Row> {
  readonly sql: string
  readonly parameters: readonly Parameter[]

  constructor(sql: string, parameters: readonly Parameter[]) {
    this.sql = sql
    this.parameters = parameters
  }

  compile(): CompiledQuery<Row> {
    return this as unknown as CompiledQuery<Row>
  }
}

/** Makes a statement of a text that is always the same. Each `?` in it is a parameter. */
export const prepare = <Row = unknown>(text: string, ...parameters: Parameter[]): Prepared<Row> =>
  new Prepared(text, parameters)

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

/**
 * Makes a check that something is there still, by a query of it. Throws 404 otherwise: nothing would
 * be changed, and the trail would tell of it.
 */
export const checkFound = (query: Compilable, noun: string): Check =>
  check(query, ({ length }) => {
    if (length === 0) throw notFound(`${noun} not found`)
  })

/** A query inside a transaction whose rows decide the next statements. */
export interface FollowUp {
  query: Compilable
  /** Runs again when the transaction is retried. Throws to roll the transaction back. */
  follow(rows: unknown[]): Statement[]
}

/** A step whose statements depend on what the steps before it have found. */
export interface Later {
  /** Runs again when the transaction is retried. Throws to roll the transaction back. */
  later(): Statement[]
}

/** Makes a step whose statements depend on a query's rows. */
export const follow = <Row>(
  query: Compilable<Row>,
  then: (rows: Row[]) => Statement[],
): FollowUp => ({
  query,
  follow: then as FollowUp['follow'],
})

/** How a database is written. */
export interface Writers {
  write: Write
  /** For what no other process keeps in memory: none looks what has changed. */
  writeQuietly: Write
  /**
   * Its transactions are on the disk when they are done, also where others wait for the next copy of
   * the log: what is shown once must not be lost with the power.
   */
  writeDurably: Write
  /** For deletions that make room: they are written also where the disk is full. */
  writeFreeing: Write
  /** Sets aside what such a deletion has taken, or as much of that as the disk has. */
  keepReserve(): void
}

/** Converts a value to its column's type. Booleans become 0 and 1, lists become JSON. */
const toColumn = (value: unknown) =>
  typeof value === 'boolean'
    ? Number(value)
    : Array.isArray(value)
      ? JSON.stringify(value)
      : (value as string | number | bigint | null)

/** Converts a record, or its changed fields, to the columns of a row. */
export const toColumns = <Row>(record: object) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, toColumn(value)])) as Row

/** Parses a list from its column. */
export const parseList = <Item = string>(text: string | null): Item[] | null =>
  text === null ? null : JSON.parse(text)
