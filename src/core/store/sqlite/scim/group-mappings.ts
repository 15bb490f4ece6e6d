import type { Kysely } from 'kysely'
import { notFound } from '../../../errors.ts'
import type { WorkspaceMember } from '../../../identity/members/store.ts'
import type { GroupMapping, GroupMappingStore } from '../../../identity/scim/group-mappings.ts'
import { auditInsert } from '../audit.ts'
import { workspaceMemberUpsert } from '../members.ts'
import type { Tables } from '../tables.ts'
import { isThere as workspaceIsThere } from '../workspaces.ts'
import { type Check, type Consequence, check, follow, type Write } from '../write.ts'
import { decided } from './decided.ts'
import { moves } from './memberships.ts'

/** Creates the store of group mappings in SQL. */
export function groupMappingStore(kysely: Kysely<Tables>, write: Write): GroupMappingStore {
  const all = () => kysely.selectFrom('scim_group_mappings').selectAll()
  return {
    byId: id => all().where('id', '=', id).executeTakeFirst(),
    page: (offset, limit) =>
      all().orderBy('created_at').orderBy('id').offset(offset).limit(limit).execute(),
    async count() {
      const query = kysely
        .selectFrom('scim_group_mappings')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.executeTakeFirstOrThrow()).count
    },
    insert: (mapping, decide, move) =>
      decided(write, give => [
        groupIsThere(kysely, mapping),
        workspaceIsThere(kysely, mapping.workspace_id),
        follow(
          all()
            .where('scim_group_id', '=', mapping.scim_group_id)
            .where('workspace_id', '=', mapping.workspace_id),
          ([there]) => {
            const { entry } = give(decide(there))
            const made = entry
              ? [
                  kysely.insertInto('scim_group_mappings').values(mapping),
                  auditInsert(kysely, entry),
                ]
              : []
            return [...made, moves(kysely, mapping, move)]
          },
        ),
      ]),
    update: (mapping, entry, move) =>
      write(
        isThere(kysely, mapping),
        kysely.updateTable('scim_group_mappings').set(mapping).where('id', '=', mapping.id),
        auditInsert(kysely, entry),
        moves(kysely, mapping, move),
      ),
    remove: (mapping, entry, move, keep) =>
      write(
        isThere(kysely, mapping),
        ...(keep ? [left(kysely, mapping, keep)] : []),
        kysely.deleteFrom('scim_group_mappings').where('id', '=', mapping.id),
        auditInsert(kysely, entry),
        moves(kysely, mapping, move),
      ),
  }
}

const groupIsThere = (kysely: Kysely<Tables>, { scim_group_id }: GroupMapping): Check =>
  check(
    kysely.selectFrom('scim_groups').select('id').where('id', '=', scim_group_id),
    ([group]) => {
      if (!group) throw notFound('SCIM group not found')
    },
  )

const isThere = (kysely: Kysely<Tables>, { id }: GroupMapping): Check =>
  check(kysely.selectFrom('scim_group_mappings').select('id').where('id', '=', id), ([mapping]) => {
    if (!mapping) throw notFound('SCIM group mapping not found')
  })

/** Turns the workspace memberships that come from the group into manual ones. */
const left = (
  kysely: Kysely<Tables>,
  { scim_group_id, workspace_id }: GroupMapping,
  keep: (current: WorkspaceMember) => Parameters<typeof auditInsert>[1],
): Consequence =>
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
        workspaceMemberUpsert(kysely, { ...current, source: 'manual' }),
        auditInsert(kysely, keep(current)),
      ]),
  )
