import { type Insertable, type Kysely, sql, type Updateable } from 'kysely'
import { denied, invalid } from '../../base/errors.ts'
import { NO_MARK, PackedRows } from '../../base/packed-rows.ts'
import { KEY_PACKING } from '../../resources/keys/mirror.ts'
import type {
  ChangingKey,
  Key,
  KeyStore,
  MakerBounds,
  NamedBounds,
} from '../../resources/keys/store.ts'
import { buildAuditInsert } from './audit.ts'
import { buildSessionEnd } from './sign-ins.ts'
import type { Tables } from './tables.ts'
import { type OpenReader, readInTurns } from './turns.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import {
  type Check,
  check,
  checkFound,
  type FollowUp,
  follow,
  type Statement,
  toColumns,
  type Write,
} from './write.ts'

/** Creates the store of keys in SQL. */
export function createKeyStore(
  kysely: Kysely<Tables>,
  write: Write,
  openReader: OpenReader,
): KeyStore {
  let reader: ReturnType<OpenReader> | undefined
  return {
    async all(hashes) {
      reader ??= openReader('keys', renderKey)
      if (!hashes) return PackedRows.pack(KEY_PACKING, await readInTurns(reader))
      return (await reader.readSome('hash', hashes)).map(KEY_PACKING.parse)
    },
    insert: (key, entry, bounds, named) =>
      write(
        ...checkWorkspaceAndCreator(kysely, key),
        ...(bounds ? [checkBounds(kysely, key, bounds)] : []),
        ...(bounds?.maker === undefined ? [] : [checkMaker(kysely, bounds.maker)]),
        ...(named ? [checkNamed(kysely, key, named)] : []),
        kysely.insertInto('keys').values(toColumns<Insertable<Tables['keys']>>(key)),
        buildAuditInsert(kysely, entry),
      ),
    update(hash, change, entry, judge) {
      const update = kysely
        .updateTable('keys')
        .set(toColumns<Updateable<Tables['keys']>>(change))
        .where('hash', '=', hash)
      const checks = [checkKeyFound(kysely, hash)]
      if (change.disabled === false) checks.push(checkMayEnable(kysely, hash))
      if (judge) checks.push(checkKey(kysely, hash, judge))
      // A session lasts no longer than the secret that it was begun with.
      const end = change.previous_secret_until ?? entry.created_at
      const rotated = change.secret_hash === undefined ? [] : [buildSessionEnd(kysely, hash, end)]
      return write(...checks, update, ...rotated, buildAuditInsert(kysely, entry))
    },
    remove: (hash, entry) =>
      write(
        checkKeyFound(kysely, hash),
        kysely.deleteFrom('keys').where('hash', '=', hash),
        buildAuditInsert(kysely, entry),
      ),
  }
}

const checkKeyFound = (kysely: Kysely<Tables>, hash: string): Check =>
  checkFound(kysely.selectFrom('keys').select('hash').where('hash', '=', hash), 'API key')

// What few keys have is one field, so that the rows of most are short. Numbers of any size are texts.
const renderKey: Parameters<OpenReader>[1] = list => {
  const limit = sql`cast("limit" as text)`
  const [user, others] = [
    ['external_user', 'external_api_key_hash'],
    ['expires_at', 'updated_at'],
  ]
  const secrets = ['secret_hash', 'previous_secret_hash', 'previous_secret_until']
  const rare = [...refer(...secrets, ...user), limit, ...refer('limit_reset', ...others)]
  return list([
    ...refer('hash', 'created_at'),
    MARK,
    ...refer('workspace_id', 'name', 'label', 'creator_user_id'),
    sql`case when coalesce(${sql.join(rare)}) is null then null else ${list(rare)} end`,
  ])
}

const refer = (...names: string[]) => names.map(name => sql.ref(name))

const MARK = sql<number>`${sql.lit(NO_MARK)} + disabled + 16 * ${sql.ref('isUnscoped')}
  + case when "limit" is null then 0 else 2 end + case when secret_hash is null then 0 else 4 end
  + case when kind = 'management' then 8 else 0 end + 32 * include_byok_in_limit`

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

/**
 * Refuses a key whose creator was in the workspace a moment ago, and is no more, or whose creator has
 * as many as they may. Those who manage the organization may have any.
 */
const checkBounds = (
  kysely: Kysely<Tables>,
  { workspace_id, creator_user_id }: Key,
  { inWorkspace, most }: MakerBounds,
): Statement =>
  follow(
    kysely
      .selectFrom('members')
      .innerJoin('workspaces', join => join.on('workspaces.id', '=', workspace_id))
      .leftJoin('workspace_members', join =>
        join
          .onRef('workspace_members.workspace_id', '=', 'workspaces.id')
          .onRef('workspace_members.user_id', '=', 'members.id'),
      )
      .select(['members.role', 'workspaces.is_default', 'workspace_members.id'])
      .where('members.id', '=', creator_user_id),
    ([row]) => {
      if (row?.role === 'org:admin') return []
      if (inWorkspace && (!row || (row.is_default === 0 && row.id === null)))
        throw invalid('creator_user_id: expected a member of the workspace', 'creator_user_id')
      return most === undefined ? [] : [checkCount(kysely, creator_user_id, most)]
    },
  )

/** Refuses a key that another one makes which has been deleted, disabled or bound by now. */
const checkMaker = (kysely: Kysely<Tables>, hash: string): Check =>
  check(
    kysely
      .selectFrom('keys')
      .leftJoin('guardrail_keys', 'guardrail_keys.key_hash', 'keys.hash')
      .select('keys.hash')
      .where('keys.hash', '=', hash)
      .where('disabled', '=', 0)
      .where('limit', 'is', null)
      .where('expires_at', 'is', null)
      .where('guardrail_keys.id', 'is', null),
    ([free]) => {
      if (!free) throw denied('The key of this code is bound or gone')
    },
  )

const checkCount = (kysely: Kysely<Tables>, creator: string | null, most: number): Check =>
  check(
    kysely
      .selectFrom('keys')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('creator_user_id', '=', creator)
      .where('kind', '=', 'inference'),
    ([row]) => {
      if (Number(row?.count) >= most) throw denied(`You have ${most} keys: delete one first`)
    },
  )

/** Has the keys of external users judged, where there are so many: they are read one by one. */
function checkNamed(
  kysely: Kysely<Tables>,
  { workspace_id }: Key,
  { most, judge }: NamedBounds,
): FollowUp {
  const named = kysely
    .selectFrom('keys')
    .where('workspace_id', '=', workspace_id)
    .where('external_user', 'is not', null)
  const count = named.select(({ fn }) => fn.countAll<number>().as('count'))
  return follow(count, ([row]) =>
    Number(row?.count) < most ? [] : [check(named.select(['hash', 'external_user']), judge)],
  )
}

/** Judges a key as it is, unless it was deleted. */
const checkKey = (kysely: Kysely<Tables>, hash: string, judge: (now: ChangingKey) => void): Check =>
  check(
    kysely
      .selectFrom('keys')
      .select(['secret_hash', 'limit_reset', 'include_byok_in_limit', 'disabled'])
      .select(sql<string | null>`cast("limit" as text)`.as('limit'))
      .where('hash', '=', hash),
    ([row]) => {
      if (!row) return
      const { limit, include_byok_in_limit, disabled, ...rest } = row
      judge({
        ...{ ...rest, limit: limit === null ? null : BigInt(limit) },
        ...{ include_byok_in_limit: include_byok_in_limit === 1, disabled: disabled === 1 },
      })
    },
  )

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
