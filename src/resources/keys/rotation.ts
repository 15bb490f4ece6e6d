import { hashSecret, maskSecret } from '../../base/credential.ts'
import { conflict, requireFound } from '../../base/errors.ts'
import { overlay } from '../../base/mirror.ts'
import type { Actor } from '../actor.ts'
import { auditKey, createPlaintext, requireManagedKey, showKey } from '../keys.ts'
import type { IdentityWorld } from '../world.ts'
import type { KeyRotation } from './schema.ts'
import type { ChangingKey, Key } from './store.ts'

/**
 * Gives a key a new secret, which leaves here once and is never stored. Everything else stays the
 * key's: hash, limits, spending, rules. The secret so far is valid for the overlap, and one from an
 * earlier rotation ends now. Throws 404, and 409 for a key that has expired or that is rotated at the
 * same moment: which secret is the one before would be by chance.
 */
export async function rotateKey(
  world: IdentityWorld,
  actor: Actor,
  hash: string,
  { overlap_seconds }: KeyRotation,
) {
  // Another process may have rotated it.
  await world.catchUp()
  const key = requireManagedKey(world, actor, hash)
  const now = world.clock.now()
  if (key.expires_at !== null && new Date(key.expires_at) <= now)
    throw conflict('The key has expired: a new secret would not be valid either')
  const plaintext = createPlaintext(world)
  const until = overlap_seconds > 0 ? new Date(now.getTime() + overlap_seconds * 1000) : null
  const change = {
    label: maskSecret(plaintext),
    secret_hash: hashSecret(plaintext),
    previous_secret_hash: until && (key.secret_hash ?? key.hash),
    previous_secret_until: until?.toISOString() ?? null,
    updated_at: now.toISOString(),
  } satisfies Partial<Key>
  const entry = auditKey(world, actor, key, { ...key, ...change }, 'rotate')
  const judge = ({ secret_hash }: ChangingKey) => {
    if (secret_hash !== key.secret_hash)
      throw conflict('The key was rotated at the same moment: its secret is another one already')
  }
  const write = () => world.store.keys.update(hash, change, entry, judge)
  const changed = await world.memory.keys.change(hash, overlay<Key>(change), write)
  return {
    data: showKey(world, requireFound(changed, 'API key')),
    key: plaintext,
    previous_valid_until: change.previous_secret_until,
  }
}
