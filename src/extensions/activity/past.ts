import { canRead } from '../../observability/generations/find.ts'
import type { Actor } from '../../resources/actor.ts'
import type { ExtensionWorld } from '../world.ts'
import { type ActivityEntry, buildCallFinished } from './entries.ts'

/** How many past calls a listener may be told of. */
export const MOST_PAST = 1_000

/**
 * Lists the calls that finished last, as the feed told them, oldest first: of the newest `count` of
 * the gateway those that the actor may see. Where the store cannot be read it is an alarm.
 */
export async function listPast(
  world: ExtensionWorld,
  actor: Actor,
  count: number,
): Promise<ActivityEntry[]> {
  try {
    const newest = await world.store.generations.list({}, Math.min(count, MOST_PAST))
    return newest
      .filter(call => canRead(world, actor, call))
      .reverse()
      .map(call => buildCallFinished(world, call.settled_at, call))
  } catch {
    const at = world.clock.now().toISOString()
    return [{ type: 'alarm', at, name: 'past.unreadable', message: 'Past calls cannot be read' }]
  }
}
