import { type Compilable, type Expression, type Kysely, type Selectable, sql } from 'kysely'
import { conflict } from '../../errors.ts'
import type { Disabling } from '../../identity/keys/store.ts'
import type {
  Member,
  MemberStore,
  Membership,
  WorkspaceMember,
} from '../../identity/members/store.ts'
import { auditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { isLive } from './workspaces.ts'
import { type Check, check, type Statement, type Write } from './write.ts'

/** Creates the store of members in SQL. */
export function memberStore(kysely: Kysely<Tables>, write: Write): MemberStore {
  return {
    // Two processes may start on an empty directory at once. The first one's member stays.
    async first(member) {
      await kysely
        .insertInto('members')
        .values(rowOf(member))
        .onConflict(on => on.doNothing())
        .execute()
    },
    async list(offset, limit) {
      const query = kysely.selectFrom('members').selectAll().where('active', '=', 1)
      return (
        await query.orderBy('created_at').orderBy('id').offset(offset).limit(limit).execute()
      ).map(memberOf)
    },
    async count() {
      const query = kysely
        .selectFrom('members')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.where('active', '=', 1).executeTakeFirstOrThrow()).count
    },
    byIds: async ids =>
      (await kysely.selectFrom('members').selectAll().where('id', 'in', ids).execute()).map(
        memberOf,
      ),
    insert: (member, entry) =>
      write(
        ...isAddressFree(kysely, member.id, member),
        memberInsert(kysely, member),
        auditInsert(kysely, entry),
      ),
    update: (id, change, entry) =>
      write(
        ...isAddressFree(kysely, id, change),
        memberUpdate(kysely, id, change),
        auditInsert(kysely, entry),
      ),
    deactivate: (id, keys, entry) =>
      write(...deactivation(kysely, id, keys), auditInsert(kysely, entry)),
    inWorkspace: workspace_id =>
      kysely
        .selectFrom('workspace_members')
        .innerJoin('members', 'members.id', 'workspace_members.user_id')
        .selectAll('workspace_members')
        .where('members.active', '=', 1)
        .where('workspace_id', '=', workspace_id)
        .orderBy('workspace_members.created_at')
        .orderBy('workspace_members.id')
        .execute(),
    workspaceMember: (workspace_id, user_id) =>
      membership(kysely, { workspace_id, user_id }).executeTakeFirst(),
    changeWorkspaceMembers: changes =>
      write(...changes.flatMap(change => workspaceMemberChange(kysely, change))),
  }
}

// The unique index refuses a duplicate too, but cannot explain it. A member who is reactivated
// without a new address gets their old one back.
function isAddressFree(
  kysely: Kysely<Tables>,
  id: string,
  { email, active }: Partial<Member>,
): Check[] {
  if (email === undefined && active === undefined) return []
  const own = kysely.selectFrom('members as own').select('own.email').where('own.id', '=', id)
  return [check(othersAt(kysely, id, email ?? own), noneOrConflict)]
}

/** Selects the other active members with this e-mail address, ignoring case. */
export const othersAt = (kysely: Kysely<Tables>, id: string, email: string | Expression<unknown>) =>
  kysely
    .selectFrom('members')
    .select('id')
    .where('active', '=', 1)
    .where('id', '!=', id)
    .where(sql`lower(email)`, '=', sql`lower(${email})`)

function noneOrConflict(members: unknown[]): void {
  if (members.length > 0) throw conflict('A member of the organization has this e-mail address')
}

/** Builds the insert of a new member. */
export const memberInsert = (kysely: Kysely<Tables>, member: Member): Compilable =>
  kysely.insertInto('members').values(rowOf(member))

/** Builds the update of a member. */
export const memberUpdate = (
  kysely: Kysely<Tables>,
  id: string,
  { active, ...rest }: Partial<Member>,
): Compilable =>
  kysely
    .updateTable('members')
    .set({ ...rest, ...(active === undefined ? {} : { active: Number(active) }) })
    .where('id', '=', id)

/**
 * Builds the statements that deactivate a member and disable the keys that they created, with the
 * audit entries. They throw 409 if the member's active keys are not the expected ones.
 */
export function deactivation(kysely: Kysely<Tables>, id: string, keys: Disabling): Statement[] {
  const { hashes, updated_at, entries } = keys
  const open = kysely
    .selectFrom('keys')
    .select('hash')
    .where('creator_user_id', '=', id)
    .where('disabled', '=', 0)
  return [
    check(open, rows => sameOrConflict(new Set(hashes), new Set(rows.map(row => row.hash)))),
    kysely
      .updateTable('keys')
      .set({ disabled: 1, updated_at })
      .where('creator_user_id', '=', id)
      .where('disabled', '=', 0),
    memberUpdate(kysely, id, { active: false, updated_at }),
    ...entries.map(entry => auditInsert(kysely, entry)),
  ]
}

function sameOrConflict(expected: Set<string>, found: Set<string>): void {
  if (expected.symmetricDifference(found).size > 0)
    throw conflict('A key of this member was changed at the same moment. Please try again.')
}

/**
 * Builds the statements that change a workspace membership, with its audit entry. They throw 409 if
 * the membership is no longer as it was before.
 */
function workspaceMemberChange(
  kysely: Kysely<Tables>,
  { before, after, entry }: Membership,
): Statement[] {
  const told = auditInsert(kysely, entry)
  if (after)
    return [
      isLive(kysely, after.workspace_id),
      isStill(kysely, after, before),
      workspaceMemberUpsert(kysely, after),
      told,
    ]
  return before
    ? [isStill(kysely, before, before), workspaceMemberDelete(kysely, before), told]
    : []
}

/** Builds the statement that adds a member to a workspace. An existing membership keeps its id. */
export const workspaceMemberUpsert = (
  kysely: Kysely<Tables>,
  { role, source, ...member }: WorkspaceMember,
): Compilable =>
  kysely
    .insertInto('workspace_members')
    .values({ ...member, role, source })
    .onConflict(on => on.columns(['workspace_id', 'user_id']).doUpdateSet({ role, source }))

type Place = Pick<WorkspaceMember, 'workspace_id' | 'user_id'>

/** Builds the statement that removes a member from a workspace. */
export const workspaceMemberDelete = (
  kysely: Kysely<Tables>,
  { workspace_id, user_id }: Place,
): Compilable =>
  kysely
    .deleteFrom('workspace_members')
    .where('workspace_id', '=', workspace_id)
    .where('user_id', '=', user_id)

const membership = (kysely: Kysely<Tables>, { workspace_id, user_id }: Place) =>
  kysely
    .selectFrom('workspace_members')
    .selectAll()
    .where('workspace_id', '=', workspace_id)
    .where('user_id', '=', user_id)

const isStill = (kysely: Kysely<Tables>, place: Place, before: WorkspaceMember | null): Check =>
  check(membership(kysely, place), ([now]) => {
    if (now?.id !== before?.id || now?.role !== before?.role || now?.source !== before?.source)
      throw conflict()
  })

/** Converts a row to a member. */
export const memberOf = (row: Selectable<Tables['members']>): Member => ({
  ...row,
  active: row.active === 1,
})

const rowOf = (member: Member) => ({ ...member, active: Number(member.active) })
