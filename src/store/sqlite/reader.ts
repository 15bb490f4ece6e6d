import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import type { Read } from '../sql/rollups.ts'
import type { Tables } from '../sql/tables.ts'
import type { OpenReader } from '../sql/turns.ts'

/** Creates the function that opens a table of a SQLite database for reading in turns. */
export const createReader =
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
    }
  }

/** Creates the function that reads by statements of which none is kept. */
export const createRead =
  (db: Database): Read =>
  async (text, values) => {
    const statement = db.prepare(text)
    try {
      return statement.all(...values) as never
    } finally {
      statement.finalize()
    }
  }
