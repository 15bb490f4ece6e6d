import type { Compilable, CompiledQuery } from 'kysely'

/**
 * Runs statements in one transaction, all or none. It is retried while another process writes.
 * Throws 409 for a row that exists already or that another row needs, 503 when the store stays
 * locked, and what a check throws.
 */
export type Write = (...statements: Statement[]) => Promise<void>

/** A step of a transaction. */
export type Statement = Compilable | Check | FollowUp | Later

/** Makes a statement of a text that is always the same: it is compiled once for all its runs. */
export const prepare = <Row = unknown>(
  text: string,
  ...parameters: (string | number | bigint | null)[]
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
