import { type Compilable, type Kysely, type Selectable, sql } from 'kysely'
import { notFound } from '../../../errors.ts'
import type { GroupChange, ScimGroup, ScimGroupStore } from '../../../identity/scim/groups.ts'
import type { DecideMembership } from '../../../identity/scim/memberships.ts'
import { refused } from '../../../identity/scim/refusal.ts'
import { parseObject } from '../../../kernel/json.ts'
import { buildAuditInsert } from '../audit.ts'
import { selectValues } from '../json-values.ts'
import type { Tables } from '../tables.ts'
import { type Check, check, type FollowUp, follow, type Statement, type Write } from '../write.ts'
import { decideInTransaction } from './decide.ts'
import { reconcileMemberships } from './memberships.ts'

/** Creates the store of SCIM groups in SQL. */
export function createScimGroupStore(kysely: Kysely<Tables>, write: Write): ScimGroupStore {
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
        .where('group_id', 'in', selectValues(kysely, ids))
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
  kysely.selectFrom('scim_users').select('user_id').where('id', 'in', selectValues(kysely, ids))

const checkUsersExist = (kysely: Kysely<Tables>, ids: string[]): Check =>
  check(selectUsers(kysely, ids), ({ length }) => {
    if (length < ids.length) throw refused('invalidValue', 'members: expected users that exist')
  })

const buildMembersDelete = (kysely: Kysely<Tables>, id: string, members: string[]): Compilable =>
  kysely
    .deleteFrom('scim_group_members')
    .where('group_id', '=', id)
    .where('scim_user_id', 'in', selectValues(kysely, members))

const buildMembersInsert = (kysely: Kysely<Tables>, id: string, members: string[]): Compilable =>
  kysely
    .insertInto('scim_group_members')
    .columns(['group_id', 'scim_user_id'])
    .expression(
      selectValues(kysely, members)
        .clearSelect()
        .select([sql.val(id).as('group_id'), 'listed.value']),
    )

const toGroup = ({ name_key: _, ...row }: Selectable<Tables['scim_groups']>): ScimGroup => row

const toRow = (group: ScimGroup) => ({ ...group, name_key: group.display_name.toLowerCase() })
