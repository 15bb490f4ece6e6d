import type { Kysely } from 'kysely'
import type { Tables } from '../tables.ts'
import type { Statement } from '../write.ts'

/** Erases the destinations of a workspace, or one by its id, with all that is kept for them. */
export function buildDestinationsDelete(
  kysely: Kysely<Tables>,
  deleted_at: string,
  column: 'id' | 'workspace_id',
  value: string,
): Statement[] {
  const ids = kysely.selectFrom('destinations').select('id').where(column, '=', value)
  const living = kysely
    .selectFrom('outbox')
    .select('outbox.sequence')
    .where(({ or, exists, selectFrom }) =>
      or(
        (['deliveries', 'failed_deliveries'] as const).map(table =>
          exists(
            selectFrom(table)
              .select(`${table}.sequence`)
              .whereRef(`${table}.sequence`, '=', 'outbox.sequence'),
          ),
        ),
      ),
    )
  return [
    kysely.deleteFrom('deliveries').where('destination_id', 'in', ids),
    kysely.deleteFrom('failed_deliveries').where('destination_id', 'in', ids),
    kysely.deleteFrom('delivery_counts').where('destination_id', 'in', ids),
    kysely.deleteFrom('outbox').where('topic', '=', 'trace').where('sequence', 'not in', living),
    kysely
      .updateTable('destinations')
      .set({ sealed: null, deleted_at })
      .where(column, '=', value)
      .where('deleted_at', 'is', null),
  ]
}
