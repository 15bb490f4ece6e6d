import { notFound } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { canManage } from '../../identity/management.ts'
import type { Generation } from '../generations.ts'
import type { TelemetryWorld } from '../world.ts'

/**
 * Finds a finished call of the actor's workspace by its id, or the newest with the request id that
 * its caller saw. The operator finds those of all workspaces. Throws 404, also for another
 * workspace's.
 */
export const findGeneration = (
  world: TelemetryWorld,
  actor: Actor,
  id: string,
): Promise<Generation> =>
  findVisible(
    world,
    id,
    ({ workspace_id }) => actor.kind === 'operator' || workspace_id === actor.workspace_id,
  )

/** Finds a call as `findGeneration` does, in every workspace that the actor manages. */
export const findManagedGeneration = (
  world: TelemetryWorld,
  actor: Actor,
  id: string,
): Promise<Generation> =>
  findVisible(world, id, ({ workspace_id }) => canManage(world, actor, workspace_id))

async function findVisible(
  { store: { generations } }: TelemetryWorld,
  id: string,
  isVisible: (generation: Generation) => boolean,
): Promise<Generation> {
  const called = await generations.byId(id)
  if (called && isVisible(called)) return called
  // Clients choose request ids, so that those of another workspace may be in between.
  const asked = (await generations.list({ id }, MOST_NAMESAKES)).find(isVisible)
  if (!asked) throw notFound('Generation not found')
  return asked
}

/** How many calls with one request id are looked at. */
const MOST_NAMESAKES = 100
