import { notFound } from '../../base/errors.ts'
import { type Actor, canManageAll } from '../../resources/actor.ts'
import type { IdentityWorld } from '../../resources/world.ts'
import type { TelemetryWorld } from '../world.ts'
import type { Generation } from './store.ts'

/**
 * Returns the workspace whose calls the actor may sum and see the records of; null for all of them.
 * Keys for inference have only that of their own, wherever it is.
 */
export const findReadableWorkspace = (world: IdentityWorld, actor: Actor): string | null =>
  actor.kind !== 'inference' && canManageAll(world, actor) ? null : actor.workspace_id

/** Whether the actor may see the record of a call: of one's own workspace, or of one's own calls. */
export const canRead = (
  world: IdentityWorld,
  actor: Actor,
  call: Pick<Generation, 'workspace_id' | 'user_id'>,
): boolean => {
  const { user_id = call.user_id, workspace_id = call.workspace_id } = findReadable(world, actor)
  return call.user_id === user_id && call.workspace_id === workspace_id
}

/** Returns what all calls have that the actor may see the records of. */
function findReadable(
  world: IdentityWorld,
  actor: Actor,
): { user_id?: string; workspace_id?: string } {
  if (actor.kind === 'member') return { user_id: actor.user_id }
  const workspace_id = findReadableWorkspace(world, actor)
  return workspace_id === null ? {} : { workspace_id }
}

/**
 * Finds a finished call by its id, or the newest with the request id that its caller saw, in the
 * workspaces whose calls the actor may sum. Throws 404, also for another workspace's.
 */
export async function findGeneration(
  world: TelemetryWorld,
  actor: Actor,
  id: string,
): Promise<Generation> {
  const { generations } = world.store
  const called = await generations.byId(id)
  if (called && canRead(world, actor, called)) return called
  // Clients choose request ids: however many of others have this one, it is looked for among these.
  const [asked] = await generations.list({ id, ...findReadable(world, actor) }, 1)
  if (!asked) throw notFound('Generation not found')
  return asked
}
