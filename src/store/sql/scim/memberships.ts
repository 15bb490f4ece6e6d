import type { Kysely } from 'kysely'
import { conflict } from '../../../base/errors.ts'
import type { WorkspaceMember } from '../../../resources/members/store.ts'
import type { DecideMembership } from '../../../resources/scim.ts'
import { buildAuditInsert } from '../audit.ts'
import { selectTexts } from '../json-values.ts'
import { buildWorkspaceMemberDelete, buildWorkspaceMemberUpsert } from '../members.ts'
import type { Tables } from '../tables.ts'
import { type FollowUp, follow, type Statement, type Write } from '../write.ts'

/** Which memberships may have changed: those of these members, or those in this workspace. */
type MembershipScope = { user_ids: string[] } | { workspace_id: string }

/**
 * Updates workspace memberships to match groups and mappings, as earlier steps of the transaction
 * have left them. A member has the highest role that a mapping of their groups grants, and leaves
 * the workspace without one. Manual memberships stay as they are.
 */
export const reconcileMemberships = (
  kysely: Kysely<Tables>,
  scope: MembershipScope,
  move: DecideMembership,
): FollowUp =>
  follow(selectDifferences(kysely, scope), rows =>
    rows.flatMap(
      ({ workspace_id, user_id, granted, id, role, created_at, source }): Statement[] => {
        const current =
          id && role && created_at && source
            ? { id, workspace_id, user_id, role, created_at, source }
            : null
        const { after, entry } = move({ workspace_id, user_id, granted, current })
        return [
          ...buildChange(kysely, { workspace_id, user_id }, after),
          buildAuditInsert(kysely, entry),
        ]
      },
    ),
  )

const buildChange = (
  kysely: Kysely<Tables>,
  ids: Pick<WorkspaceMember, 'workspace_id' | 'user_id'>,
  after: WorkspaceMember | null,
): Statement[] =>
  after ? buildWorkspaceMemberUpsert(kysely, after) : [buildWorkspaceMemberDelete(kysely, ids)]

const selectDifferences = (kysely: Kysely<Tables>, scope: MembershipScope) =>
  kysely
    .selectFrom(selectGranted(kysely, scope).as('given'))
    .fullJoin(selectCurrent(kysely, scope).as('current'), on =>
      on
        .onRef('current.workspace_id', '=', 'given.workspace_id')
        .onRef('current.user_id', '=', 'given.user_id'),
    )
    .select(({ fn }) => [
      fn.coalesce('given.workspace_id', 'current.workspace_id').$notNull().as('workspace_id'),
      fn.coalesce('given.user_id', 'current.user_id').$notNull().as('user_id'),
    ])
    .select([
      'given.role as granted',
      'current.id',
      'current.role',
      'current.created_at',
      'current.source',
    ])
    .where(({ or, and, eb, ref }) =>
      or([
        eb('current.id', 'is', null),
        and([
          eb('current.source', '=', 'scim'),
          eb('given.role', 'is distinct from', ref('current.role')),
        ]),
      ]),
    )

// `admin`, the higher of the two roles, also comes first in the alphabet.
function selectGranted(kysely: Kysely<Tables>, scope: MembershipScope) {
  const all = kysely
    .selectFrom('scim_group_mappings as mapping')
    .innerJoin('scim_group_members as member', 'member.group_id', 'mapping.scim_group_id')
    .innerJoin('scim_users as user', 'user.id', 'member.scim_user_id')
    .select(({ fn }) => ['mapping.workspace_id', 'user.user_id', fn.min('mapping.role').as('role')])
    .groupBy(['mapping.workspace_id', 'user.user_id'])
  return 'user_ids' in scope
    ? all.where('user.user_id', 'in', selectTexts(kysely, scope.user_ids))
    : all.where('mapping.workspace_id', '=', scope.workspace_id)
}

function selectCurrent(kysely: Kysely<Tables>, scope: MembershipScope) {
  const all = kysely.selectFrom('workspace_members').selectAll()
  return 'user_ids' in scope
    ? all.where('user_id', 'in', selectTexts(kysely, scope.user_ids))
    : all.where('workspace_id', '=', scope.workspace_id)
}

/**
 * Runs a transaction that makes a decision, and returns it. A retried transaction decides again, so
 * the last decision counts.
 */
export async function decideInTransaction<Decision>(
  write: Write,
  buildSteps: (keep: <D extends Decision>(decision: D) => D) => Statement[],
): Promise<Decision> {
  const last: Decision[] = []
  const keep = <D extends Decision>(decision: D): D => {
    last[0] = decision
    return decision
  }
  await write(...buildSteps(keep))
  const [decision] = last
  if (decision === undefined) throw conflict()
  return decision
}
