import { type Kysely, sql } from 'kysely'
import type { Reader, Reading } from '../sql/reading.ts'
import type { Tables } from '../sql/tables.ts'
import { createSomeReader, type OpenReader } from '../sql/turns.ts'
import { explainFaults, type Runner, run } from './connection.ts'
import type { Pool } from './pool.ts'

/** Creates the function that opens a table of a Postgres database for reading in turns. */
export const createReader =
  (kysely: Kysely<Tables>): OpenReader =>
  (table, renderRow) => {
    const from = sql.table(table)
    const row = renderRow(items => sql<string>`json_build_array(${sql.join(items)})`)
    return {
      async findNext(after) {
        const found = sql<{ place: number | null }>`
          select min(rowid) as place from ${from} where rowid > ${after}
        `
        return (await found.execute(kysely)).rows[0]?.place ?? null
      },
      async read(first, last) {
        const page = sql<{ row: string }>`
          select ${row}::text as row from ${from} where rowid between ${first} and ${last}
        `
        const { rows } = await page.execute(kysely)
        if (rows.length === 0) return { rows: null, count: 0 }
        // Written anew: Postgres puts a space behind each comma, and rows are found by their bytes.
        const lines = rows.map(one => JSON.stringify(JSON.parse(one.row)))
        return { rows: Buffer.from(lines.join('\n')), count: rows.length }
      },
      readSome: createSomeReader(kysely, from, row),
    }
  }

/** How a transaction begins that sees the store at one moment. */
export const SNAPSHOT = 'isolation level repeatable read read only'

/** Creates the reader that takes all steps on one snapshot. It goes on after no query that failed. */
export const createStepper = (pool: Pool): Reader => ({
  readAtOnce: reading =>
    explainFaults(() => pool.begin(SNAPSHOT, connection => takeSteps(connection, reading))),
  readDamage: () => null,
})

/** Takes all steps on one connection. */
export async function takeSteps<Result>(
  connection: Runner,
  reading: Reading<Result>,
): Promise<Result> {
  let step = reading.next()
  while (!step.done) step = reading.next(await run(connection, step.value.text, step.value.values))
  return step.value
}
