import { conflict } from '../../../src/core/errors.ts'

/**
 * Rows by their id, in the order in which they came. What goes in and what comes out are copies, so
 * that nobody holds what another one changes.
 */
export class Table<Row extends object> {
  #rows = new Map<string, Row>()
  /** The rows as they were before the running transaction changed any; undefined while none has. */
  #before: Map<string, Row> | undefined

  get(id: string): Row | undefined {
    return structuredClone(this.#rows.get(id))
  }

  has(id: string): boolean {
    return this.#rows.has(id)
  }

  /** Returns the rows that are meant, all of them where nothing is said. */
  all(isMeant: (row: Row) => boolean = () => true): Row[] {
    return structuredClone([...this.#rows.values()].filter(isMeant))
  }

  /** Throws 409 for an id that is there already. */
  insert(id: string, row: Row): void {
    if (this.#rows.has(id)) throw changedMeanwhile()
    this.#touch().set(id, withinSqlRange(structuredClone(row)))
  }

  /** Changes these fields of a row. Where there is none, nothing happens. */
  update(id: string, change: Partial<Row>): void {
    const row = this.#rows.get(id)
    if (row) this.#touch().set(id, withinSqlRange(structuredClone({ ...row, ...change })))
  }

  remove(id: string): void {
    if (this.#rows.has(id)) this.#touch().delete(id)
  }

  /** Ends a transaction, undoing its changes if it has failed. Returns whether there were any. */
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

/** What a store says of a row that is there already, or that another one needs. 409. */
export const changedMeanwhile = () =>
  conflict('It was changed at the same moment. Please try again.')

/** Throws 409 for an amount that 64 bits do not hold: no database has a column for it. */
function withinSqlRange<Row extends object>(row: Row): Row {
  for (const value of Object.values(row))
    if (typeof value === 'bigint' && value !== BigInt.asIntN(64, value))
      throw conflict('An amount of money does not fit 64 bits')
  return row
}

/** Compares by these fields, one after the other: what `order by` does. */
export const byFields =
  <Row extends object>(...names: (keyof Row)[]) =>
  (a: Row, b: Row): number => {
    const name = names.find(one => a[one] !== b[one])
    return name === undefined ? 0 : a[name] < b[name] ? -1 : 1
  }

/** Lower case as SQL has it: only the letters of ASCII have one. */
export const lower = (text: string): string =>
  text.replace(/[A-Z]/g, letter => letter.toLowerCase())
