import { type Kysely, type Selectable, sql } from 'kysely'
import { conflict, invalid, notFound } from '../../base/errors.ts'
import type { KeyDisabling } from '../../resources/keys/store.ts'
import type { Workspace, WorkspaceStore } from '../../resources/workspaces/store.ts'
import { buildAuditInsert } from './audit.ts'
import { buildDestinationsDelete } from './destinations/erasing.ts'
import { type Erase, eraseLeft } from './erasing.ts'
import type { Tables, WorkspaceTable } from './tables.ts'
import { type Check, check, parseList, type Statement, toColumns, type Write } from './write.ts'

/** Creates the store of workspaces in SQL. */
export function createWorkspaceStore(
  kysely: Kysely<Tables>,
  write: Write,
  erase: Erase,
): WorkspaceStore {
  return {
    async all(ids) {
      const rows = await kysely
        .selectFrom('workspaces')
        .selectAll()
        .where('deleted_at', 'is', null)
        .$if(ids !== undefined, some => some.where('id', 'in', ids ?? []))
        .execute()
      return rows.map(toWorkspace)
    },
    // Two processes may start on an empty directory at once. The first one's workspace stays.
    insertIfAbsent: workspace =>
      write(
        kysely
          .insertInto('workspaces')
          .values(toRow(workspace))
          .onConflict(on => on.doNothing()),
      ),
    insert(workspace, entry) {
      const insert = kysely.insertInto('workspaces').values(toRow(workspace))
      return write(checkSlugFree(kysely, workspace), insert, buildAuditInsert(kysely, entry))
    },
    update(id, change, entry) {
      const update = kysely
        .updateTable('workspaces')
        .set(toColumns<Partial<Row>>(change))
        .where('id', '=', id)
      return write(
        checkWorkspaceExists(kysely, id),
        checkSlugFree(kysely, { id, ...change }),
        update,
        buildAuditInsert(kysely, entry),
      )
    },
    async remove(workspace, keys, entry) {
      await write(
        checkWorkspaceExists(kysely, workspace.id),
        ...buildKeyDisabling(kysely, workspace, keys),
        checkNoActiveKeys(kysely, workspace, entry.created_at),
        ...buildContentsDelete(kysely, workspace, entry.created_at),
        buildWorkspaceDelete(kysely, workspace, entry.created_at),
        buildAuditInsert(kysely, entry),
      )
      await eraseLeft(erase)
    },
  }
}

/** Checks that a workspace exists to which a new record refers. Throws 400 otherwise. */
export const checkWorkspaceReference = (kysely: Kysely<Tables>, id: string): Check =>
  check(selectLiving(kysely, id), ([row]) => {
    if (!row) throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
  })

/** Checks that the workspace to change exists. Throws 404 otherwise. */
export const checkWorkspaceExists = (kysely: Kysely<Tables>, id: string): Check =>
  check(selectLiving(kysely, id), ([row]) => {
    if (!row) throw notFound('Workspace not found')
  })

const selectLiving = (kysely: Kysely<Tables>, id: string) =>
  kysely.selectFrom('workspaces').select('id').where('id', '=', id).where('deleted_at', 'is', null)

const checkSlugFree = (
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
function buildKeyDisabling(
  kysely: Kysely<Tables>,
  workspace: Workspace,
  { hashes, updated_at, entries }: KeyDisabling,
): Statement[] {
  if (!workspace.is_default) return []
  const ownKeys = kysely.selectFrom('keys').select('hash').where('workspace_id', '=', workspace.id)
  const unscoped = ownKeys
    .where('kind', '=', 'inference')
    .where('isUnscoped', '=', 1)
    .where('disabled', '=', 0)
  return [
    check(unscoped, rows => {
      if (new Set(rows.map(row => row.hash)).symmetricDifference(new Set(hashes)).size > 0)
        throw conflict()
    }),
    kysely.updateTable('keys').set({ disabled: 1, updated_at }).where('hash', 'in', unscoped),
    ...entries.map(entry => buildAuditInsert(kysely, entry)),
  ]
}

// The organization's management keys belong to the default workspace and outlive it.
function checkNoActiveKeys(
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
 * they compare as text without the letter behind it.
 */
export const isActive = (now: string) =>
  sql<boolean>`disabled = 0 and
    (expires_at is null or replace(expires_at, 'Z', '') > replace(${now}, 'Z', ''))`

/**
 * Deletes what a workspace has few of, and erases sealed credentials. Calls that wait, content,
 * batches, files and containers may be many, and are erased in parts after it (`erasing.ts`).
 */
function buildContentsDelete(
  kysely: Kysely<Tables>,
  { id }: Workspace,
  deleted_at: string,
): Statement[] {
  const alerts = kysely.selectFrom('alerts').select('id').where('workspace_id', '=', id)
  const presets = kysely.selectFrom('presets').select('id').where('workspace_id', '=', id)
  return [
    // The foreign keys delete their assignments too.
    kysely.deleteFrom('guardrails').where('workspace_id', '=', id),
    kysely.deleteFrom('budgets').where('workspace_id', '=', id),
    kysely.deleteFrom('auth_codes').where('workspace_id', '=', id),
    kysely.deleteFrom('alert_notices').where('alert_id', 'in', alerts),
    kysely.deleteFrom('alerts').where('workspace_id', '=', id),
    ...buildDestinationsDelete(kysely, deleted_at, 'workspace_id', id),
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
const buildWorkspaceDelete = (kysely: Kysely<Tables>, { id }: Workspace, deleted_at: string) =>
  kysely
    .updateTable('workspaces')
    .set({ deleted_at, slug: `deleted ${id}` })
    .where('id', '=', id)

type Row = Selectable<WorkspaceTable>

function toWorkspace({ deleted_at: _, ...row }: Row): Workspace {
  return {
    ...row,
    is_default: row.is_default === 1,
    include_byok_in_budgets: row.include_byok_in_budgets === 1,
    is_observability_io_logging_enabled: row.is_observability_io_logging_enabled === 1,
    is_observability_broadcast_enabled: row.is_observability_broadcast_enabled === 1,
    is_data_discount_logging_enabled: row.is_data_discount_logging_enabled === 1,
    io_logging_api_key_ids: parseList(row.io_logging_api_key_ids),
    disabled_server_tools: parseList(row.disabled_server_tools),
  }
}

const toRow = (workspace: Workspace) => ({ ...toColumns<Row>(workspace), deleted_at: null })
