import type { Kysely, Selectable } from 'kysely'
import { notFound } from '../../base/errors.ts'
import type { ByokKey, ByokRoles, ByokStore } from '../../resources/byok/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { ByokTable, Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { type Check, check, parseList, toColumns, type Write } from './write.ts'

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
    update: (id, change, entry, judge) =>
      write(
        checkKey(kysely, id, judge),
        kysely.updateTable('byok').set(toColumns<Partial<Row>>(change)).where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
    remove: (id, deleted_at, entry) =>
      write(
        checkKey(kysely, id),
        kysely.updateTable('byok').set({ sealed: null, deleted_at }).where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
  }
}

/** Judges a key as it is. One that was deleted gets no credential again. */
const checkKey = (kysely: Kysely<Tables>, id: string, judge?: (now: ByokRoles) => void): Check =>
  check(
    kysely
      .selectFrom('byok')
      .select(['is_fallback', 'is_byok_only'])
      .where('id', '=', id)
      .where('deleted_at', 'is', null),
    ([row]) => {
      if (!row) throw notFound('Provider key not found')
      judge?.({ is_fallback: row.is_fallback === 1, is_byok_only: row.is_byok_only === 1 })
    },
  )

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
