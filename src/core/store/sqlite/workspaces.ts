import { type Kysely, type Selectable, sql } from 'kysely'
import { conflict, invalid, notFound } from '../../errors.ts'
import type { Disabling } from '../../identity/keys/store.ts'
import type { Workspace, WorkspaceStore } from '../../identity/workspaces/store.ts'
import { auditInsert } from './audit.ts'
import { columnsOf, listOf } from './columns.ts'
import type { Tables, WorkspaceTable } from './tables.ts'
import { type Check, check, type Statement, type Write } from './write.ts'

/** Creates the store of workspaces in SQL. */
export function workspaceStore(kysely: Kysely<Tables>, write: Write): WorkspaceStore {
  return {
    async all() {
      const rows = await kysely
        .selectFrom('workspaces')
        .selectAll()
        .where('deleted_at', 'is', null)
        .execute()
      return rows.map(workspaceOf)
    },
    // Two processes may start on an empty directory at once. The first one's workspace stays.
    async first(workspace) {
      await kysely
        .insertInto('workspaces')
        .values(rowOf(workspace))
        .onConflict(on => on.doNothing())
        .execute()
    },
    insert(workspace, entry) {
      const insert = kysely.insertInto('workspaces').values(rowOf(workspace))
      return write(isFree(kysely, workspace), insert, auditInsert(kysely, entry))
    },
    update(id, change, entry) {
      const update = kysely
        .updateTable('workspaces')
        .set(columnsOf<Partial<Row>>(change))
        .where('id', '=', id)
      return write(
        isThere(kysely, id),
        isFree(kysely, { id, ...change }),
        update,
        auditInsert(kysely, entry),
      )
    },
    remove(workspace, keys, entry) {
      return write(
        isThere(kysely, workspace.id),
        ...disabling(kysely, workspace, keys),
        hasNoActiveKeys(kysely, workspace, entry.created_at),
        ...belongings(kysely, workspace, entry.created_at),
        farewell(kysely, workspace, entry.created_at),
        auditInsert(kysely, entry),
      )
    },
  }
}

/** Checks that a workspace exists to which a new record refers. Throws 400 otherwise. */
export const isLive = (kysely: Kysely<Tables>, id: string): Check =>
  check(living(kysely, id), ([row]) => {
    if (!row) throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
  })

/** Checks that the workspace to change exists. Throws 404 otherwise. */
export const isThere = (kysely: Kysely<Tables>, id: string): Check =>
  check(living(kysely, id), ([row]) => {
    if (!row) throw notFound('Workspace not found')
  })

const living = (kysely: Kysely<Tables>, id: string) =>
  kysely.selectFrom('workspaces').select('id').where('id', '=', id).where('deleted_at', 'is', null)

const isFree = (
  kysely: Kysely<Tables>,
  { id, slug = '' }: Partial<Workspace> & { id: string },
): Check =>
  check(
    kysely.selectFrom('workspaces').select('id').where('slug', '=', slug).where('id', '!=', id),
    ([taken]) => {
      if (taken) throw invalid('slug: expected one that no other workspace has', 'slug')
    },
  )

/**
 * Disables the keys without a workspace of their own when the default workspace is deleted. Throws
 * 409 if they are not the expected ones.
 */
function disabling(
  kysely: Kysely<Tables>,
  workspace: Workspace,
  { hashes, updated_at, entries }: Disabling,
): Statement[] {
  if (!workspace.is_default) return []
  const going = kysely.selectFrom('keys').select('hash').where('workspace_id', '=', workspace.id)
  const unscoped = going
    .where('kind', '=', 'inference')
    .where('isUnscoped', '=', 1)
    .where('disabled', '=', 0)
  return [
    check(unscoped, rows => {
      if (new Set(rows.map(row => row.hash)).symmetricDifference(new Set(hashes)).size > 0)
        throw conflict()
    }),
    kysely.updateTable('keys').set({ disabled: 1, updated_at }).where('hash', 'in', unscoped),
    ...entries.map(entry => auditInsert(kysely, entry)),
  ]
}

// The organization's management keys belong to the default workspace and outlive it.
function hasNoActiveKeys(
  kysely: Kysely<Tables>,
  { id, is_default }: Workspace,
  now: string,
): Check {
  const own = kysely
    .selectFrom('keys')
    .select('hash')
    .where('workspace_id', '=', id)
    .where(isActive(now))
  return check(is_default ? own.where('kind', '=', 'inference') : own, ({ length }) => {
    if (length > 0)
      throw invalid(
        `This workspace has ${length} active API ${length === 1 ? 'key' : 'keys'}: ` +
          'delete or disable them first',
      )
  })
}

/**
 * The condition for a key to be active now. Times may or may not have fractions of a second, so
 * they do not compare as text.
 */
const isActive = (now: string) =>
  sql<boolean>`disabled = 0 and (expires_at is null or julianday(expires_at) > julianday(${now}))`

/** Deletes everything in a workspace. Sealed credentials are erased. */
function belongings(kysely: Kysely<Tables>, { id }: Workspace, deleted_at: string): Statement[] {
  const presets = kysely.selectFrom('presets').select('id').where('workspace_id', '=', id)
  return [
    // The foreign keys delete their assignments too.
    kysely.deleteFrom('guardrails').where('workspace_id', '=', id),
    kysely.deleteFrom('budgets').where('workspace_id', '=', id),
    kysely.deleteFrom('scim_group_mappings').where('workspace_id', '=', id),
    kysely.deleteFrom('workspace_members').where('workspace_id', '=', id),
    kysely.deleteFrom('preset_versions').where('preset_id', 'in', presets),
    kysely.deleteFrom('presets').where('workspace_id', '=', id),
    kysely
      .updateTable('byok')
      .set({ sealed: null, deleted_at })
      .where('workspace_id', '=', id)
      .where('deleted_at', 'is', null),
  ]
}

// No valid slug has a space, so the replacement collides with none, and the old slug is free again.
const farewell = (kysely: Kysely<Tables>, { id }: Workspace, deleted_at: string) =>
  kysely
    .updateTable('workspaces')
    .set({ deleted_at, slug: `deleted ${id}` })
    .where('id', '=', id)

type Row = Selectable<WorkspaceTable>

function workspaceOf({ deleted_at: _, ...row }: Row): Workspace {
  return {
    ...row,
    is_default: row.is_default === 1,
    include_byok_in_budgets: row.include_byok_in_budgets === 1,
    is_observability_io_logging_enabled: row.is_observability_io_logging_enabled === 1,
    is_observability_broadcast_enabled: row.is_observability_broadcast_enabled === 1,
    is_data_discount_logging_enabled: row.is_data_discount_logging_enabled === 1,
    io_logging_api_key_ids: listOf(row.io_logging_api_key_ids),
    disabled_server_tools: listOf(row.disabled_server_tools),
  }
}

const rowOf = (workspace: Workspace) => ({ ...columnsOf<Row>(workspace), deleted_at: null })
