import type { Kysely } from 'kysely'
import { deleteUnreferred } from '../deliveries/unreferred.ts'
import type { Tables } from '../tables.ts'
import { follow, type Statement } from '../write.ts'

/**
 * Erases the destinations of a workspace, or one by its id, with all that is kept for them but the
 * calls that wait: they may be millions, and are erased in parts after it (`erasing.ts`).
 */
export function buildDestinationsDelete(
  kysely: Kysely<Tables>,
  deleted_at: string,
  column: 'id' | 'workspace_id',
  value: string,
): Statement[] {
  const ids = kysely.selectFrom('destinations').select('id').where(column, '=', value)
  const eraseRows = (table: 'failed_deliveries') =>
    follow(
      kysely.deleteFrom(table).where('destination_id', 'in', ids).returning('sequence'),
      rows => [deleteUnreferred(rows.map(({ sequence }) => sequence))],
    )
  return [
    eraseRows('failed_deliveries'),
    kysely.deleteFrom('delivery_counts').where('destination_id', 'in', ids),
    kysely
      .updateTable('destinations')
      .set({ sealed: null, deleted_at })
      .where(column, '=', value)
      .where('deleted_at', 'is', null),
  ]
}
