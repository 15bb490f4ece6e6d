import { denied, invalid, requireFound } from '../base/errors.ts'
import type { Actor } from './actor.ts'
import type { Member } from './members/store.ts'
import type { Workspace } from './workspaces/store.ts'
import type { IdentityWorld } from './world.ts'

/**
 * Whether the actor may manage this workspace. The operator and management keys of the default
 * workspace manage all of them; a key of another workspace manages only that one.
 */
export const canManage = (
  world: IdentityWorld,
  actor: Actor,
  workspace_id: string | null,
): boolean =>
  canManageAll(world, actor) || (actor.kind !== 'member' && actor.workspace_id === workspace_id)

/** Whether the actor manages the whole organization, not just one workspace. */
export const canManageAll = (
  { memory: { owner } }: { memory: Pick<IdentityWorld['memory'], 'owner'> },
  actor: Actor,
): boolean =>
  actor.kind === 'operator' ||
  (actor.kind !== 'member' && actor.workspace_id === owner.workspace_id)

/** Throws 403 when the actor manages one workspace only. */
export function assertCanManageAll(world: IdentityWorld, actor: Actor): void {
  if (!canManageAll(world, actor))
    throw denied('Only management keys of the default workspace can perform this operation')
}

/**
 * Resolves the workspace id of a body or a query. Without an id, it is the default workspace, or
 * the actor's own if that is the only one they manage. Throws 400 for a workspace that does not
 * exist or that the actor does not manage, with the same message. Throws 400 without an id when the
 * default workspace was deleted.
 */
export function resolveWorkspaceId(
  world: IdentityWorld,
  actor: Actor,
  id: string | undefined,
): string {
  if (id === undefined) return getOwnWorkspaceId(world, actor)
  if (!world.memory.workspaces.has(id) || !canManage(world, actor, id))
    throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
  return id
}

function getOwnWorkspaceId(world: IdentityWorld, actor: Actor): string {
  const own = canManageAll(world, actor) ? world.memory.owner.workspace_id : actor.workspace_id
  if (!world.memory.workspaces.has(own))
    throw invalid(
      'workspace_id: expected a workspace, since the default one was deleted',
      'workspace_id',
    )
  return own
}

/**
 * Returns `found`. Throws 404 with the name of its noun when it is undefined or belongs to a
 * workspace that the actor does not manage.
 */
export function requireManaged<Found extends { workspace_id: string }>(
  world: IdentityWorld,
  actor: Actor,
  found: Found | undefined,
  noun: string,
): Found {
  const thing = requireFound(found, noun)
  return requireFound(canManage(world, actor, thing.workspace_id) ? thing : undefined, noun)
}

/**
 * Lists the workspaces in which a member may have keys: the default one, which has every member,
 * first.
 */
export async function listOwnWorkspaces(
  { memory, store }: IdentityWorld,
  { id, role }: Member,
): Promise<Workspace[]> {
  const all = memory.workspaces.filter(() => true)
  const managesAll = role === 'org:admin' || id === memory.owner.user_id
  const isOwn = await Promise.all(
    all.map(
      async workspace =>
        managesAll ||
        workspace.is_default ||
        (await store.members.findWorkspaceMember(workspace.id, id)) !== undefined,
    ),
  )
  return all
    .filter((_, i) => isOwn[i])
    .sort((a, b) => Number(b.is_default) - Number(a.is_default) || (a.name < b.name ? -1 : 1))
}
