import { getIsoTime, yieldToEventLoop } from '../../base/clock.ts'
import { conflict, GatewayError } from '../../base/errors.ts'
import type { Actor } from '../actor.ts'
import { auditKey } from '../keys.ts'
import type { IdentityWorld } from '../world.ts'
import type { Key, KeyDisabling } from './store.ts'

/**
 * Prepares the disabling of the keys that match, all of which name `id`: as their workspace, or as
 * their creator. Skips those that are already disabled.
 */
export function prepareKeyDisabling(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  isIncluded: (key: Key) => boolean,
): KeyDisabling {
  const keys = world.memory.keys.filterMentioning(id, key => !key.disabled && isIncluded(key))
  const change = { disabled: true, updated_at: getIsoTime(world) }
  const entries = keys.map(key => auditKey(world, actor, key, { ...key, ...change }))
  return { hashes: keys.map(key => key.hash), updated_at: change.updated_at, entries }
}

/** Whoever makes keys all the time cannot put off that they are disabled. */
const MOST_TRIES = 20

/**
 * Runs a change that disables keys, by what memory has caught up with: again where the store says that
 * one of them was made or deleted at the same moment. Throws what the change throws.
 */
export async function tryKeyDisabling<Result>(
  world: IdentityWorld,
  change: () => Promise<Result>,
): Promise<Result> {
  for (let left = MOST_TRIES; ; left--) {
    await world.catchUp()
    try {
      return await change()
    } catch (thrown) {
      if (left === 1 || !isOvertaken(thrown)) throw thrown
    }
    await yieldToEventLoop()
  }
}

// A conflict that says which value is taken is none of keys.
const isOvertaken = (thrown: unknown): boolean =>
  thrown instanceof GatewayError &&
  thrown.type === conflict().type &&
  thrown.metadata.scimType === undefined

/** Disables these keys in memory, after the store has disabled them. */
export function disableKeys(world: IdentityWorld, { hashes, updated_at }: KeyDisabling): void {
  for (const hash of hashes) {
    const key = world.memory.keys.get(hash)
    if (key) world.memory.keys.set({ ...key, disabled: true, updated_at })
  }
}
