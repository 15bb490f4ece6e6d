import type { Kysely, Selectable } from 'kysely'
import type { ByokKey, ByokStore } from '../../catalog/byok/store.ts'
import { auditInsert } from './audit.ts'
import { columnsOf, listOf } from './columns.ts'
import type { ByokTable, Tables } from './tables.ts'
import { isLive } from './workspaces.ts'
import type { Write } from './write.ts'

/** Creates the store of callers' own provider keys in SQL. Keys are sealed. */
export function byokStore(kysely: Kysely<Tables>, write: Write): ByokStore {
  return {
    async all() {
      const rows = await kysely
        .selectFrom('byok')
        .selectAll()
        .where('deleted_at', 'is', null)
        .execute()
      return rows.map(keyOf)
    },
    insert: (key, entry) =>
      write(
        isLive(kysely, key.workspace_id),
        kysely.insertInto('byok').values(rowOf(key)),
        auditInsert(kysely, entry),
      ),
    update: (id, change, entry) =>
      write(
        kysely.updateTable('byok').set(columnsOf<Partial<Row>>(change)).where('id', '=', id),
        auditInsert(kysely, entry),
      ),
    remove: (id, deleted_at, entry) =>
      write(
        kysely.updateTable('byok').set({ sealed: null, deleted_at }).where('id', '=', id),
        auditInsert(kysely, entry),
      ),
  }
}

type Row = Selectable<ByokTable>

function keyOf({ deleted_at: _, ...row }: Row): ByokKey {
  return {
    ...row,
    sealed: row.sealed ?? '',
    disabled: row.disabled === 1,
    is_fallback: row.is_fallback === 1,
    is_byok_only: row.is_byok_only === 1,
    is_required: row.is_required === 1,
    declared_zdr: row.declared_zdr === null ? null : row.declared_zdr === 1,
    allowed_models: listOf(row.allowed_models),
    allowed_api_key_hashes: listOf(row.allowed_api_key_hashes),
    allowed_user_ids: listOf(row.allowed_user_ids),
  }
}

const rowOf = (key: ByokKey) => ({ ...columnsOf<Row>(key), deleted_at: null })
