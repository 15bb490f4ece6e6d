import { type Kysely, type RawBuilder, sql } from 'kysely'
import { yieldToEventLoop } from '../../base/clock.ts'
import type { PageOfRows } from '../../base/packed-rows.ts'
import type { Tables } from './tables.ts'

/** How many places are read before others get their turn: two milliseconds or so. */
const AT_ONCE = 2_000

/**
 * Opens a table for reading in turns, each row as a JSON list that `renderRow` makes of the lists and
 * values in it.
 */
export type OpenReader = (
  table: keyof Tables,
  renderRow: (list: (items: RawBuilder<unknown>[]) => RawBuilder<string>) => RawBuilder<string>,
) => RowReader

/** How a table is read whose rows have places: whole numbers, of which many may be missing. */
interface RowReader {
  /** Finds the next place after one; null if there is none. */
  findNext(after: number): Promise<number | null>
  /** Reads the rows of some places, from the first to the last, one a line; null if there are none. */
  read(first: number, last: number): Promise<{ rows: Uint8Array | null; count: number }>
  /** Reads the fields of the rows that have one of these values in a column. */
  readSome(column: string, values: string[]): Promise<unknown[][]>
}

/**
 * Reads all rows of a table in turns, in the order of their places. What another process changes
 * meanwhile may be among them or not.
 */
export async function readInTurns({
  findNext,
  read,
}: Pick<RowReader, 'findNext' | 'read'>): Promise<PageOfRows[]> {
  const pages: PageOfRows[] = []
  for (let first = await findNext(Number.MIN_SAFE_INTEGER); first !== null; ) {
    const last = first + AT_ONCE - 1
    const { rows, count } = await read(first, last)
    if (rows) pages.push({ rows: Buffer.from(rows.buffer, rows.byteOffset, rows.length), count })
    first = count === AT_ONCE ? last + 1 : await findNext(last)
    await yieldToEventLoop()
  }
  return pages
}

/**
 * Creates the function that reads rows by a column, each as the list that it is rendered as. The
 * statement is made once: that takes longer than a few rows.
 */
export function createSomeReader(
  kysely: Kysely<Tables>,
  from: RawBuilder<unknown>,
  row: RawBuilder<string>,
): RowReader['readSome'] {
  const compile = (column: string) =>
    sql<{ row: string }>`
      select cast(${row} as text) as row from ${from}
      where ${sql.ref(column)} in (select value from json_each(${''}))
    `.compile(kysely)
  const compiled = new Map<string, ReturnType<typeof compile>>()
  return async (column, values) => {
    if (values.length === 0) return []
    const query = compiled.get(column) ?? compile(column)
    compiled.set(column, query)
    const parameters = [...query.parameters.slice(0, -1), JSON.stringify(values)]
    const { rows } = await kysely.executeQuery<{ row: string }>({ ...query, parameters })
    return rows.map(found => JSON.parse(found.row))
  }
}
