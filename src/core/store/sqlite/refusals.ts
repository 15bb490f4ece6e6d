import { type Kysely, sql } from 'kysely'
import type { RefusalStore } from '../../telemetry/refusals.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of refusals in SQL. */
export const createRefusalStore = (kysely: Kysely<Tables>, write: Write): RefusalStore => ({
  add: (refusals, keep) =>
    write(
      kysely.insertInto('refusals').values(refusals),
      kysely
        .deleteFrom('refusals')
        .where('sequence', '<=', sql<number>`(select max(sequence) from refusals) - ${keep}`),
    ),
  async list(limit, id) {
    const rows = kysely.selectFrom('refusals').selectAll().orderBy('sequence', 'desc').limit(limit)
    const found = await (id === undefined ? rows : rows.where('id', '=', id)).execute()
    return found.map(({ sequence: _, ...refusal }) => refusal)
  },
})
