import { type Compilable, type Kysely, type Selectable, sql } from 'kysely'
import { notFound } from '../../base/errors.ts'
import { parseObject, readString } from '../../base/json.ts'
import type { Member, WorkspaceMember } from '../../resources/members/store.ts'
import { refused, taken } from '../../resources/scim/refusal.ts'
import type {
  DecideMembership,
  GroupChange,
  GroupMapping,
  GroupMappingStore,
  MemberTransition,
  ScimGroup,
  ScimGroupStore,
  ScimStore,
  ScimTokenStore,
  ScimUser,
  ScimUserStore,
  SyncJobStore,
  UserChange,
} from '../../resources/scim.ts'
import { buildAuditInsert } from './audit.ts'
import { selectTexts } from './json-values.ts'
import {
  buildDeactivation,
  buildMemberInsert,
  buildMemberUpdate,
  buildWorkspaceMemberUpsert,
  selectOthersWithEmail,
  toMember,
} from './members.ts'
import { decideInTransaction, reconcileMemberships } from './scim/memberships.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceExists } from './workspaces.ts'
import {
  type Check,
  check,
  checkFound,
  type FollowUp,
  follow,
  type Statement,
  type Write,
} from './write.ts'

/** Creates the store of what an identity provider has sent, in SQL. */
export const createScimStore = (kysely: Kysely<Tables>, write: Write): ScimStore => ({
  tokens: createScimTokenStore(kysely, write),
  users: createScimUserStore(kysely, write),
  groups: createScimGroupStore(kysely, write),
  mappings: createGroupMappingStore(kysely, write),
  jobs: createSyncJobStore(kysely, write),
})

/** Creates the store of SCIM tokens in SQL. */
const createScimTokenStore = (kysely: Kysely<Tables>, write: Write): ScimTokenStore => ({
  all: () =>
    kysely.selectFrom('scim_tokens').selectAll().orderBy('created_at').orderBy('id').execute(),
  byHash: hash =>
    kysely.selectFrom('scim_tokens').selectAll().where('hash', '=', hash).executeTakeFirst(),
  insert: (token, entry) =>
    write(kysely.insertInto('scim_tokens').values(token), buildAuditInsert(kysely, entry)),
  remove: (id, entry) =>
    write(
      checkFound(kysely.selectFrom('scim_tokens').select('id').where('id', '=', id), 'SCIM token'),
      kysely.deleteFrom('scim_tokens').where('id', '=', id),
      buildAuditInsert(kysely, entry),
    ),
})

/** Creates the store of sync jobs in SQL. */
const createSyncJobStore = (kysely: Kysely<Tables>, write: Write): SyncJobStore => ({
  byId: id =>
    kysely.selectFrom('scim_sync_jobs').selectAll().where('id', '=', id).executeTakeFirst(),
  insert: (job, entry) =>
    write(kysely.insertInto('scim_sync_jobs').values(job), buildAuditInsert(kysely, entry)),
  update: (id, change) =>
    write(
      kysely
        .updateTable('scim_sync_jobs')
        .set(change)
        .where('id', '=', id)
        .where('status', 'in', ['queued', 'running']),
    ),
  async listWorkspaces() {
    const current = kysely
      .selectFrom('workspace_members')
      .select('workspace_id')
      .where('source', '=', 'scim')
    const mapped = kysely.selectFrom('scim_group_mappings').select('workspace_id')
    return (await mapped.union(current).execute()).map(row => row.workspace_id)
  },
  apply: (workspace_id, move) => write(reconcileMemberships(kysely, { workspace_id }, move)),
})

/** Creates the store of group mappings in SQL. */
function createGroupMappingStore(kysely: Kysely<Tables>, write: Write): GroupMappingStore {
  const selectMappings = () => kysely.selectFrom('scim_group_mappings').selectAll()
  return {
    byId: id => selectMappings().where('id', '=', id).executeTakeFirst(),
    listPage: (offset, limit) =>
      selectMappings().orderBy('created_at').orderBy('id').offset(offset).limit(limit).execute(),
    async count() {
      const query = kysely
        .selectFrom('scim_group_mappings')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.executeTakeFirstOrThrow()).count
    },
    insert: (mapping, decide, move) =>
      decideInTransaction(write, keep => [
        checkGroupExists(kysely, mapping),
        checkWorkspaceExists(kysely, mapping.workspace_id),
        follow(
          selectMappings()
            .where('scim_group_id', '=', mapping.scim_group_id)
            .where('workspace_id', '=', mapping.workspace_id),
          ([existing]) => {
            const { entry } = keep(decide(existing))
            const insertion = entry
              ? [
                  kysely.insertInto('scim_group_mappings').values(mapping),
                  buildAuditInsert(kysely, entry),
                ]
              : []
            return [...insertion, reconcileMemberships(kysely, mapping, move)]
          },
        ),
      ]),
    update: (mapping, entry, move) =>
      write(
        checkMappingExists(kysely, mapping),
        kysely.updateTable('scim_group_mappings').set(mapping).where('id', '=', mapping.id),
        buildAuditInsert(kysely, entry),
        reconcileMemberships(kysely, mapping, move),
      ),
    remove: (mapping, entry, move, keep) =>
      write(
        checkMappingExists(kysely, mapping),
        ...(keep ? [buildManualMemberships(kysely, mapping, keep)] : []),
        kysely.deleteFrom('scim_group_mappings').where('id', '=', mapping.id),
        buildAuditInsert(kysely, entry),
        reconcileMemberships(kysely, mapping, move),
      ),
  }
}

const checkGroupExists = (kysely: Kysely<Tables>, { scim_group_id }: GroupMapping): Check =>
  check(
    kysely.selectFrom('scim_groups').select('id').where('id', '=', scim_group_id),
    ([group]) => {
      if (!group) throw notFound('SCIM group not found')
    },
  )

const checkMappingExists = (kysely: Kysely<Tables>, { id }: GroupMapping): Check =>
  check(kysely.selectFrom('scim_group_mappings').select('id').where('id', '=', id), ([mapping]) => {
    if (!mapping) throw notFound('SCIM group mapping not found')
  })

/** Turns the workspace memberships that come from the group into manual ones. */
const buildManualMemberships = (
  kysely: Kysely<Tables>,
  { scim_group_id, workspace_id }: GroupMapping,
  keep: (current: WorkspaceMember) => Parameters<typeof buildAuditInsert>[1],
): FollowUp =>
  follow(
    kysely
      .selectFrom('workspace_members as current')
      .innerJoin('scim_users as user', 'user.user_id', 'current.user_id')
      .innerJoin('scim_group_members as member', 'member.scim_user_id', 'user.id')
      .selectAll('current')
      .where('member.group_id', '=', scim_group_id)
      .where('current.workspace_id', '=', workspace_id)
      .where('current.source', '=', 'scim'),
    rows =>
      rows.flatMap(current => [
        ...buildWorkspaceMemberUpsert(kysely, { ...current, source: 'manual' }),
        buildAuditInsert(kysely, keep(current)),
      ]),
  )

/** Creates the store of SCIM groups in SQL. */
function createScimGroupStore(kysely: Kysely<Tables>, write: Write): ScimGroupStore {
  const selectGroups = () =>
    kysely.selectFrom('scim_groups').selectAll().orderBy('created_at').orderBy('id')
  return {
    async byId(id) {
      const row = await selectGroups().where('id', '=', id).executeTakeFirst()
      return row && toGroup(row)
    },
    find: async lookup =>
      (
        await (lookup
          ? selectGroups().where(COLUMNS[lookup.by], '=', lookup.value)
          : selectGroups()
        ).execute()
      ).map(toGroup),
    listPage: async (offset, limit) =>
      (await selectGroups().offset(offset).limit(limit).execute()).map(toGroup),
    async count() {
      const query = kysely
        .selectFrom('scim_groups')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.executeTakeFirstOrThrow()).count
    },
    async listMembers(ids) {
      const query = kysely
        .selectFrom('scim_group_members')
        .innerJoin('scim_users', 'scim_users.id', 'scim_group_members.scim_user_id')
      const memberships = query
        .select(['group_id', 'scim_user_id', 'resource'])
        .where('group_id', 'in', selectTexts(kysely, ids))
      return (await memberships.orderBy('scim_user_id').execute()).map(row => ({
        ...row,
        resource: parseObject(row.resource) ?? {},
      }))
    },
    insert: (group, members, entry) =>
      write(
        checkUsersExist(kysely, members),
        kysely.insertInto('scim_groups').values(toRow(group)),
        buildMembersInsert(kysely, group.id, members),
        buildAuditInsert(kysely, entry),
      ),
    change: (id, decide, move) =>
      decideInTransaction(write, keep => [
        followGroup(kysely, id, (group, members) =>
          buildGroupChange(kysely, { id, members }, keep(decide(group, members)), move),
        ),
      ]),
  }
}

const COLUMNS = { id: 'id', externalId: 'external_id', name: 'name_key' } as const

const followGroup = (
  kysely: Kysely<Tables>,
  id: string,
  then: (group: ScimGroup, members: string[]) => Statement[],
): FollowUp =>
  follow(kysely.selectFrom('scim_groups').selectAll().where('id', '=', id), ([row]) => {
    if (!row) throw notFound('Group not found')
    return [
      follow(selectMemberIds(kysely, id), members =>
        then(
          toGroup(row),
          members.map(member => member.scim_user_id),
        ),
      ),
    ]
  })

const selectMemberIds = (kysely: Kysely<Tables>, id: string) =>
  kysely.selectFrom('scim_group_members').select('scim_user_id').where('group_id', '=', id)

/** Builds the statements of a change. Memberships are recomputed for members who came or went. */
function buildGroupChange(
  kysely: Kysely<Tables>,
  { id, members: before }: { id: string; members: string[] },
  { group, members, entry }: GroupChange,
  move: DecideMembership,
): Statement[] {
  if (!entry) return []
  const added = subtract(members, before)
  const removed = subtract(before, members)
  const steps = group
    ? [kysely.updateTable('scim_groups').set(toRow(group)).where('id', '=', id)]
    : []
  return [
    checkUsersExist(kysely, added),
    ...steps,
    buildMembersDelete(kysely, id, removed),
    buildMembersInsert(kysely, id, added),
    ...(group ? [] : buildGroupDelete(kysely, id)),
    buildAuditInsert(kysely, entry),
    follow(selectUsers(kysely, [...added, ...removed]), rows => [
      reconcileMemberships(kysely, { user_ids: rows.map(row => row.user_id) }, move),
    ]),
  ]
}

const subtract = (one: string[], other: string[]): string[] => [
  ...new Set(one).difference(new Set(other)),
]

const buildGroupDelete = (kysely: Kysely<Tables>, id: string): Statement[] => [
  kysely.deleteFrom('scim_group_mappings').where('scim_group_id', '=', id),
  kysely.deleteFrom('scim_groups').where('id', '=', id),
]

const selectUsers = (kysely: Kysely<Tables>, ids: string[]) =>
  kysely.selectFrom('scim_users').select('user_id').where('id', 'in', selectTexts(kysely, ids))

const checkUsersExist = (kysely: Kysely<Tables>, ids: string[]): Check =>
  check(selectUsers(kysely, ids), ({ length }) => {
    if (length < ids.length) throw refused('invalidValue', 'members: expected users that exist')
  })

const buildMembersDelete = (kysely: Kysely<Tables>, id: string, members: string[]): Compilable =>
  kysely
    .deleteFrom('scim_group_members')
    .where('group_id', '=', id)
    .where('scim_user_id', 'in', selectTexts(kysely, members))

const buildMembersInsert = (kysely: Kysely<Tables>, id: string, members: string[]): Compilable =>
  kysely
    .insertInto('scim_group_members')
    .columns(['group_id', 'scim_user_id'])
    .expression(
      selectTexts(kysely, members)
        .clearSelect()
        .select([sql.val(id).as('group_id'), 'listed.value']),
    )

const toGroup = ({ name_key: _, ...row }: Selectable<Tables['scim_groups']>): ScimGroup => row

const toRow = (group: ScimGroup) => ({ ...group, name_key: group.display_name.toLowerCase() })

/** Creates the store of SCIM users in SQL. */
function createScimUserStore(kysely: Kysely<Tables>, write: Write): ScimUserStore {
  const selectAllUsers = () =>
    kysely.selectFrom('scim_users').selectAll().orderBy('created_at').orderBy('id')
  return {
    async byId(id) {
      const row = await kysely
        .selectFrom('scim_users')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirst()
      return row && toUser(row)
    },
    async byMember(user_id) {
      const row = await kysely
        .selectFrom('scim_users')
        .selectAll()
        .where('user_id', '=', user_id)
        .executeTakeFirst()
      return row && toUser(row)
    },
    async find(lookup) {
      const all = selectAllUsers()
      return (
        await (lookup ? all.where(COLUMNS[lookup.by], '=', lookup.value) : all).execute()
      ).map(toUser)
    },
    listPage: async (offset, limit) =>
      (await selectAllUsers().offset(offset).limit(limit).execute()).map(toUser),
    async count() {
      const query = kysely
        .selectFrom('scim_users')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.executeTakeFirstOrThrow()).count
    },
    listGroups: ids =>
      kysely
        .selectFrom('scim_group_members')
        .innerJoin('scim_groups', 'scim_groups.id', 'scim_group_members.group_id')
        .select(['scim_user_id', 'group_id', 'display_name'])
        .where('scim_user_id', 'in', selectTexts(kysely, ids))
        .orderBy('name_key')
        .execute(),
    insert: (address, decide) =>
      decideInTransaction(write, keep => [
        follow(selectMembersByAddress(kysely, address), rows => {
          const candidates = rows.map(({ scim_id, ...row }) => ({
            member: toMember(row),
            isProvisioned: scim_id !== null,
          }))
          return buildUserInsert(kysely, keep(decide(candidates)))
        }),
      ]),
    change: (id, decide, move) =>
      decideInTransaction(write, keep => [
        followUser(kysely, id, (user, member) => {
          const change = keep(decide(user, member))
          return change.member.entries.length === 0
            ? []
            : buildUserChange(kysely, user, change, move)
        }),
      ]),
  }
}

/** Selects the members with this address: active ones first, then those who left last. */
const selectMembersByAddress = (kysely: Kysely<Tables>, address: string) =>
  kysely
    .selectFrom('members')
    .leftJoin('scim_users', 'scim_users.user_id', 'members.id')
    .selectAll('members')
    .select('scim_users.id as scim_id')
    .where(sql`lower(email)`, '=', sql`lower(${address})`)
    .orderBy('members.active', 'desc')
    .orderBy('members.updated_at', order => order.desc().nullsLast())

const followUser = (
  kysely: Kysely<Tables>,
  id: string,
  then: (user: ScimUser, member: Member) => Statement[],
) =>
  follow(kysely.selectFrom('scim_users').selectAll().where('id', '=', id), ([row]) => {
    if (!row) throw notFound('User not found')
    const query = kysely.selectFrom('members').selectAll().where('id', '=', row.user_id)
    return [
      follow(query, members => members.flatMap(member => then(toUser(row), toMember(member)))),
    ]
  })

const buildUserInsert = (
  kysely: Kysely<Tables>,
  { user, member }: UserChange<ScimUser>,
): Statement[] => [
  ...buildMemberSteps(kysely, member),
  checkNameFree(kysely, user),
  kysely.insertInto('scim_users').values(toUserRow(user)),
]

function buildUserChange(
  kysely: Kysely<Tables>,
  before: ScimUser,
  { user, member }: UserChange,
  move: DecideMembership,
): Statement[] {
  const steps = buildMemberSteps(kysely, member)
  if (!user)
    return [
      ...steps,
      ...buildUserDelete(kysely, before, member),
      reconcileMemberships(kysely, { user_ids: [before.user_id] }, move),
    ]
  return [
    ...steps,
    checkNameFree(kysely, user),
    kysely.updateTable('scim_users').set(toUserRow(user)).where('id', '=', user.id),
  ]
}

/** Deletes a user, and raises the version of the groups that they were in. */
function buildUserDelete(
  kysely: Kysely<Tables>,
  { id }: ScimUser,
  { entries }: MemberTransition,
): Statement[] {
  const groups = kysely
    .selectFrom('scim_group_members')
    .select('group_id')
    .where('scim_user_id', '=', id)
  const change = kysely
    .updateTable('scim_groups')
    .set(({ eb }) => ({ version: eb('version', '+', 1), ...readUpdateTime(entries) }))
  return [change.where('id', 'in', groups), kysely.deleteFrom('scim_users').where('id', '=', id)]
}

const readUpdateTime = ([entry]: MemberTransition['entries']) =>
  entry ? { updated_at: entry.created_at } : {}

function buildMemberSteps(
  kysely: Kysely<Tables>,
  { before, after, keys, entries }: MemberTransition,
): Statement[] {
  const auditInserts = entries.map(entry => buildAuditInsert(kysely, entry))
  const addressChecks = after.active ? [checkAddressFree(kysely, after)] : []
  if (!before) return [...addressChecks, buildMemberInsert(kysely, after), ...auditInserts]
  const { id, ...change } = after
  const keySteps = keys ? buildDeactivation(kysely, id, keys) : []
  return [...addressChecks, ...keySteps, buildMemberUpdate(kysely, id, change), ...auditInserts]
}

const checkNameFree = (kysely: Kysely<Tables>, user: ScimUser): Check =>
  check(
    kysely
      .selectFrom('scim_users')
      .select('id')
      .where('name_key', '=', computeNameKey(user))
      .where('id', '!=', user.id),
    ([other]) => {
      if (other) throw taken('userName: expected one that no other user has')
    },
  )

const checkAddressFree = (kysely: Kysely<Tables>, { id, email }: Member): Check =>
  check(selectOthersWithEmail(kysely, id, email), ([other]) => {
    if (other) throw taken('emails: expected an address that no other member has')
  })

const computeNameKey = ({ resource }: ScimUser): string =>
  (readString(resource.userName) ?? '').toLowerCase()

function toUser({
  name_key: _,
  external_id: __,
  resource,
  ...row
}: Selectable<Tables['scim_users']>): ScimUser {
  return { ...row, resource: parseObject(resource) ?? {} }
}

const toUserRow = (user: ScimUser) => ({
  ...user,
  resource: JSON.stringify(user.resource),
  name_key: computeNameKey(user),
  external_id: readString(user.resource.externalId),
})
