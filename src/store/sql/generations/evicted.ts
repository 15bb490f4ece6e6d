import type { GenerationStore } from '../../../observability/generations/store.ts'
import { BYTES_AT_ONCE } from '../erasing.ts'
import { countEvicted } from '../evictions.ts'
import { follow, prepare, type Statement, type Write } from '../write.ts'

/** How many calls one transaction looks at, from the oldest on. */
const AT_ONCE = 1_000

const LIST_OLD = `select id from
  (select rowid as row, id, settled_at from generations order by rowid limit ${AT_ONCE}) as oldest
  where settled_at < ? and row <= (select max(last_row) from rollup_cursor)
  and row < (select max(rowid) from generations)`

const LIST_SIZES = `select generation_id, size_bytes from transcripts
  where generation_id in (select value from json_each(?))`

const REMOVALS = [
  'transcripts where generation_id',
  'feedback where generation_id',
  'videos where generation_id',
  'generations where id',
].map(target => `delete from ${target} in (select value from json_each(?))`)

/**
 * Creates the function that removes the oldest calls and counts them by day, in one transaction.
 * Rows are only ever added at the end, so that it reads no more than it removes. Calls that are not
 * in the roll-ups stay, and so does the last one: the number of its row is not given again.
 */
export const createEvictor =
  (write: Write): GenerationStore['evictBefore'] =>
  async (midnight, now) => {
    let count = 0
    await write(
      follow<{ id: string }>(prepare(LIST_OLD, midnight), rows => {
        count = 0
        const old = rows.map(({ id }) => id)
        if (old.length === 0) return []
        return [
          follow<SizedContent>(prepare(LIST_SIZES, JSON.stringify(old)), sizes => {
            const ids = takeFitting(old, sizes)
            count = ids.length
            return evict(ids, now)
          }),
        ]
      }),
    )
    return count
  }

const evict = (ids: string[], now: string): Statement[] => {
  const list = JSON.stringify(ids)
  return [
    prepare(ADD_SUMS, list),
    ...REMOVALS.map(removal => prepare(removal, list)),
    ...countEvicted({ kind: 'generations', reason: 'age', rows: ids.length }, now),
  ]
}

interface SizedContent {
  generation_id: string
  size_bytes: number
}

/** Takes the first calls whose content is not too large for one transaction, and one in any case. */
function takeFitting(ids: string[], rows: SizedContent[]): string[] {
  const sizes = new Map(rows.map(row => [row.generation_id, row.size_bytes]))
  let bytes = 0
  const end = ids.findIndex(id => {
    bytes += sizes.get(id) ?? 0
    return bytes > BYTES_AT_ONCE
  })
  return end === -1 ? ids : ids.slice(0, Math.max(end, 1))
}

/**
 * The condition for a call to be charged in the ledger's chain. Calls from before the chain existed
 * are summed up in its opening rows.
 */
export const IS_CHARGED = `
  g.key_hash is not null and g.upstream_inference_cost <> 0
  and g.settled_at >= (select min(settled_at) from ledger where hash is not null and source <> 'opening')`

const ADD_SUMS = `
  insert into evicted_days (day, calls, corrections, charged)
  select substr(settled_at, 1, 10), count(*), 
    count(*) filter (where api_type = 'correction'),
    coalesce(sum(upstream_inference_cost) filter (where ${IS_CHARGED}), 0)
  from generations as g where id in (select value from json_each(?))
  group by 1
  on conflict (day) do update set calls = evicted_days.calls + excluded.calls,
    corrections = evicted_days.corrections + excluded.corrections,
    charged = evicted_days.charged + excluded.charged`
