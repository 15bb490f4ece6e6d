import { denied, invalid, requireFound } from '../errors.ts'
import type { Actor } from './actor.ts'
import type { IdentityWorld } from './world.ts'

/**
 * Whether the actor may manage what is in this workspace: the operator and a management key of the
 * default workspace manage all of them, one of another workspace its own.
 */
export const reaches = (
  gateway: IdentityWorld,
  actor: Actor,
  workspace_id: string | null,
): boolean => managesAll(gateway, actor) || actor.workspace_id === workspace_id

/** Whether the actor manages the whole organization, and not one workspace only. */
export const managesAll = ({ memory: { owner } }: IdentityWorld, actor: Actor): boolean =>
  actor.kind === 'operator' || actor.workspace_id === owner.workspace_id

/** Throws 403 where the actor manages one workspace only. */
export function mustManageAll(gateway: IdentityWorld, actor: Actor): void {
  if (!managesAll(gateway, actor))
    throw denied('Only management keys of the default workspace can perform this operation')
}

/**
 * The id of the workspace that a body or a query names; when it names none, the default one, or the
 * actor's own if that is all he manages. Throws 400 for one that does not exist, for one that he
 * does not manage as if it did not, and for none where the default one is gone.
 */
export function managedWorkspace(
  gateway: IdentityWorld,
  actor: Actor,
  id: string | undefined,
): string {
  if (id === undefined) return ownWorkspace(gateway, actor)
  if (!gateway.memory.workspaces.has(id) || !reaches(gateway, actor, id))
    throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
  return id
}

function ownWorkspace(gateway: IdentityWorld, actor: Actor): string {
  const own = managesAll(gateway, actor) ? gateway.memory.owner.workspace_id : actor.workspace_id
  if (!gateway.memory.workspaces.has(own))
    throw invalid(
      'workspace_id: expected a workspace, since the default one was deleted',
      'workspace_id',
    )
  return own
}

/**
 * Returns what was looked for in memory. Throws 404 with the name of its noun where there is none,
 * and where it is in a workspace that the actor does not manage.
 */
export function requireManaged<Found extends { workspace_id: string }>(
  gateway: IdentityWorld,
  actor: Actor,
  found: Found | undefined,
  noun: string,
): Found {
  const thing = requireFound(found, noun)
  return requireFound(reaches(gateway, actor, thing.workspace_id) ? thing : undefined, noun)
}
