import type { Gateway } from '../../src/app/gateway.ts'
import type { Actor } from '../../src/resources/actor.ts'
import type { WorkspaceMember } from '../../src/resources/members/store.ts'
import {
  buildMembershipChange,
  buildWorkspaceMember,
  isMembershipKept,
} from '../../src/resources/workspace-members.ts'

/**
 * Adds a member to a workspace, or changes their role there. A role that an administrator assigned
 * stays when a mapping assigns it too. The caller ensures that member and workspace exist.
 */
export async function setWorkspaceMember(
  gateway: Gateway,
  actor: Actor,
  workspace_id: string,
  user_id: string,
  role: WorkspaceMember['role'],
  source: WorkspaceMember['source'],
): Promise<WorkspaceMember> {
  const before = (await gateway.store.members.findWorkspaceMember(workspace_id, user_id)) ?? null
  if (before && isMembershipKept(before, role, source)) return before
  const after = {
    ...(before ?? buildWorkspaceMember(gateway, workspace_id, user_id)),
    role,
    source,
  }
  await gateway.store.members.changeWorkspaceMembers([
    buildMembershipChange(gateway, actor, before, after),
  ])
  return after
}

/** Removes a member from a workspace, whatever keys they have. Returns whether they were in it. */
export async function removeWorkspaceMember(
  gateway: Gateway,
  actor: Actor,
  workspace_id: string,
  user_id: string,
): Promise<boolean> {
  const before = await gateway.store.members.findWorkspaceMember(workspace_id, user_id)
  if (before)
    await gateway.store.members.changeWorkspaceMembers([
      buildMembershipChange(gateway, actor, before, null),
    ])
  return before !== undefined
}
