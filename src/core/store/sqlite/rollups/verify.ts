import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../../kernel/clock.ts'
import { AMOUNTS, COUNTS, renderDay } from '../../../telemetry/rollups/calls.ts'
import { readDamage } from '../inspection/slices.ts'
import { ENDPOINT_ID } from './calls.ts'

const HOURS = 24
const GROUP = 'workspace_id, key_hash, user_id, model, provider_name, endpoint_id, is_byok'
const ENDPOINT = 'workspace_id, model, provider_name, endpoint_id, is_byok'
const SUMS = [...COUNTS, ...AMOUNTS]
const SUMMED = SUMS.map(name => `sum(${name}) as ${name}`).join(', ')

/** Sums of a day's records, as the roll-ups should have them. Calls of all apps are together. */
const RECOUNTED = `select $from + cast(substr(settled_at, 12, 2) as integer) as start,
  workspace_id, coalesce(key_hash, '') as key_hash, user_id, model,
  coalesce(provider_name, '') as provider_name,
  ${ENDPOINT_ID} as endpoint_id, is_byok,
  count(*) as calls, sum(is_byok) as byok_calls,
  sum(error_type is not null and not cancelled) as failed_calls,
  sum(cancelled) as cancelled_calls, sum(contentFilters <> '[]') as filtered_calls,
  sum(native_tokens_prompt) as prompt_tokens, sum(native_tokens_completion) as completion_tokens,
  sum(native_tokens_reasoning) as reasoning_tokens, sum(native_tokens_cached) as cached_tokens,
  sum(coalesce(total_cost, 0)) as cost,
  sum(iif(is_byok, coalesce(upstream_inference_cost, 0), 0)) as byok_cost,
  sum(coalesce(upstream_inference_cost, 0)) as upstream_cost
  from generations
  where rowid <= (select last_row from rollup_cursor)
  and rowid >= (select min(first_row) from usage_rows where start >= $from and start < $until)
  and rowid <= (select max(last_row) from usage_rows where start >= $from and start < $until)
  and settled_at >= $day and settled_at < $next
  group by 1, 2, 3, 4, 5, 6, 7, 8`

const sumHours = (start: string, group: string) =>
  `select ${start} as start, ${group}, ${SUMMED} from usage_hours join usage_groups on id = group_id
  where start >= $from and start < $until group by ${start}, ${group}`

const sumDays = (table: string, group: string) =>
  `select start, ${group}, ${SUMMED} from ${table} join usage_groups on id = group_id
  where start = $from / ${HOURS} group by start, ${group}`

/** What the records of a day must have. Those of a day that has lost some cannot say it. */
const BY_RECORDS = { what: 'by hour', made: sumHours('start', GROUP), expected: RECOUNTED }

/** Two ways to each sum of a day, which must agree. */
const COMPARED = [
  {
    what: 'by day',
    made: sumDays('usage_days', GROUP),
    expected: sumHours(`start / ${HOURS}`, GROUP),
  },
  {
    what: 'by endpoint',
    made: sumDays('usage_endpoint_days', ENDPOINT),
    expected: sumDays('usage_days', ENDPOINT),
  },
]

/** Every day that any sum is of. */
const DAYS = `select start / ${HOURS} as day from usage_hours union select start from usage_days
  union select start from usage_endpoint_days order by 1`

/** What the sums of all hours have, and what the records have. */
const TOTALS = `select (select coalesce(sum(calls), 0) from usage_hours) as made,
  (select count(*) from generations where rowid <= (select last_row from rollup_cursor))
  + (select coalesce(sum(calls), 0) from evicted_days) as expected`

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
    for (const { day } of db.query<{ day: number }, []>(DAYS).all()) {
      await yieldToEventLoop()
      problems.push(...atOnce(() => checkDay(db, day)))
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

function checkDay(db: Database, day: number): string[] {
  const name = renderDay(day)
  const isIncomplete = db.query('select 1 from evicted_days where day = ?').get(name) !== null
  const compared = isIncomplete ? COMPARED : [BY_RECORDS, ...COMPARED]
  return compared.flatMap(({ what, made, expected }) =>
    listDifferent(db, day, made, expected).map(
      model => `${name} ${what}: the sums of ${model || 'no model'} differ`,
    ),
  )
}

/** Lists the models whose sums are in one of the two and not in the other. Each is read once. */
function listDifferent(db: Database, day: number, made: string, expected: string): string[] {
  const values = {
    from: day * HOURS,
    until: (day + 1) * HOURS,
    day: renderDay(day),
    next: renderDay(day + 1),
  }
  const sql = `with made as materialized (${made}), expected as materialized (${expected})
    select model from (select * from made except select * from expected)
    union select model from (select * from expected except select * from made) limit ${MOST}`
  const used = Object.entries(values).filter(([name]) => sql.includes(`$${name}`))
  const query = db.query<{ model: string }, [Record<string, string | number>]>(sql)
  return query.all(Object.fromEntries(used)).map(({ model }) => model)
}
