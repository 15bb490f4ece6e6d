import { conflict } from '../../../src/base/errors.ts'

/**
 * Rows by id, in the order of insertion. Rows are copied on the way in and out, so that callers
 * never share a row that one of them changes.
 */
export class Table<Row extends object> {
  #rows = new Map<string, Row>()
  /** The rows before the running transaction changed any; undefined as long as it has not. */
  #before: Map<string, Row> | undefined

  get(id: string): Row | undefined {
    return structuredClone(this.#rows.get(id))
  }

  has(id: string): boolean {
    return this.#rows.has(id)
  }

  /** Returns the rows that match, or all rows. */
  all(isMeant: (row: Row) => boolean = () => true): Row[] {
    return structuredClone([...this.#rows.values()].filter(isMeant))
  }

  /** Inserts a row. Throws 409 if the id already exists. */
  insert(id: string, row: Row): void {
    if (this.#rows.has(id)) throw changedConcurrently()
    this.#touch().set(id, assertSqlRange(structuredClone(row)))
  }

  /** Updates these fields of a row. Does nothing if there is no such row. */
  update(id: string, change: Partial<Row>): void {
    const row = this.#rows.get(id)
    if (row) this.#touch().set(id, assertSqlRange(structuredClone({ ...row, ...change })))
  }

  remove(id: string): void {
    if (this.#rows.has(id)) this.#touch().delete(id)
  }

  /** Ends a transaction, and undoes its changes if it failed. Returns whether there were any. */
  end(isUndone: boolean): boolean {
    const before = this.#before
    if (before && isUndone) this.#rows = before
    this.#before = undefined
    return before !== undefined
  }

  #touch(): Map<string, Row> {
    this.#before ??= new Map(this.#rows)
    return this.#rows
  }
}

/** The 409 for a row that already exists or that another row needs. */
export const changedConcurrently = () =>
  conflict('It was changed at the same moment. Please try again.')

/** Throws 409 for an amount that does not fit into 64 bits, as a database column would. */
function assertSqlRange<Row extends object>(row: Row): Row {
  for (const value of Object.values(row))
    if (typeof value === 'bigint' && value !== BigInt.asIntN(64, value))
      throw conflict('An amount of money does not fit 64 bits')
  return row
}

/** Compares by these fields in turn, as `order by` does. */
export const compareByFields =
  <Row extends object>(...names: (keyof Row)[]) =>
  (a: Row, b: Row): number => {
    const name = names.find(one => a[one] !== b[one])
    return name === undefined ? 0 : a[name] < b[name] ? -1 : 1
  }

/** Converts ASCII letters to lower case, as SQL does. */
export const toAsciiLowerCase = (text: string): string =>
  text.replace(/[A-Z]/g, letter => letter.toLowerCase())
