import { conflict } from '../../../src/base/errors.ts'
import type { KeyDisabling } from '../../../src/resources/keys/store.ts'
import type {
  Member,
  MemberStore,
  MembershipChange,
  WorkspaceMember,
} from '../../../src/resources/members/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection, Memory } from './memory.ts'
import { changedConcurrently, compareByFields, toAsciiLowerCase } from './table.ts'
import { disable } from './workspaces.ts'

/** Members in memory. */
export const createMemoryMemberStore = (connection: Connection): MemberStore => ({
  insertIfAbsent: member =>
    connection.write(memory => {
      const isThere = memory.members.has(member.id)
      if (!isThere && findMembersWithAddress(memory, member).length === 0)
        memory.members.insert(member.id, member)
    }),
  list: (offset, limit) =>
    connection.read(({ members }) =>
      members
        .all(({ active }) => active)
        .sort(compareByFields('created_at', 'id'))
        .slice(offset, offset + limit),
    ),
  count: () => connection.read(({ members }) => members.all(({ active }) => active).length),
  listInactive: () =>
    connection.read(({ members }) =>
      members.all(({ active }) => !active).sort(compareByFields('created_at', 'id')),
    ),
  byIds: ids => connection.read(({ members }) => members.all(({ id }) => ids.includes(id))),
  findActive: email =>
    connection.read(
      ({ members }) =>
        members.all(
          one => one.active && toAsciiLowerCase(one.email) === toAsciiLowerCase(email),
        )[0],
    ),
  insert: (member, entry) =>
    connection.write(memory => {
      mustHaveFreeAddress(memory, member)
      memory.members.insert(member.id, member)
      addAudit(memory, entry)
    }),
  update: (id, change, entry) =>
    connection.write(memory => {
      const { email = memory.members.get(id)?.email, active } = change
      const isLookedAt = change.email !== undefined || active !== undefined
      if (isLookedAt && email !== undefined) mustHaveFreeAddress(memory, { id, email })
      memory.members.update(id, change)
      addAudit(memory, entry)
    }),
  deactivate: (id, keys, entry) =>
    connection.write(memory => {
      deactivateMember(memory, id, keys)
      addAudit(memory, entry)
    }),
  listInWorkspace: workspace_id =>
    connection.read(({ members, workspaceMembers }) =>
      workspaceMembers
        .all(one => one.workspace_id === workspace_id && members.get(one.user_id)?.active === true)
        .sort(compareByFields('created_at', 'id')),
    ),
  findWorkspaceMember: (workspace_id, user_id) =>
    connection.read(memory => findWorkspaceMember(memory, { workspace_id, user_id })),
  changeWorkspaceMembers: changes =>
    connection.write(memory => {
      for (const change of changes) changeWorkspaceMember(memory, change)
    }),
})

type Addressed = Pick<Member, 'id' | 'email'>

/** Finds the other active members with the email address, in any case. */
export const findMembersWithAddress = ({ members }: Memory, { id, email }: Addressed): Member[] =>
  members.all(
    one => one.active && one.id !== id && toAsciiLowerCase(one.email) === toAsciiLowerCase(email),
  )

function mustHaveFreeAddress(memory: Memory, member: Addressed): void {
  if (findMembersWithAddress(memory, member).length > 0)
    throw conflict('A member of the organization has this e-mail address')
}

/** Deactivates a member and disables the keys that they made. Throws 409 if there are others. */
export function deactivateMember(memory: Memory, id: string, keys: KeyDisabling): void {
  const own = memory.keys.all(key => key.creator_user_id === id && !key.disabled)
  disable(memory, own, keys, () =>
    conflict('A key of this member was changed at the same moment. Please try again.'),
  )
  memory.members.update(id, { active: false, updated_at: keys.updated_at })
}

type Place = Pick<WorkspaceMember, 'workspace_id' | 'user_id'>

/** Finds the membership of a user in a workspace. */
export function findWorkspaceMember(
  { workspaceMembers }: Memory,
  { workspace_id, user_id }: Place,
): WorkspaceMember | undefined {
  return workspaceMembers.all(
    one => one.workspace_id === workspace_id && one.user_id === user_id,
  )[0]
}

function changeWorkspaceMember(memory: Memory, { before, after, entry }: MembershipChange): void {
  const place = after ?? before
  if (!place) return
  if (after) mustBeLive(memory, after.workspace_id)
  const now = findWorkspaceMember(memory, place)
  if (now?.id !== before?.id || now?.role !== before?.role || now?.source !== before?.source)
    throw conflict()
  if (after) putIntoWorkspace(memory, after)
  else takeOutOfWorkspace(memory, place)
  addAudit(memory, entry)
}

/** Adds a member to a workspace. An existing membership keeps its id. */
export function putIntoWorkspace(memory: Memory, member: WorkspaceMember): void {
  const { members, workspaces, workspaceMembers } = memory
  if (!members.has(member.user_id) || !workspaces.has(member.workspace_id))
    throw changedConcurrently()
  const now = findWorkspaceMember(memory, member)
  if (now) workspaceMembers.update(now.id, { role: member.role, source: member.source })
  else workspaceMembers.insert(member.id, member)
}

/** Removes a member from a workspace. */
export function takeOutOfWorkspace(memory: Memory, place: Place): void {
  const now = findWorkspaceMember(memory, place)
  if (now) memory.workspaceMembers.remove(now.id)
}
