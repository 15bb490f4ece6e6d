import type { WorkspaceMember } from '../../../../src/core/identity/members/store.ts'
import type { Mover } from '../../../../src/core/identity/scim/memberships.ts'
import { addAudit } from '../audit.ts'
import { putIntoWorkspace, takeOutOfWorkspace } from '../members.ts'
import type { Memory } from '../memory.ts'

/** Where memberships may have changed: those of these members, or those in this workspace. */
export type Scope = { user_ids: string[] } | { workspace_id: string }

type Place = Pick<WorkspaceMember, 'workspace_id' | 'user_id'>

const isIn = (scope: Scope, { workspace_id, user_id }: Place) =>
  'user_ids' in scope ? scope.user_ids.includes(user_id) : scope.workspace_id === workspace_id

const nameOf = ({ workspace_id, user_id }: Place) => JSON.stringify([workspace_id, user_id])

/**
 * Moves everybody to where their groups' mappings put them: they have the highest role of those, and
 * who has none is out. Who was put somewhere by hand is left alone.
 */
export function applyMoves(memory: Memory, scope: Scope, move: Mover): void {
  const granted = grantedIn(memory, scope)
  const current = new Map(
    memory.workspaceMembers.all(one => isIn(scope, one)).map(one => [nameOf(one), one]),
  )
  for (const name of new Set([...granted.keys(), ...current.keys()])) {
    const [now = null, role = null] = [current.get(name), granted.get(name)]
    if (now && (now.source === 'manual' || now.role === role)) continue
    const [workspace_id, user_id] = JSON.parse(name) as [string, string]
    const { after, entry } = move({ workspace_id, user_id, granted: role, current: now })
    if (after) putIntoWorkspace(memory, after)
    else takeOutOfWorkspace(memory, { workspace_id, user_id })
    addAudit(memory, entry)
  }
}

function grantedIn(memory: Memory, scope: Scope): Map<string, WorkspaceMember['role']> {
  const granted = new Map<string, WorkspaceMember['role']>()
  for (const { scim_group_id, workspace_id, role } of memory.scimMappings.all())
    for (const user_id of findMembersOf(memory, scim_group_id)) {
      const name = nameOf({ workspace_id, user_id })
      if (isIn(scope, { workspace_id, user_id }) && granted.get(name) !== 'admin')
        granted.set(name, role)
    }
  return granted
}

/** Finds who is in a group, by the ids of the members that its users are. */
export const findMembersOf = (memory: Memory, group_id: string): string[] =>
  memory.scimGroupMembers
    .all(one => one.group_id === group_id)
    .flatMap(({ scim_user_id }) => memory.scimUsers.get(scim_user_id)?.user_id ?? [])
