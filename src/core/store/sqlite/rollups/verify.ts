import type { Database } from 'bun:sqlite'
import { AMOUNTS, COUNTS, renderDay } from '../../../telemetry/rollups/calls.ts'

const HOURS = 24
const GROUP = 'workspace_id, key_hash, user_id, model, provider_name, endpoint_id, is_byok'
const ENDPOINT = 'workspace_id, model, provider_name, endpoint_id, is_byok'
const SUMS = [...COUNTS, ...AMOUNTS]
const SUMMED = SUMS.map(name => `sum(${name}) as ${name}`).join(', ')

/** Sums of a day's records, as the roll-ups should have them. Calls of all apps are together. */
const RECOUNTED = `select cast(strftime('%s', substr(settled_at, 1, 19)) as integer) / 3600 as start,
  workspace_id, coalesce(key_hash, '') as key_hash, user_id, model,
  coalesce(provider_name, '') as provider_name,
  coalesce(json_extract(provider_responses, '$[#-1].endpoint_id'), '') as endpoint_id, is_byok,
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

interface Row {
  model: string
}

/**
 * Creates the comparison of the sums with the records, at one moment. It compares day after day, so
 * that it takes no more memory than a day does.
 */
export function createVerifier(db: Database): () => string[] {
  const verify = db.transaction(() => [...checkTotals(db), ...checkDays(db)])
  return () => verify.deferred()
}

function checkTotals(db: Database): string[] {
  const totals = db.query<{ made: number; expected: number }, []>(TOTALS).get()
  if (!totals || totals.made === totals.expected) return []
  return [`they have ${totals.made} calls, and the records ${totals.expected}`]
}

function checkDays(db: Database): string[] {
  const problems: string[] = []
  const evicted = db.query<{ day: string }, []>('select day from evicted_days').all()
  const incomplete = new Set(evicted.map(({ day }) => day))
  for (const { day } of db.query<{ day: number }, []>(DAYS).all()) {
    const compared = incomplete.has(renderDay(day)) ? COMPARED : [BY_RECORDS, ...COMPARED]
    for (const { what, made, expected } of compared)
      for (const model of listDifferent(db, day, made, expected))
        problems.push(`${renderDay(day)} ${what}: the sums of ${model || 'no model'} differ`)
    if (problems.length >= MOST) break
  }
  return problems
}

/** Lists the models whose sums are in one of the two and not in the other. */
function listDifferent(db: Database, day: number, made: string, expected: string): string[] {
  const values = {
    from: day * HOURS,
    until: (day + 1) * HOURS,
    day: renderDay(day),
    next: renderDay(day + 1),
  }
  const list = (one: string, other: string) => {
    const sql = `select distinct model from (${one} except ${other}) limit ${MOST}`
    const used = Object.entries(values).filter(([name]) => sql.includes(`$${name}`))
    return db.query<Row, [Record<string, string | number>]>(sql).all(Object.fromEntries(used))
  }
  const found = [...list(made, expected), ...list(expected, made)]
  return [...new Set(found.map(({ model }) => model))]
}
