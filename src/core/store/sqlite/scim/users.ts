import { type Kysely, type Selectable, sql } from 'kysely'
import { notFound } from '../../../errors.ts'
import type { Member } from '../../../identity/members/store.ts'
import type { Mover } from '../../../identity/scim/memberships.ts'
import { taken } from '../../../identity/scim/refusal.ts'
import type {
  MemberChange,
  ScimUser,
  ScimUserStore,
  UserChange,
} from '../../../identity/scim/users/store.ts'
import { parseObject, text } from '../../../kernel/json.ts'
import { auditInsert } from '../audit.ts'
import { listed } from '../listed.ts'
import { deactivation, memberInsert, memberOf, memberUpdate, othersAt } from '../members.ts'
import type { Tables } from '../tables.ts'
import { type Check, check, follow, type Statement, type Write } from '../write.ts'
import { decided } from './decided.ts'
import { moves } from './memberships.ts'

/** Creates the store of SCIM users in SQL. */
export function scimUserStore(kysely: Kysely<Tables>, write: Write): ScimUserStore {
  return {
    async byId(id) {
      const row = await kysely
        .selectFrom('scim_users')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirst()
      return row && userOf(row)
    },
    async find(known) {
      const all = kysely.selectFrom('scim_users').selectAll().orderBy('created_at').orderBy('id')
      return (await (known ? all.where(COLUMNS[known.by], '=', known.value) : all).execute()).map(
        userOf,
      )
    },
    groupsOf: ids =>
      kysely
        .selectFrom('scim_group_members')
        .innerJoin('scim_groups', 'scim_groups.id', 'scim_group_members.group_id')
        .select(['scim_user_id', 'group_id', 'display_name'])
        .where('scim_user_id', 'in', listed(kysely, ids))
        .orderBy('name_key')
        .execute(),
    insert: (address, decide) =>
      decided(write, give => [
        follow(namesakes(kysely, address), rows => {
          const found = rows.map(({ scim_id, ...row }) => ({
            member: memberOf(row),
            isKnown: scim_id !== null,
          }))
          return insertion(kysely, give(decide(found)))
        }),
      ]),
    change: (id, decide, move) =>
      decided(write, give => [
        withUser(kysely, id, (user, member) => {
          const change = give(decide(user, member))
          return change.member.entries.length === 0 ? [] : succession(kysely, user, change, move)
        }),
      ]),
  }
}

const COLUMNS = { id: 'id', externalId: 'external_id', name: 'name_key' } as const

/** Selects the members with this address: active ones first, then those who left last. */
const namesakes = (kysely: Kysely<Tables>, address: string) =>
  kysely
    .selectFrom('members')
    .leftJoin('scim_users', 'scim_users.user_id', 'members.id')
    .selectAll('members')
    .select('scim_users.id as scim_id')
    .where(sql`lower(email)`, '=', sql`lower(${address})`)
    .orderBy('members.active', 'desc')
    .orderBy('members.updated_at', 'desc')

const withUser = (
  kysely: Kysely<Tables>,
  id: string,
  then: (user: ScimUser, member: Member) => Statement[],
) =>
  follow(kysely.selectFrom('scim_users').selectAll().where('id', '=', id), ([row]) => {
    if (!row) throw notFound('User not found')
    const query = kysely.selectFrom('members').selectAll().where('id', '=', row.user_id)
    return [
      follow(query, members => members.flatMap(member => then(userOf(row), memberOf(member)))),
    ]
  })

const insertion = (kysely: Kysely<Tables>, { user, member }: UserChange<ScimUser>): Statement[] => [
  ...memberSteps(kysely, member),
  hasFreeName(kysely, user),
  kysely.insertInto('scim_users').values(rowOf(user)),
]

function succession(
  kysely: Kysely<Tables>,
  before: ScimUser,
  { user, member }: UserChange,
  move: Mover,
): Statement[] {
  const steps = memberSteps(kysely, member)
  if (!user)
    return [
      ...steps,
      ...departure(kysely, before, member),
      moves(kysely, { user_ids: [before.user_id] }, move),
    ]
  return [
    ...steps,
    hasFreeName(kysely, user),
    kysely.updateTable('scim_users').set(rowOf(user)).where('id', '=', user.id),
  ]
}

/** Deletes a user, and raises the version of the groups that they were in. */
function departure(
  kysely: Kysely<Tables>,
  { id }: ScimUser,
  { entries }: MemberChange,
): Statement[] {
  const groups = kysely
    .selectFrom('scim_group_members')
    .select('group_id')
    .where('scim_user_id', '=', id)
  const change = kysely
    .updateTable('scim_groups')
    .set(({ eb }) => ({ version: eb('version', '+', 1), ...timeOf(entries) }))
  return [change.where('id', 'in', groups), kysely.deleteFrom('scim_users').where('id', '=', id)]
}

const timeOf = ([entry]: MemberChange['entries']) => (entry ? { updated_at: entry.created_at } : {})

function memberSteps(
  kysely: Kysely<Tables>,
  { before, after, keys, entries }: MemberChange,
): Statement[] {
  const told = entries.map(entry => auditInsert(kysely, entry))
  const free = after.active ? [hasFreeAddress(kysely, after)] : []
  if (!before) return [...free, memberInsert(kysely, after), ...told]
  const { id, ...change } = after
  const keysToo = keys ? deactivation(kysely, id, keys) : []
  return [...free, ...keysToo, memberUpdate(kysely, id, change), ...told]
}

const hasFreeName = (kysely: Kysely<Tables>, user: ScimUser): Check =>
  check(
    kysely
      .selectFrom('scim_users')
      .select('id')
      .where('name_key', '=', nameKey(user))
      .where('id', '!=', user.id),
    ([other]) => {
      if (other) throw taken('userName: expected one that no other user has')
    },
  )

const hasFreeAddress = (kysely: Kysely<Tables>, { id, email }: Member): Check =>
  check(othersAt(kysely, id, email), ([other]) => {
    if (other) throw taken('emails: expected an address that no other member has')
  })

const nameKey = ({ resource }: ScimUser): string => (text(resource.userName) ?? '').toLowerCase()

function userOf({
  name_key: _,
  external_id: __,
  resource,
  ...row
}: Selectable<Tables['scim_users']>): ScimUser {
  return { ...row, resource: parseObject(resource) ?? {} }
}

const rowOf = (user: ScimUser) => ({
  ...user,
  resource: JSON.stringify(user.resource),
  name_key: nameKey(user),
  external_id: text(user.resource.externalId),
})
