import { yieldToEventLoop } from '../../../base/clock.ts'
import { renderDay } from '../../../observability/rollups.ts'
import { list, type Reader, type Reading } from '../reading.ts'
import { DayBooks } from './recount.ts'

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
 * `endpointId` is the endpoint that answered a call, in the engine's SQL.
 */
export function createVerifier(
  { readAtOnce, readDamage }: Reader,
  endpointId: string,
): () => Promise<string[]> {
  const findAtOnce = async (check: Reading<string[]>): Promise<string[]> => {
    try {
      return await readAtOnce(check)
    } catch (thrown) {
      const reason = readDamage(thrown)
      if (reason === null) throw thrown
      return [`they cannot be compared with the records (${reason})`]
    }
  }
  return async () => {
    const problems = await findAtOnce(checkTotals())
    const books = new DayBooks(endpointId)
    for (const { day } of await readAtOnce(list<{ day: number }>(DAYS))) {
      await yieldToEventLoop()
      problems.push(...(await findAtOnce(checkDay(books, day))))
      if (problems.length >= MOST) break
    }
    return problems
  }
}

function* checkTotals(): Reading<string[]> {
  const [totals] = yield* list<{ made: number; expected: number }>(TOTALS)
  if (!totals || totals.made === totals.expected) return []
  return [`they have ${totals.made} calls, and the records ${totals.expected}`]
}

/** Two ways to each sum of a day must agree. A day that has lost records cannot say its hours. */
function* checkDay(books: DayBooks, day: number): Reading<string[]> {
  const name = renderDay(day)
  const evicted = yield* list('select 1 from evicted_days where day = ?', name)
  const differences = yield* books.compare(day, evicted.length > 0)
  return differences.flatMap(({ what, models }) =>
    models
      .slice(0, MOST)
      .map(model => `${name} ${what}: the sums of ${model || 'no model'} differ`),
  )
}
