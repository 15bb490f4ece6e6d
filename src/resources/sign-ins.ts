import { getIsoTime } from '../base/clock.ts'
import { denied } from '../base/errors.ts'
import type { Mac } from '../base/mac.ts'
import type { Actor } from './actor.ts'
import { defineAudit } from './audit/entry.ts'
import type { AuditEntry } from './audit/store.ts'
import { addChecksum, hashSecret } from './keys/secret.ts'
import { assertCanManageAll } from './management.ts'
import type { Member } from './members/store.ts'
import { getMember } from './members.ts'
import type { Workspace } from './workspaces/store.ts'
import type { IdentityWorld } from './world.ts'

/**
 * A link that signs a member in, once, or a session that it began: never the secret, only its hash.
 * Times in ISO 8601.
 */
export interface SignIn {
  hash: string
  kind: 'link' | 'session'
  user_id: string
  created_at: string
  expires_at: string
}

/** Stores links and sessions. */
export interface SignInStore {
  /** Inserts one, and removes those that are over. */
  insert(signIn: SignIn, now: string, entry: AuditEntry | null): Promise<void>
  find(hash: string): Promise<SignIn | undefined>
  /** Takes one: of simultaneous callers one gets it, and later ones get undefined. */
  take(hash: string): Promise<SignIn | undefined>
}

/** The parts of the gateway that signing in needs. */
export interface SignInWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { signIns: SignInStore }
  secrets: IdentityWorld['secrets'] & { mac: Mac }
  instance: { siteUrl: string }
}

/** In milliseconds. */
const LINK_LIFETIME = 600_000
const SESSION_LIFETIME = 12 * 3_600_000

const auditSignIn = defineAudit<SignIn>('sign_ins', {
  identify: ({ hash }) => ({ id: hash, workspace_id: null }),
  show: ({ hash: _, ...shown }) => shown,
})

/**
 * Creates a link that signs a member in, once, within ten minutes. Throws 403 for actors who manage
 * one workspace only and for a member who has left, and 404.
 */
export async function createSignInLink(world: SignInWorld, actor: Actor, id: string) {
  assertCanManageAll(world, actor)
  const { active, email } = await getMember(world, id)
  if (!active) throw denied('This member was deactivated')
  const { secret, signIn } = buildSignIn(world, 'link', id, LINK_LIFETIME)
  const entry = auditSignIn(world, actor, null, signIn)
  await world.store.signIns.insert(signIn, signIn.created_at, entry)
  const url = `${world.instance.siteUrl.replace(/\/$/, '')}/auth/sign-in?token=${secret}`
  return { data: { email, url, expires_at: signIn.expires_at } }
}

function buildSignIn(
  world: SignInWorld,
  kind: SignIn['kind'],
  user_id: string,
  lifetime: number,
): { secret: string; signIn: SignIn } {
  const secret = addChecksum(`gw-${kind}-v1-${world.ids.secret()}`)
  const expires_at = new Date(world.clock.now().getTime() + lifetime).toISOString()
  const signIn = {
    hash: hashSecret(secret),
    kind,
    user_id,
    created_at: getIsoTime(world),
    expires_at,
  }
  return { secret, signIn }
}

/** Returns the member of a link that can still be used; undefined otherwise. */
export const findLinkMember = async (world: SignInWorld, token: string) =>
  findActiveMember(world, await world.store.signIns.find(hashSecret(token)), 'link')

/**
 * Uses a link: returns the secret of a new session, for twelve hours. Throws 403 for one that is
 * unknown, used or over, or whose member has left.
 */
export async function signIn(world: SignInWorld, token: string): Promise<string> {
  const taken = await world.store.signIns.take(hashSecret(token))
  const member = await findActiveMember(world, taken, 'link')
  if (!member) throw denied('This link was used already, or is too old')
  return beginSession(world, member.id)
}

/** Begins a session of a member, for twelve hours, and returns its secret. */
export async function beginSession(world: SignInWorld, id: string): Promise<string> {
  const { secret, signIn } = buildSignIn(world, 'session', id, SESSION_LIFETIME)
  await world.store.signIns.insert(signIn, signIn.created_at, null)
  return secret
}

/** Ends a session. Does nothing for one that is over. */
export async function signOut({ store }: SignInWorld, session: string): Promise<void> {
  await store.signIns.take(hashSecret(session))
}

/** Returns the member of a session; undefined if there is none, or no longer. */
export const findSessionMember = async (
  world: SignInWorld,
  session: string | undefined,
): Promise<Member | undefined> =>
  session === undefined
    ? undefined
    : findActiveMember(world, await world.store.signIns.find(hashSecret(session)), 'session')

async function findActiveMember(
  world: SignInWorld,
  found: SignIn | undefined,
  kind: SignIn['kind'],
): Promise<Member | undefined> {
  if (found?.kind !== kind || found.expires_at <= getIsoTime(world)) return undefined
  const [member] = await world.store.members.byIds([found.user_id])
  return member?.active ? member : undefined
}

/**
 * Lists the workspaces in which a member may have keys: the default one, which has every member,
 * first.
 */
export async function listOwnWorkspaces(
  { memory, store }: SignInWorld,
  { id, role }: Member,
): Promise<Workspace[]> {
  const all = memory.workspaces.filter(() => true)
  const managesAll = role === 'org:admin' || id === memory.owner.user_id
  const isOwn = await Promise.all(
    all.map(
      async workspace =>
        managesAll ||
        workspace.is_default ||
        (await store.members.findWorkspaceMember(workspace.id, id)) !== undefined,
    ),
  )
  return all
    .filter((_, i) => isOwn[i])
    .sort((a, b) => Number(b.is_default) - Number(a.is_default) || (a.name < b.name ? -1 : 1))
}
