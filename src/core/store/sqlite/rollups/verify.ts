import type { Database } from 'bun:sqlite'
import { AMOUNTS, COUNTS } from '../../../telemetry/rollups/calls.ts'

/** Sums of the records, as the roll-ups should have them. Calls of all apps are together. */
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
  from generations where rowid <= (select last_row from rollup_cursor)
  group by 1, 2, 3, 4, 5, 6, 7, 8`

const GROUP = 'workspace_id, key_hash, user_id, model, provider_name, endpoint_id, is_byok'
const ENDPOINT = 'workspace_id, model, provider_name, endpoint_id, is_byok'
const SUMS = [...COUNTS, ...AMOUNTS]
const SUMMED = SUMS.map(name => `sum(${name}) as ${name}`).join(', ')

const sumTable = (table: string, start: string, group: string) =>
  `select ${start} as start, ${group}, ${SUMMED} from ${table} join usage_groups on id = group_id ` +
  `group by ${start}, ${group}`

/** Two ways to each sum, which must agree, and what a difference means. */
const COMPARED = [
  {
    what: 'hour',
    made: sumTable('usage_hours', 'start', GROUP),
    expected: RECOUNTED,
  },
  {
    what: 'day',
    made: sumTable('usage_days', 'start', GROUP),
    expected: sumTable('usage_hours', 'start / 24', GROUP),
  },
  {
    what: 'day by endpoint',
    made: sumTable('usage_endpoint_days', 'start', ENDPOINT),
    expected: sumTable('usage_days', 'start', ENDPOINT),
  },
]

/** The most differences of one kind that are described. */
const MOST = 10

/** Creates the comparison of the sums with the records, at one moment. */
export function createVerifier(db: Database): () => string[] {
  const verify = db.transaction(() =>
    COMPARED.flatMap(({ what, made, expected }) => [
      ...listMissing(db, made, expected).map(name => `${what} ${name} has too much or too little`),
      ...listMissing(db, expected, made).map(name => `${what} ${name} is not as the records say`),
    ]),
  )
  return () => verify.deferred()
}

function listMissing(db: Database, from: string, other: string): string[] {
  const query = db.prepare<{ start: number; model: string }, []>(
    `select start, model from (${from} except ${other}) limit ${MOST}`,
  )
  try {
    return query.all().map(({ start, model }) => `${start} of ${model || 'no model'}`)
  } finally {
    query.finalize()
  }
}
