import { getIsoTime } from '../../base/clock.ts'
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

/** Disables these keys in memory, after the store has disabled them. */
export function disableKeys(world: IdentityWorld, { hashes, updated_at }: KeyDisabling): void {
  for (const hash of hashes) {
    const key = world.memory.keys.get(hash)
    if (key) world.memory.keys.set({ ...key, disabled: true, updated_at })
  }
}
