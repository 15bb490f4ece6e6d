import { type Kysely, sql } from 'kysely'
import type { RefusalFilter, RefusalStore } from '../../observability/refusals.ts'
import { createRemoval } from './evictions.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of refusals in SQL. */
export const createRefusalStore = (kysely: Kysely<Tables>, write: Write): RefusalStore => ({
  add: (refusals, counts, keep) =>
    write(
      ...(refusals.length > 0 ? [kysely.insertInto('refusals').values(refusals)] : []),
      ...counts.map(({ id, created_at, ...count }) =>
        kysely
          .updateTable('refusals')
          .set(count)
          .where('id', '=', id)
          .where('created_at', '=', created_at),
      ),
      kysely
        .deleteFrom('refusals')
        .where('sequence', '<=', sql<number>`(select max(sequence) from refusals) - ${keep}`),
    ),
  removeBefore: createRemoval(write, 'refusals', REMOVE_OLD),
  list: (limit, filter = {}) =>
    addFilters(selectRefusals(kysely), filter).orderBy('sequence', 'desc').limit(limit).execute(),
})

const REMOVE_OLD =
  'delete from refusals where sequence in ' +
  '(select sequence from refusals where created_at < ? order by sequence limit 1000) returning 1'

const selectRefusals = (kysely: Kysely<Tables>) => kysely.selectFrom('refusals').selectAll()

function addFilters(
  rows: ReturnType<typeof selectRefusals>,
  { id, key_hash, status, before, after }: RefusalFilter,
) {
  let found = rows
  if (id !== undefined) found = found.where('id', '=', id)
  if (key_hash !== undefined) found = found.where('key_hash', '=', key_hash)
  if (typeof status === 'number') found = found.where('status', '=', status)
  else if (status !== undefined) {
    const hundred = Number(status[0]) * 100
    found = found.where('status', '>=', hundred).where('status', '<', hundred + 100)
  }
  if (before !== undefined) found = found.where('sequence', '<', before)
  if (after !== undefined) found = found.where('sequence', '>', after)
  return found
}
