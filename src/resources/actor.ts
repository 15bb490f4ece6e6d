import { hashSecret } from '../base/credential.ts'
import type { Precondition } from '../base/entity-tag.ts'
import { denied, invalid, requireFound, unauthenticated } from '../base/errors.ts'
import type { IssuerConfig } from '../config/workloads.ts'
import type { ActorKind } from './audit/store.ts'
import { isUsable } from './keys/mirror.ts'
import type { Key } from './keys/store.ts'
import type { Member } from './members/store.ts'
import type { Grant } from './workloads/tokens.ts'
import type { Workspace } from './workspaces/store.ts'
import type { IdentityWorld } from './world.ts'

/**
 * The caller. Over HTTP it is an API key or the token of an identity provider; at the terminal it
 * is the operator, and on the page of consent a member.
 */
export interface Actor {
  kind: ActorKind
  user_id: string
  workspace_id: string
  key_hash: string | null
  /** Came with a short-lived token that stands for the key. */
  isToken?: true
  /** The version that it requires of what it changes, which has this id. */
  requires?: Precondition & { id: string }
}

const BEARER = /^bearer +(\S+) *$/i

/** Returns the secret in an `Authorization` header, or an empty string. */
export const parseBearerToken = (authorization: string): string =>
  BEARER.exec(authorization)?.[1] ?? ''

/**
 * Finds the actor of an `Authorization` header, from memory only. Throws 401 with the same sentence
 * for every key that is unknown, disabled or expired.
 */
export function authenticate(world: IdentityWorld, authorization: string | null): Actor {
  if (authorization === null || authorization === '')
    throw unauthenticated('Missing Authentication header')
  const actor = recognize(world, authorization)
  if (!actor) throw unauthenticated('Invalid API key')
  return actor
}

/** Finds the actor of an `Authorization` header, from memory only. Null without a usable key. */
export function recognize(world: IdentityWorld, authorization: string | null): Actor | null {
  if (authorization === null || authorization === '') return null
  const now = world.clock.now()
  const hash = knownHashes.get(authorization) ?? hashSecret(parseBearerToken(authorization))
  const key = world.memory.keys.findBySecret(hash, now)
  if (key) rememberHash(authorization, hash)
  if (key) return isUsable(key, now) ? buildKeyActor(world, key) : null
  const tokenKey = findTokenKey(world, hash, now)
  return tokenKey && { ...buildKeyActor(world, tokenKey), isToken: true }
}

/** The hash of the secret in a header that named a key: to hash it again costs a microsecond. */
const knownHashes = new Map<string, string>()
const MOST_HASHES = 10_000
const LONGEST_HEADER = 256

// Only of keys that exist, and no longer than a header needs: requests cannot fill the memory.
function rememberHash(authorization: string, hash: string): void {
  if (authorization.length > LONGEST_HEADER || knownHashes.has(authorization)) return
  if (knownHashes.size >= MOST_HASHES) knownHashes.clear()
  knownHashes.set(authorization, hash)
}

/** Builds the actor that uses this key. */
export const buildKeyActor = ({ memory: { owner } }: IdentityWorld, key: Key): Actor => ({
  kind: key.kind,
  user_id: key.creator_user_id ?? owner.user_id,
  workspace_id: key.workspace_id,
  key_hash: key.hash,
})

/**
 * Authenticates like `authenticate`, but also verifies a token that is not known yet, and finds a
 * key that another process has just created. An unknown key makes it ask the store whether it has changed. Throws as `authenticate` does.
 */
export async function identify(world: IdentityWorld, authorization: string | null): Promise<Actor> {
  try {
    return authenticate(world, authorization)
  } catch (unknown) {
    if (authorization === null) throw unknown
    const isToken = await verifyToken(world, parseBearerToken(authorization))
    const actor = isToken ? recognize(world, authorization) : null
    if (actor) return actor
    if (!(await world.catchUp())) throw unknown
    return authenticate(world, authorization)
  }
}

/** Returns the actor of the person at the terminal, who owns the data directory. */
export const getOperator = (world: IdentityWorld): Actor => ({
  kind: 'operator',
  user_id: world.memory.owner.user_id,
  workspace_id: world.memory.owner.workspace_id,
  key_hash: null,
})

/**
 * Whether the actor may manage this workspace. The operator and management keys of the default
 * workspace manage all of them; a key of another workspace manages only that one.
 */
export const canManage = (
  world: IdentityWorld,
  actor: Actor,
  workspace_id: string | null,
): boolean =>
  canManageAll(world, actor) || (actor.kind !== 'member' && actor.workspace_id === workspace_id)

/** Whether the actor manages the whole organization, not just one workspace. */
export const canManageAll = (
  { memory: { owner } }: { memory: Pick<IdentityWorld['memory'], 'owner'> },
  actor: Actor,
): boolean =>
  actor.kind === 'operator' ||
  (actor.kind !== 'member' && actor.workspace_id === owner.workspace_id)

/** Throws 403 when the actor manages one workspace only. */
export function assertCanManageAll(world: IdentityWorld, actor: Actor): void {
  if (!canManageAll(world, actor))
    throw denied('Only management keys of the default workspace can perform this operation')
}

/**
 * Resolves the workspace id of a body or a query. Without an id, it is the default workspace, or
 * the actor's own if that is the only one they manage. Throws 400 for a workspace that does not
 * exist or that the actor does not manage, with the same message. Throws 400 without an id when the
 * default workspace was deleted.
 */
export function resolveWorkspaceId(
  world: IdentityWorld,
  actor: Actor,
  id: string | undefined,
): string {
  if (id === undefined) return getOwnWorkspaceId(world, actor)
  if (!world.memory.workspaces.has(id) || !canManage(world, actor, id))
    throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
  return id
}

function getOwnWorkspaceId(world: IdentityWorld, actor: Actor): string {
  const own = canManageAll(world, actor) ? world.memory.owner.workspace_id : actor.workspace_id
  if (!world.memory.workspaces.has(own))
    throw invalid(
      'workspace_id: expected a workspace, since the default one was deleted',
      'workspace_id',
    )
  return own
}

/**
 * Returns `found`. Throws 404 with the name of its noun when it is undefined or belongs to a
 * workspace that the actor does not manage.
 */
export function requireManaged<Found extends { workspace_id: string }>(
  world: IdentityWorld,
  actor: Actor,
  found: Found | undefined,
  noun: string,
): Found {
  const thing = requireFound(found, noun)
  return requireFound(canManage(world, actor, thing.workspace_id) ? thing : undefined, noun)
}

/**
 * Lists the workspaces in which a member may have keys: the default one, which has every member,
 * first.
 */
export async function listOwnWorkspaces(
  { memory, store }: IdentityWorld,
  { id, role }: Member,
): Promise<Workspace[]> {
  const all = memory.workspaces.filter(() => true)
  const managesAll = role === 'org:admin' || id === memory.owner.user_id
  const own = new Set(managesAll ? [] : await store.members.listWorkspacesOf(id))
  return all
    .filter(workspace => managesAll || workspace.is_default || own.has(workspace.id))
    .sort((a, b) => Number(b.is_default) - Number(a.is_default) || (a.name < b.name ? -1 : 1))
}

/**
 * Returns the key that an access token stands for, from memory only; null for a token that was not
 * verified, whose policy has another issuer or workspace by now, or whose key cannot be used.
 */
function findTokenKey(world: IdentityWorld, hash: string, now: Date): Key | null {
  const grant = world.workloads.tokens.find(hash, now)
  const key = grant && world.memory.keys.get(grant.key_hash)
  return key && isUsable(key, now) && isGranted(world, grant, key) ? key : null
}

/** Verifies a token that is not known yet, so that `findTokenKey` finds it. */
const verifyToken = async (world: IdentityWorld, token: string): Promise<boolean> =>
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
