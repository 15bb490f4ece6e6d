import { type Compilable, type Kysely, type Selectable, sql } from 'kysely'
import { notFound } from '../../../errors.ts'
import type { GroupChange, ScimGroup, ScimGroupStore } from '../../../identity/scim/groups.ts'
import type { Mover } from '../../../identity/scim/memberships.ts'
import { refused } from '../../../identity/scim/refusal.ts'
import { parseObject } from '../../../kernel/json.ts'
import { auditInsert } from '../audit.ts'
import { listed } from '../listed.ts'
import type { Tables } from '../tables.ts'
import {
  type Check,
  type Consequence,
  check,
  follow,
  type Statement,
  type Write,
} from '../write.ts'
import { decided } from './decided.ts'
import { moves } from './memberships.ts'

/** Creates the store of SCIM groups in SQL. */
export function scimGroupStore(kysely: Kysely<Tables>, write: Write): ScimGroupStore {
  const all = () => kysely.selectFrom('scim_groups').selectAll().orderBy('created_at').orderBy('id')
  return {
    async byId(id) {
      const row = await all().where('id', '=', id).executeTakeFirst()
      return row && groupOf(row)
    },
    find: async known =>
      (await (known ? all().where(COLUMNS[known.by], '=', known.value) : all()).execute()).map(
        groupOf,
      ),
    page: async (offset, limit) => (await all().offset(offset).limit(limit).execute()).map(groupOf),
    async count() {
      const query = kysely
        .selectFrom('scim_groups')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.executeTakeFirstOrThrow()).count
    },
    async membersOf(ids) {
      const query = kysely
        .selectFrom('scim_group_members')
        .innerJoin('scim_users', 'scim_users.id', 'scim_group_members.scim_user_id')
      const wanted = query
        .select(['group_id', 'scim_user_id', 'resource'])
        .where('group_id', 'in', listed(kysely, ids))
      return (await wanted.orderBy('scim_user_id').execute()).map(row => ({
        ...row,
        resource: parseObject(row.resource) ?? {},
      }))
    },
    insert: (group, members, entry) =>
      write(
        areUsers(kysely, members),
        kysely.insertInto('scim_groups').values(rowOf(group)),
        membersInsert(kysely, group.id, members),
        auditInsert(kysely, entry),
      ),
    change: (id, decide, move) =>
      decided(write, give => [
        withGroup(kysely, id, (group, members) =>
          succession(kysely, { id, members }, give(decide(group, members)), move),
        ),
      ]),
  }
}

const COLUMNS = { id: 'id', externalId: 'external_id', name: 'name_key' } as const

const withGroup = (
  kysely: Kysely<Tables>,
  id: string,
  then: (group: ScimGroup, members: string[]) => Statement[],
): Consequence =>
  follow(kysely.selectFrom('scim_groups').selectAll().where('id', '=', id), ([row]) => {
    if (!row) throw notFound('Group not found')
    return [
      follow(membersIn(kysely, id), members =>
        then(
          groupOf(row),
          members.map(one => one.scim_user_id),
        ),
      ),
    ]
  })

const membersIn = (kysely: Kysely<Tables>, id: string) =>
  kysely.selectFrom('scim_group_members').select('scim_user_id').where('group_id', '=', id)

/** Builds the statements of a change. Memberships are recomputed for members who came or went. */
function succession(
  kysely: Kysely<Tables>,
  { id, members: before }: { id: string; members: string[] },
  { group, members, entry }: GroupChange,
  move: Mover,
): Statement[] {
  if (!entry) return []
  const came = without(members, before)
  const went = without(before, members)
  const steps = group
    ? [kysely.updateTable('scim_groups').set(rowOf(group)).where('id', '=', id)]
    : []
  return [
    areUsers(kysely, came),
    ...steps,
    membersDelete(kysely, id, went),
    membersInsert(kysely, id, came),
    ...(group ? [] : goodbye(kysely, id)),
    auditInsert(kysely, entry),
    follow(membersOf(kysely, [...came, ...went]), rows => [
      moves(kysely, { user_ids: rows.map(row => row.user_id) }, move),
    ]),
  ]
}

const without = (one: string[], other: string[]): string[] => [
  ...new Set(one).difference(new Set(other)),
]

const goodbye = (kysely: Kysely<Tables>, id: string): Statement[] => [
  kysely.deleteFrom('scim_group_mappings').where('scim_group_id', '=', id),
  kysely.deleteFrom('scim_groups').where('id', '=', id),
]

const membersOf = (kysely: Kysely<Tables>, ids: string[]) =>
  kysely.selectFrom('scim_users').select('user_id').where('id', 'in', listed(kysely, ids))

const areUsers = (kysely: Kysely<Tables>, ids: string[]): Check =>
  check(membersOf(kysely, ids), ({ length }) => {
    if (length < ids.length) throw refused('invalidValue', 'members: expected users that exist')
  })

const membersDelete = (kysely: Kysely<Tables>, id: string, members: string[]): Compilable =>
  kysely
    .deleteFrom('scim_group_members')
    .where('group_id', '=', id)
    .where('scim_user_id', 'in', listed(kysely, members))

const membersInsert = (kysely: Kysely<Tables>, id: string, members: string[]): Compilable =>
  kysely
    .insertInto('scim_group_members')
    .columns(['group_id', 'scim_user_id'])
    .expression(
      listed(kysely, members)
        .clearSelect()
        .select([sql.val(id).as('group_id'), 'listed.value']),
    )

const groupOf = ({ name_key: _, ...row }: Selectable<Tables['scim_groups']>): ScimGroup => row

const rowOf = (group: ScimGroup) => ({ ...group, name_key: group.display_name.toLowerCase() })
