import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import type { UsageGroup, UsageQuery } from '../../../telemetry/usage.ts'
import { createEvictionCounter } from '../evictions.ts'
import type { Tables } from '../tables.ts'

/** How many calls one transaction looks at, from the oldest on. */
const AT_ONCE = 1_000

/**
 * Creates the function that removes the oldest calls and adds them to the sums of removed ones, in
 * one transaction. Rows are only ever added at the end, so that it reads no more than it removes.
 */
export function createEvictor(db: Database) {
  const listOld = db.query<{ id: string }, [number, string]>(
    'select id from (select id, settled_at from generations order by rowid limit ?) ' +
      'where settled_at < ?',
  )
  const addSums = db.query(ADD_SUMS)
  const removals = [
    'transcripts where generation_id',
    'feedback where generation_id',
    'generations where id',
  ].map(target => db.query(`delete from ${target} in (select value from json_each(?))`))
  const count = createEvictionCounter(db)
  const evict = db.transaction((midnight: string, now: string) => {
    const ids = listOld.all(AT_ONCE, midnight).map(({ id }) => id)
    if (ids.length === 0) return 0
    const json = JSON.stringify(ids)
    addSums.run(json)
    for (const removal of removals) removal.run(json)
    count({ kind: 'generations', reason: 'age', rows: ids.length }, now)
    return ids.length
  })
  return async (midnight: string, now: string): Promise<number> => evict.immediate(midnight, now)
}

/**
 * The condition for a call to be charged in the ledger's chain. Calls from before the chain existed
 * are summed up in its opening rows.
 */
export const IS_CHARGED = `
  g.key_hash is not null and g.upstream_inference_cost <> 0
  and g.settled_at >= (select min(settled_at) from ledger where hash is not null)`

const ADD_SUMS = `
  insert into evicted_generations (day, key_hash, model, provider_name, calls, input_tokens,
    output_tokens, cost, byok_cost, charged)
  select substr(settled_at, 1, 10), coalesce(key_hash, ''), model, coalesce(provider_name, ''),
    count(*), sum(native_tokens_prompt), sum(native_tokens_completion),
    sum(coalesce(total_cost, 0)), sum(iif(is_byok, coalesce(upstream_inference_cost, 0), 0)),
    sum(iif(${IS_CHARGED}, upstream_inference_cost, 0))
  from generations as g where id in (select value from json_each(?))
  group by 1, 2, 3, 4
  on conflict do update set calls = calls + excluded.calls,
    input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens, cost = cost + excluded.cost,
    byok_cost = byok_cost + excluded.byok_cost, charged = charged + excluded.charged`

/** What the sums of removed calls are summed by, in SQL. */
const EVICTED_GROUPS: Record<UsageGroup, string> = {
  day: 'day',
  key: "nullif(key_hash, '')",
  model: 'model',
  provider: "nullif(provider_name, '')",
}

/** Selects the sums of removed calls that match. A day counts as its first moment. */
export function selectEvictedSums(
  kysely: Kysely<Tables>,
  by: UsageGroup,
  { since, until, key_hash, model, provider }: UsageQuery,
) {
  let found = kysely
    .selectFrom('evicted_generations')
    .select([
      sql<string | null>`${sql.raw(EVICTED_GROUPS[by])}`.as('group'),
      sql<number>`sum(calls)`.as('calls'),
      sql<number>`sum(input_tokens)`.as('input_tokens'),
      sql<number>`sum(output_tokens)`.as('output_tokens'),
      sql<string>`cast(sum(cost) as text)`.as('cost'),
      sql<string>`cast(sum(byok_cost) as text)`.as('byok_cost'),
    ])
    .groupBy('group')
  const moment = sql<string>`day || 'T00:00:00.000Z'`
  if (since !== undefined) found = found.where(moment, '>=', since)
  if (until !== undefined) found = found.where(moment, '<', until)
  if (key_hash !== undefined) found = found.where('key_hash', '=', key_hash)
  if (model !== undefined) found = found.where('model', '=', model)
  if (provider !== undefined)
    found = found.where(sql`lower(provider_name)`, '=', provider.toLowerCase())
  return found
}
