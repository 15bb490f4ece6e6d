import type { Database } from 'bun:sqlite'
import { BYTES_AT_ONCE } from '../erasing.ts'
import { createEvictionCounter } from '../evictions.ts'

/** How many calls one transaction looks at, from the oldest on. */
const AT_ONCE = 1_000

/**
 * Creates the function that removes the oldest calls and counts them by day, in one transaction.
 * Rows are only ever added at the end, so that it reads no more than it removes. Calls that are not
 * in the roll-ups stay, and so does the last one: the number of its row is not given again.
 */
export function createEvictor(db: Database) {
  const listOld = db.query<{ id: string }, [number, string]>(
    'select id from (select rowid as row, id, settled_at from generations order by rowid limit ?) ' +
      'where settled_at < ? and row <= (select max(last_row) from rollup_cursor) ' +
      'and row < (select max(rowid) from generations)',
  )
  const addSums = db.query(ADD_SUMS)
  const removals = [
    'transcripts where generation_id',
    'feedback where generation_id',
    'videos where generation_id',
    'generations where id',
  ].map(target => db.query(`delete from ${target} in (select value from json_each(?))`))
  const count = createEvictionCounter(db)
  const evict = db.transaction((midnight: string, now: string) => {
    const old = listOld.all(AT_ONCE, midnight).map(({ id }) => id)
    if (old.length === 0) return 0
    const ids = takeFitting(db, old)
    const json = JSON.stringify(ids)
    addSums.run(json)
    for (const removal of removals) removal.run(json)
    count({ kind: 'generations', reason: 'age', rows: ids.length }, now)
    return ids.length
  })
  return async (midnight: string, now: string): Promise<number> => evict.immediate(midnight, now)
}

/** Takes the first calls whose content is not too large for one transaction, and one in any case. */
function takeFitting(db: Database, ids: string[]): string[] {
  const rows = db
    .query<{ generation_id: string; size_bytes: number }, [string]>(
      'select generation_id, size_bytes from transcripts ' +
        'where generation_id in (select value from json_each(?))',
    )
    .all(JSON.stringify(ids))
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
  select substr(settled_at, 1, 10), count(*), sum(api_type = 'correction'), sum(iif(${IS_CHARGED}, upstream_inference_cost, 0))
  from generations as g where id in (select value from json_each(?))
  group by 1
  on conflict do update set calls = calls + excluded.calls,
    corrections = corrections + excluded.corrections, charged = charged + excluded.charged`
