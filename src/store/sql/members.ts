import { type Compilable, type Expression, type Kysely, type Selectable, sql } from 'kysely'
import { conflict } from '../../base/errors.ts'
import type { KeyDisabling } from '../../resources/keys/store.ts'
import type {
  Member,
  MemberStore,
  MembershipChange,
  WorkspaceMember,
} from '../../resources/members/store.ts'
import { buildAuditInsert } from './audit.ts'
import { selectTexts } from './json-values.ts'
import { buildSignOut } from './sign-ins.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference, isActive } from './workspaces.ts'
import { type Check, check, type Statement, type Write } from './write.ts'

/** Creates the store of members in SQL. */
export function createMemberStore(kysely: Kysely<Tables>, write: Write): MemberStore {
  return {
    // Two processes may start on an empty directory at once. The first one's member stays.
    insertIfAbsent: member =>
      write(
        kysely
          .insertInto('members')
          .values(toRow(member))
          .onConflict(on => on.doNothing()),
      ),
    async list(offset, limit) {
      const query = kysely.selectFrom('members').selectAll().where('active', '=', 1)
      return (
        await query.orderBy('created_at').orderBy('id').offset(offset).limit(limit).execute()
      ).map(toMember)
    },
    async count() {
      const query = kysely
        .selectFrom('members')
        .select(({ fn }) => fn.countAll<number>().as('count'))
      return (await query.where('active', '=', 1).executeTakeFirstOrThrow()).count
    },
    async listInactive() {
      const query = kysely.selectFrom('members').selectAll().where('active', '=', 0)
      return (await query.orderBy('created_at').orderBy('id').execute()).map(toMember)
    },
    async byIds(ids) {
      const known = kysely.selectFrom('members').selectAll()
      return (await known.where('id', 'in', selectTexts(kysely, ids)).execute()).map(toMember)
    },
    async findActive(email) {
      const query = kysely.selectFrom('members').selectAll().where('active', '=', 1)
      const row = await query.where(sql`lower(email)`, '=', sql`lower(${email})`).executeTakeFirst()
      return row && toMember(row)
    },
    insert: (member, entry) =>
      write(
        ...checkAddressFree(kysely, member.id, member),
        buildMemberInsert(kysely, member),
        buildAuditInsert(kysely, entry),
      ),
    update: (id, change, entry) =>
      write(
        ...checkAddressFree(kysely, id, change),
        buildMemberUpdate(kysely, id, change),
        buildAuditInsert(kysely, entry),
      ),
    deactivate: (id, keys, entry) =>
      write(...buildDeactivation(kysely, id, keys), buildAuditInsert(kysely, entry)),
    listInWorkspace: workspace_id =>
      kysely
        .selectFrom('workspace_members')
        .innerJoin('members', 'members.id', 'workspace_members.user_id')
        .selectAll('workspace_members')
        .where('members.active', '=', 1)
        .where('workspace_id', '=', workspace_id)
        .orderBy('workspace_members.created_at')
        .orderBy('workspace_members.id')
        .execute(),
    async listWorkspacesOf(user_id) {
      const own = kysely
        .selectFrom('workspace_members')
        .select('workspace_id')
        .where('user_id', '=', user_id)
      return (await own.execute()).map(row => row.workspace_id)
    },
    findWorkspaceMember: (workspace_id, user_id) =>
      selectWorkspaceMember(kysely, { workspace_id, user_id }).executeTakeFirst(),
    changeWorkspaceMembers: changes =>
      write(...changes.flatMap(change => buildWorkspaceMemberChange(kysely, change))),
  }
}

// The unique index refuses a duplicate too, but cannot explain it. A member who is reactivated
// without a new address gets their old one back.
function checkAddressFree(
  kysely: Kysely<Tables>,
  id: string,
  { email, active }: Partial<Member>,
): Check[] {
  if (email === undefined && active === undefined) return []
  const own = kysely.selectFrom('members as own').select('own.email').where('own.id', '=', id)
  return [check(selectOthersWithEmail(kysely, id, email ?? own), assertNoMember)]
}

/** Selects the other active members with this e-mail address, ignoring case. */
export const selectOthersWithEmail = (
  kysely: Kysely<Tables>,
  id: string,
  email: string | Expression<unknown>,
) =>
  kysely
    .selectFrom('members')
    .select('id')
    .where('active', '=', 1)
    .where('id', '!=', id)
    .where(sql`lower(email)`, '=', sql`lower(${email})`)

function assertNoMember(members: unknown[]): void {
  if (members.length > 0) throw conflict('A member of the organization has this e-mail address')
}

/** Builds the insert of a new member. */
export const buildMemberInsert = (kysely: Kysely<Tables>, member: Member): Compilable =>
  kysely.insertInto('members').values(toRow(member))

/** Builds the update of a member. */
export const buildMemberUpdate = (
  kysely: Kysely<Tables>,
  id: string,
  { active, ...rest }: Partial<Member>,
): Compilable =>
  kysely
    .updateTable('members')
    .set({ ...rest, ...(active === undefined ? {} : { active: Number(active) }) })
    .where('id', '=', id)

/**
 * Builds the statements that deactivate a member, disable the keys that they created, with the
 * audit entries, and end what they have begun: nothing comes back with them if they return. They
 * throw 409 if the member's active keys are not the expected ones.
 */
export function buildDeactivation(
  kysely: Kysely<Tables>,
  id: string,
  keys: KeyDisabling,
): Statement[] {
  const { hashes, updated_at, entries } = keys
  const activeKeys = kysely
    .selectFrom('keys')
    .select('hash')
    .where('creator_user_id', '=', id)
    .where('disabled', '=', 0)
  return [
    check(activeKeys, rows => assertSameKeys(new Set(hashes), new Set(rows.map(row => row.hash)))),
    kysely
      .updateTable('keys')
      .set({ disabled: 1, updated_at })
      .where('creator_user_id', '=', id)
      .where('disabled', '=', 0),
    buildMemberUpdate(kysely, id, { active: false, updated_at }),
    ...buildSignOut(kysely, id),
    ...entries.map(entry => buildAuditInsert(kysely, entry)),
  ]
}

function assertSameKeys(expected: Set<string>, found: Set<string>): void {
  if (expected.symmetricDifference(found).size > 0) throw keysChanged()
}

const keysChanged = () =>
  conflict('A key of this member was changed at the same moment. Please try again.')

/**
 * Builds the statements that change a workspace membership, with its audit entry. They throw 409 if
 * the membership is no longer as it was before.
 */
function buildWorkspaceMemberChange(
  kysely: Kysely<Tables>,
  { before, after, entry }: MembershipChange,
): Statement[] {
  const auditInsert = buildAuditInsert(kysely, entry)
  if (after)
    return [
      checkWorkspaceReference(kysely, after.workspace_id),
      checkUnchanged(kysely, after, before),
      ...buildWorkspaceMemberUpsert(kysely, after),
      auditInsert,
    ]
  return before
    ? [
        checkUnchanged(kysely, before, before),
        checkNoKeys(kysely, before, entry.created_at),
        buildWorkspaceMemberDelete(kysely, before),
        auditInsert,
      ]
    : []
}

/** Refuses to remove a member who has just got a key there. */
const checkNoKeys = (
  kysely: Kysely<Tables>,
  { workspace_id, user_id }: WorkspaceMemberIds,
  now: string,
): Check =>
  check(
    kysely
      .selectFrom('keys')
      .select('hash')
      .where('workspace_id', '=', workspace_id)
      .where('creator_user_id', '=', user_id)
      .where(isActive(now)),
    ({ length }) => {
      if (length > 0) throw keysChanged()
    },
  )

/** Builds the statement that adds a member to a workspace. An existing membership keeps its id. */
export const buildWorkspaceMemberUpsert = (
  kysely: Kysely<Tables>,
  { role, source, ...member }: WorkspaceMember,
): Statement[] => [
  kysely
    .updateTable('workspace_members')
    .set({ role, source })
    .where('workspace_id', '=', member.workspace_id)
    .where('user_id', '=', member.user_id),
  kysely
    .insertInto('workspace_members')
    .values({ ...member, role, source })
    .onConflict(on => on.columns(['workspace_id', 'user_id']).doNothing()),
]

type WorkspaceMemberIds = Pick<WorkspaceMember, 'workspace_id' | 'user_id'>

/** Builds the statement that removes a member from a workspace. */
export const buildWorkspaceMemberDelete = (
  kysely: Kysely<Tables>,
  { workspace_id, user_id }: WorkspaceMemberIds,
): Compilable =>
  kysely
    .deleteFrom('workspace_members')
    .where('workspace_id', '=', workspace_id)
    .where('user_id', '=', user_id)

const selectWorkspaceMember = (
  kysely: Kysely<Tables>,
  { workspace_id, user_id }: WorkspaceMemberIds,
) =>
  kysely
    .selectFrom('workspace_members')
    .selectAll()
    .where('workspace_id', '=', workspace_id)
    .where('user_id', '=', user_id)

const checkUnchanged = (
  kysely: Kysely<Tables>,
  ids: WorkspaceMemberIds,
  before: WorkspaceMember | null,
): Check =>
  check(selectWorkspaceMember(kysely, ids), ([now]) => {
    if (now?.id !== before?.id || now?.role !== before?.role || now?.source !== before?.source)
      throw conflict()
  })

/** Converts a row to a member. */
export const toMember = (row: Selectable<Tables['members']>): Member => ({
  ...row,
  active: row.active === 1,
})

const toRow = (member: Member) => ({ ...member, active: Number(member.active) })
