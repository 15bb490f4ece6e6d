import type { IssuerConfig } from '../../config/workloads.ts'
import type { Key } from '../keys/store.ts'
import { isUsable } from '../keys/store.ts'
import type { IdentityWorld } from '../world.ts'
import type { Grant } from './tokens.ts'

/**
 * Returns the key that an access token stands for, from memory only; null for a token that was not
 * verified, whose policy has another issuer or workspace by now, or whose key cannot be used.
 */
export function findTokenKey(world: IdentityWorld, hash: string, now: Date): Key | null {
  const grant = world.workloads.tokens.find(hash, now)
  const key = grant && world.memory.keys.get(grant.key_hash)
  return key && isUsable(key, now) && isGranted(world, grant, key) ? key : null
}

/** Verifies a token that is not known yet, so that `findTokenKey` finds it. */
export const verifyToken = async (world: IdentityWorld, token: string): Promise<boolean> =>
  Object.keys(world.config.oauth.issuers).length > 0 && world.workloads.tokens.verify(world, token)

function isGranted(world: IdentityWorld, { policy, issuer }: Grant, { workspace_id }: Key) {
  const { enabled, issuers } = world.config.oauth
  const rule = Object.hasOwn(issuers, policy) ? issuers[policy] : undefined
  return enabled && rule?.issuer === issuer && findWorkspaceId(world, rule) === workspace_id
}

/** Returns the id of a policy's workspace; undefined if there is none with its slug. */
export function findWorkspaceId(
  { memory: { workspaces, owner } }: IdentityWorld,
  { workspace }: Pick<IssuerConfig, 'workspace'>,
): string | undefined {
  if (workspace !== undefined) return workspaces.values().find(({ slug }) => slug === workspace)?.id
  return workspaces.has(owner.workspace_id) ? owner.workspace_id : undefined
}
