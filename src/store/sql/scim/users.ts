import { type Kysely, type Selectable, sql } from 'kysely'
import { notFound } from '../../../base/errors.ts'
import { parseObject, readString } from '../../../base/json.ts'
import type { Member } from '../../../resources/members/store.ts'
import { taken } from '../../../resources/scim/refusal.ts'
import type {
  DecideMembership,
  MemberTransition,
  ScimUser,
  ScimUserStore,
  UserChange,
} from '../../../resources/scim.ts'
import { buildAuditInsert } from '../audit.ts'
import { selectTexts } from '../json-values.ts'
import {
  buildDeactivation,
  buildMemberInsert,
  buildMemberUpdate,
  selectOthersWithEmail,
  toMember,
} from '../members.ts'
import type { Tables } from '../tables.ts'
import { type Check, check, follow, type Statement, type Write } from '../write.ts'
import { decideInTransaction } from './decide.ts'
import { reconcileMemberships } from './memberships.ts'

/** Creates the store of SCIM users in SQL. */
export function createScimUserStore(kysely: Kysely<Tables>, write: Write): ScimUserStore {
  const selectUsers = () =>
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
      const all = selectUsers()
      return (
        await (lookup ? all.where(COLUMNS[lookup.by], '=', lookup.value) : all).execute()
      ).map(toUser)
    },
    listPage: async (offset, limit) =>
      (await selectUsers().offset(offset).limit(limit).execute()).map(toUser),
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

const COLUMNS = { id: 'id', externalId: 'external_id', name: 'name_key' } as const

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
  kysely.insertInto('scim_users').values(toRow(user)),
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
    kysely.updateTable('scim_users').set(toRow(user)).where('id', '=', user.id),
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

const toRow = (user: ScimUser) => ({
  ...user,
  resource: JSON.stringify(user.resource),
  name_key: computeNameKey(user),
  external_id: readString(user.resource.externalId),
})
