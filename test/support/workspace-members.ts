import type { Gateway } from '../../src/core/gateway.ts'
import type { Actor } from '../../src/core/identity/actor.ts'
import type { WorkspaceMember } from '../../src/core/identity/members/store.ts'
import {
  isKept,
  membership,
  newWorkspaceMember,
} from '../../src/core/identity/workspace-members.ts'

/**
 * Puts a member into a workspace, or changes his role there. What an administrator has given stays as it is when a mapping gives it too.
 * Whether the two exist is for the caller to know.
 */
export async function setWorkspaceMember(
  gateway: Gateway,
  actor: Actor,
  workspace_id: string,
  user_id: string,
  role: WorkspaceMember['role'],
  source: WorkspaceMember['source'],
): Promise<WorkspaceMember> {
  const before = (await gateway.store.members.workspaceMember(workspace_id, user_id)) ?? null
  if (before && isKept(before, role, source)) return before
  const after = { ...(before ?? newWorkspaceMember(gateway, workspace_id, user_id)), role, source }
  await gateway.store.members.changeWorkspaceMembers([membership(gateway, actor, before, after)])
  return after
}

/** Takes a member out of a workspace, whatever keys he has there, and says whether he was in it. */
export async function removeWorkspaceMember(
  gateway: Gateway,
  actor: Actor,
  workspace_id: string,
  user_id: string,
): Promise<boolean> {
  const before = await gateway.store.members.workspaceMember(workspace_id, user_id)
  if (before)
    await gateway.store.members.changeWorkspaceMembers([membership(gateway, actor, before, null)])
  return before !== undefined
}
