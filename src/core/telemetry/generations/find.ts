import { notFound } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { canManage } from '../../identity/management.ts'
import type { Generation } from '../generations.ts'
import type { TelemetryWorld } from '../world.ts'

/**
 * Finds a finished call by its id, or the newest with the request id that its caller saw, if the
 * actor may see its workspace. Throws 404, also for another workspace's.
 */
export async function findGeneration(
  world: TelemetryWorld,
  actor: Actor,
  id: string,
): Promise<Generation> {
  const { generations } = world.store
  const isVisible = ({ workspace_id }: Generation) =>
    workspace_id === actor.workspace_id ||
    (actor.kind !== 'inference' && canManage(world, actor, workspace_id))
  const called = await generations.byId(id)
  if (called && isVisible(called)) return called
  // Clients choose request ids, so that those of another workspace may be in between.
  const asked = (await generations.list({ id }, MOST_NAMESAKES)).find(isVisible)
  if (!asked) throw notFound('Generation not found')
  return asked
}

/** How many calls with one request id are looked at. */
const MOST_NAMESAKES = 100
