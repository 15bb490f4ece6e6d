import { isoNow } from '../../kernel/clock.ts'
import type { Actor } from '../actor.ts'
import type { IdentityWorld } from '../world.ts'
import type { Disabling, Key } from './store.ts'
import { auditKey } from './view.ts'

/**
 * Prepares the disabling of the keys that match. Skips those that are already disabled.
 */
export function disablingOf(
  gateway: IdentityWorld,
  actor: Actor,
  isMeant: (key: Key) => boolean,
): Disabling {
  const keys = gateway.memory.keys.where(key => !key.disabled && isMeant(key))
  const change = { disabled: true, updated_at: isoNow(gateway) }
  const entries = keys.map(key => auditKey(gateway, actor, key, { ...key, ...change }))
  return { hashes: keys.map(key => key.hash), updated_at: change.updated_at, entries }
}

/** Disables these keys in memory, after the store has disabled them. */
export function disableKeys(gateway: IdentityWorld, { hashes, updated_at }: Disabling): void {
  for (const hash of hashes) {
    const key = gateway.memory.keys.get(hash)
    if (key) gateway.memory.keys.set({ ...key, disabled: true, updated_at })
  }
}
