import type { Kysely } from 'kysely'
import { notFound } from '../../../errors.ts'
import type { WorkspaceMember } from '../../../identity/members/store.ts'
import type { GroupMapping, GroupMappingStore } from '../../../identity/scim/group-mappings.ts'
import { buildAuditInsert } from '../audit.ts'
import { buildWorkspaceMemberUpsert } from '../members.ts'
import type { Tables } from '../tables.ts'
import { checkWorkspaceExists } from '../workspaces.ts'
import { type Check, check, type FollowUp, follow, type Write } from '../write.ts'
import { decideInTransaction } from './decide.ts'
import { reconcileMemberships } from './memberships.ts'

/** Creates the store of group mappings in SQL. */
export function createGroupMappingStore(kysely: Kysely<Tables>, write: Write): GroupMappingStore {
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
        buildWorkspaceMemberUpsert(kysely, { ...current, source: 'manual' }),
        buildAuditInsert(kysely, keep(current)),
      ]),
  )
