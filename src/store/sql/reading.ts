/** A query, and the values of its places. */
export interface Query {
  text: string
  values: (string | number | null)[]
}

/**
 * Steps that read at one moment: they ask for a query, and go on with its rows. They wait for
 * nothing else, so that an engine may take them all in one turn.
 */
export type Reading<Result> = Generator<Query, Result, unknown[]>

/** Asks for the rows of a query. */
export function* list<Row>(text: string, ...values: Query['values']): Reading<Row[]> {
  return (yield { text, values }) as Row[]
}

/** How an engine takes the steps of readings. */
export interface Reader {
  /** Takes the steps at one moment, whatever others write. Throws what they throw. */
  readAtOnce<Result>(reading: Reading<Result>): Promise<Result>
  /**
   * Returns what the engine says about a damaged file; null for any other error. Only an engine on
   * which the steps can go on after a query that failed says anything.
   */
  readDamage(thrown: unknown): string | null
}

/** A database as it is inspected. */
export interface Inspected extends Reader {
  /** What messages call it. */
  name: string
  /** Checks what the engine itself keeps, beside the reading, and returns what is wrong. */
  checkStructure(): Promise<string[]>
  /** Is called before all of it is read once. */
  prepare(): Promise<unknown>
}

/** Lists expressions with a name each, so that a row has its values in this order. */
export const listColumns = (expressions: string[]): string =>
  expressions.map((expression, place) => `${expression} as c${place}`).join(', ')
