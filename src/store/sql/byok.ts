import type { Kysely, Selectable } from 'kysely'
import type { ByokKey, ByokStore } from '../../resources/byok/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { ByokTable, Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { parseList, toColumns, type Write } from './write.ts'

/** Creates the store of callers' own provider keys in SQL. Keys are sealed. */
export function createByokStore(kysely: Kysely<Tables>, write: Write): ByokStore {
  return {
    async all(ids) {
      const rows = await kysely
        .selectFrom('byok')
        .selectAll()
        .where('deleted_at', 'is', null)
        .$if(ids !== undefined, some => some.where('id', 'in', ids ?? []))
        .execute()
      return rows.map(toByokKey)
    },
    insert: (key, entry) =>
      write(
        checkWorkspaceReference(kysely, key.workspace_id),
        kysely.insertInto('byok').values(toRow(key)),
        buildAuditInsert(kysely, entry),
      ),
    update: (id, change, entry) =>
      write(
        kysely.updateTable('byok').set(toColumns<Partial<Row>>(change)).where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
    remove: (id, deleted_at, entry) =>
      write(
        kysely.updateTable('byok').set({ sealed: null, deleted_at }).where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
  }
}

type Row = Selectable<ByokTable>

function toByokKey({ deleted_at: _, ...row }: Row): ByokKey {
  return {
    ...row,
    sealed: row.sealed ?? '',
    disabled: row.disabled === 1,
    is_fallback: row.is_fallback === 1,
    is_byok_only: row.is_byok_only === 1,
    is_required: row.is_required === 1,
    declared_zdr: row.declared_zdr === null ? null : row.declared_zdr === 1,
    allowed_models: parseList(row.allowed_models),
    allowed_api_key_hashes: parseList(row.allowed_api_key_hashes),
    allowed_user_ids: parseList(row.allowed_user_ids),
  }
}

const toRow = (key: ByokKey) => ({ ...toColumns<Row>(key), deleted_at: null })
