import { type Static, Type } from '@sinclair/typebox'
import { getIsoTime } from '../../base/clock.ts'
import { addChecksum, hashSecret, maskSecret } from '../../base/credential.ts'
import { denied, requireFound, unauthenticated } from '../../base/errors.ts'
import { type Actor, assertCanManageAll, identify, parseBearerToken } from '../actor.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import type { ScimToken } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'

/** The fields of a new token. */
export const NewScimToken = Type.Object({ name: Type.String({ minLength: 1, maxLength: 255 }) })

export type NewScimToken = Static<typeof NewScimToken>

/**
 * Creates a token. The plaintext leaves here once and is never stored: only its hash is. Throws 403
 * for actors who manage one workspace only.
 */
export async function createScimToken(world: IdentityWorld, actor: Actor, { name }: NewScimToken) {
  assertCanManageAll(world, actor)
  const plaintext = addChecksum(`gw-scim-v1-${world.ids.secret()}`)
  const token: ScimToken = {
    id: world.ids.uuid(),
    name,
    label: maskSecret(plaintext),
    hash: hashSecret(plaintext),
    created_by: actor.user_id,
    created_at: getIsoTime(world),
  }
  await world.store.scim.tokens.insert(token, auditToken(world, actor, null, token))
  return { data: showToken(token), token: plaintext }
}

/** Lists all tokens, the oldest first. Throws 403. */
export async function listScimTokens(world: IdentityWorld, actor: Actor) {
  assertCanManageAll(world, actor)
  return { data: (await world.store.scim.tokens.all()).map(showToken) }
}

/**
 * Revokes a token. It is invalid from the next request on, in every process. What was provisioned
 * with it stays. Throws 403, and 404.
 */
export async function revokeScimToken(world: IdentityWorld, actor: Actor, id: string) {
  assertCanManageAll(world, actor)
  const tokens = await world.store.scim.tokens.all()
  const token = requireFound(
    tokens.find(stored => stored.id === id),
    'SCIM token',
  )
  await world.store.scim.tokens.remove(id, auditToken(world, actor, token, null))
  return { deleted: true as const }
}

/**
 * Identifies the identity provider by its `Authorization` header. Reads the store each time, so
 * that a revoked token is invalid at once: no model calls depend on this path. Throws 401, and 403
 * for a valid key of another kind.
 */
export async function identifyScim(
  world: IdentityWorld,
  authorization: string | null,
): Promise<Actor> {
  if (authorization === null || authorization === '')
    throw unauthenticated('Missing Authentication header')
  const token = await world.store.scim.tokens.byHash(hashSecret(parseBearerToken(authorization)))
  if (token)
    return {
      kind: 'scim',
      user_id: token.created_by,
      workspace_id: world.memory.owner.workspace_id,
      key_hash: token.hash,
    }
  await identify(world, authorization)
  throw denied('Only SCIM tokens can perform this operation')
}

const showToken = ({ hash: _, ...token }: ScimToken) => token

const auditToken = defineAudit<ScimToken>('scim_tokens', {
  identify: identifyById,
  verbs: { delete: 'revoke' },
})
