import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../../base/clock.ts'
import { renderDay } from '../../../observability/rollups/calls.ts'
import { readDamage } from '../inspection/slices.ts'
import { DayBooks, readDayBooks } from './recount.ts'

const HOURS = 24

/** Every day that any sum is of. */
const DAYS = `select start / ${HOURS} as day from usage_hours union select start from usage_days
  union select start from usage_endpoint_days order by 1`

/** What the sums of all hours have, and what the records have. */
const TOTALS = `select (select coalesce(sum(calls), 0) from usage_hours) as made,
  (select count(*) from generations
    where rowid <= (select last_row from rollup_cursor) and api_type <> 'correction')
  + (select coalesce(sum(calls - corrections), 0) from evicted_days) as expected`

/** The most differences that are described. */
const MOST = 30

/**
 * Creates the comparison of the sums with the records. Each day is compared at one moment, in a turn
 * of its own: it takes no more memory than a day does, and others may read and write between two.
 */
export function createVerifier(db: Database): () => Promise<string[]> {
  const atOnce = (check: () => string[]): string[] => {
    try {
      return db.transaction(check).deferred()
    } catch (thrown) {
      const reason = readDamage(thrown)
      if (reason === null) throw thrown
      return [`they cannot be compared with the records (${reason})`]
    }
  }
  return async () => {
    const problems = atOnce(() => checkTotals(db))
    const books = new DayBooks(db)
    for (const { day } of db.query<{ day: number }, []>(DAYS).all()) {
      await yieldToEventLoop()
      problems.push(...atOnce(() => checkDay(db, books, day)))
      if (problems.length >= MOST) break
    }
    return problems
  }
}

function checkTotals(db: Database): string[] {
  const totals = db.query<{ made: number; expected: number }, []>(TOTALS).get()
  if (!totals || totals.made === totals.expected) return []
  return [`they have ${totals.made} calls, and the records ${totals.expected}`]
}

/** Two ways to each sum of a day must agree. A day that has lost records cannot say its hours. */
function checkDay(db: Database, books: DayBooks, day: number): string[] {
  const name = renderDay(day)
  const isIncomplete = db.query('select 1 from evicted_days where day = ?').get(name) !== null
  return readDayBooks(books, day, isIncomplete).flatMap(({ what, models }) =>
    models
      .slice(0, MOST)
      .map(model => `${name} ${what}: the sums of ${model || 'no model'} differ`),
  )
}
