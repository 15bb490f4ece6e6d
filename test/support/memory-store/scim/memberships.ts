import type { WorkspaceMember } from '../../../../src/resources/members/store.ts'
import type { DecideMembership } from '../../../../src/resources/scim.ts'
import { addAudit } from '../audit.ts'
import { putIntoWorkspace, takeOutOfWorkspace } from '../members.ts'
import type { Memory } from '../memory.ts'

/** The memberships that may change: those of these users, or those in this workspace. */
export type Scope = { user_ids: string[] } | { workspace_id: string }

type Place = Pick<WorkspaceMember, 'workspace_id' | 'user_id'>

const isWithinScope = (scope: Scope, { workspace_id, user_id }: Place) =>
  'user_ids' in scope ? scope.user_ids.includes(user_id) : scope.workspace_id === workspace_id

const renderPlaceKey = ({ workspace_id, user_id }: Place) => JSON.stringify([workspace_id, user_id])

/**
 * Applies the mappings of groups to memberships: a user gets the highest role of their groups, and
 * loses a membership without one. Memberships that were added manually are left unchanged.
 */
export function applyMoves(memory: Memory, scope: Scope, move: DecideMembership): void {
  const granted = listGrantedRoles(memory, scope)
  const current = new Map(
    memory.workspaceMembers
      .all(one => isWithinScope(scope, one))
      .map(one => [renderPlaceKey(one), one]),
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

function listGrantedRoles(memory: Memory, scope: Scope): Map<string, WorkspaceMember['role']> {
  const granted = new Map<string, WorkspaceMember['role']>()
  for (const { scim_group_id, workspace_id, role } of memory.scimMappings.all())
    for (const user_id of listGroupMembers(memory, scim_group_id)) {
      const name = renderPlaceKey({ workspace_id, user_id })
      if (isWithinScope(scope, { workspace_id, user_id }) && granted.get(name) !== 'admin')
        granted.set(name, role)
    }
  return granted
}

/** Lists the members of a group by the ids of their users. */
export const listGroupMembers = (memory: Memory, group_id: string): string[] =>
  memory.scimGroupMembers
    .all(one => one.group_id === group_id)
    .flatMap(({ scim_user_id }) => memory.scimUsers.get(scim_user_id)?.user_id ?? [])
