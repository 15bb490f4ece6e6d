import { type Insertable, type Kysely, type Selectable, sql, type Updateable } from 'kysely'
import { invalid } from '../../errors.ts'
import type { Key, KeyStore } from '../../identity/keys/store.ts'
import { buildAuditInsert } from './audit.ts'
import { toColumns } from './columns.ts'
import type { Tables } from './tables.ts'
import { readInTurns, type Share } from './turns.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { type Check, check, type Statement, type Write } from './write.ts'

/** Creates the store of keys in SQL. */
export function createKeyStore(kysely: Kysely<Tables>, write: Write): KeyStore {
  return {
    all: () =>
      readInTurns(
        (after, count) =>
          kysely
            .selectFrom('keys')
            .selectAll()
            .select([
              sql<number>`rowid`.as('place'),
              sql<string | null>`cast("limit" as text)`.as('limit'),
            ])
            .where(sql<number>`rowid`, '>', after)
            .orderBy(sql`rowid`)
            .limit(count)
            .execute(),
        toKey,
      ),
    insert: (key, entry) =>
      write(
        ...checkWorkspaceAndCreator(kysely, key),
        kysely.insertInto('keys').values(toColumns<Insertable<Tables['keys']>>(key)),
        buildAuditInsert(kysely, entry),
      ),
    update(hash, change, entry) {
      const update = kysely
        .updateTable('keys')
        .set(toColumns<Updateable<Tables['keys']>>(change))
        .where('hash', '=', hash)
      const checks = change.disabled === false ? [checkMayEnable(kysely, hash)] : []
      return write(...checks, update, buildAuditInsert(kysely, entry))
    },
    remove: (hash, entry) =>
      write(kysely.deleteFrom('keys').where('hash', '=', hash), buildAuditInsert(kysely, entry)),
  }
}

type Row = Omit<Selectable<Tables['keys']>, 'limit'> & { limit: string | null }

// Field by field, and one copy of what many keys have in common: there may be very many.
const toKey = (row: Row, share: Share): Key => ({
  hash: row.hash,
  secret_hash: row.secret_hash,
  previous_secret_hash: row.previous_secret_hash,
  previous_secret_until: row.previous_secret_until,
  name: row.name,
  label: row.label,
  kind: share(row.kind),
  workspace_id: share(row.workspace_id),
  isUnscoped: row.isUnscoped === 1,
  creator_user_id: share(row.creator_user_id),
  external_user: row.external_user,
  external_api_key_hash: row.external_api_key_hash,
  disabled: row.disabled === 1,
  limit: row.limit === null ? null : BigInt(row.limit),
  limit_reset: share(row.limit_reset),
  include_byok_in_limit: row.include_byok_in_limit === 1,
  expires_at: row.expires_at,
  created_at: row.created_at,
  updated_at: row.updated_at,
})

/**
 * Refuses a new key whose workspace does not exist or whose creator has left. An organization's
 * management key outlives the default workspace, so its workspace is not checked.
 */
function checkWorkspaceAndCreator(
  kysely: Kysely<Tables>,
  { kind, isUnscoped, workspace_id, creator_user_id }: Key,
): Statement[] {
  const inactiveCreator = kysely
    .selectFrom('members')
    .select('id')
    .where('id', '=', creator_user_id)
    .where('active', '=', 0)
  const creator = check(inactiveCreator, ([inactive]) => {
    if (inactive)
      throw invalid('creator_user_id: expected a member who has not left', 'creator_user_id')
  })
  return kind === 'management' && isUnscoped
    ? [creator]
    : [creator, checkWorkspaceReference(kysely, workspace_id)]
}

/** Refuses to enable a key whose workspace was deleted or whose creator has left. */
const checkMayEnable = (kysely: Kysely<Tables>, hash: string): Check =>
  check(
    kysely
      .selectFrom('keys')
      .innerJoin('workspaces', 'workspaces.id', 'keys.workspace_id')
      .leftJoin('members', 'members.id', 'keys.creator_user_id')
      .select(['keys.kind', 'workspaces.is_default', 'workspaces.deleted_at', 'members.active'])
      .where('hash', '=', hash),
    ([row]) => {
      const workspaceIsDeleted =
        row?.deleted_at != null && !(row.kind === 'management' && row.is_default === 1)
      if (workspaceIsDeleted || row?.active === 0)
        throw invalid(
          'disabled: expected true, since the key’s workspace was deleted or its creator has left',
          'disabled',
        )
    },
  )
