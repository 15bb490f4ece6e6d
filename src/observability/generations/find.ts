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
  { workspace_id, user_id }: Pick<Generation, 'workspace_id' | 'user_id'>,
): boolean => {
  if (actor.kind === 'member') return user_id === actor.user_id
  const workspace = findReadableWorkspace(world, actor)
  return workspace === null || workspace_id === workspace
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
  const isVisible = (call: Generation) => canRead(world, actor, call)
  const called = await generations.byId(id)
  if (called && isVisible(called)) return called
  // Clients choose request ids, so that those of another workspace may be in between.
  const asked = (await generations.list({ id }, MOST_NAMESAKES)).find(isVisible)
  if (!asked) throw notFound('Generation not found')
  return asked
}

/** How many calls with one request id are looked at. */
const MOST_NAMESAKES = 100
