import { getIsoTime } from '../base/clock.ts'
import { addChecksum, hashSecret } from '../base/credential.ts'
import { denied, requireFound, unauthenticated } from '../base/errors.ts'
import type { Mac } from '../base/mac.ts'
import { getConsoleUrl } from '../config.ts'
import { type Actor, assertCanManageAll, buildKeyActor } from './actor.ts'
import { defineAudit } from './audit/entry.ts'
import type { AuditEntry } from './audit/store.ts'
import { isUsable } from './keys/mirror.ts'
import type { Key } from './keys/store.ts'
import type { Member } from './members/store.ts'
import { getMember } from './members.ts'
import type { Marks } from './workloads/used-tokens.ts'
import type { IdentityWorld } from './world.ts'

/**
 * A link that signs a member in, once, or a session that it began: never the secret, only its hash.
 * Times in ISO 8601.
 */
export interface SignIn {
  hash: string
  kind: 'link' | 'session'
  user_id: string
  /** The management key that a session was begun with; null for a member's. */
  key_hash: string | null
  /** Who a provider of sign-in says they are, and in which session of its own; null without one. */
  issuer: string | null
  subject: string | null
  sid: string | null
  created_at: string
  expires_at: string
}

/** Whose a sign-in is. */
type Whose = Pick<SignIn, 'user_id' | 'key_hash' | 'issuer' | 'subject' | 'sid'>

/** What a session has at its provider. */
export type ProviderSession = Pick<SignIn, 'issuer' | 'subject' | 'sid'>

const NO_PROVIDER: ProviderSession = { issuer: null, subject: null, sid: null }

/** Which sessions of members are meant: those that have all of this. */
export type SessionFilter = Partial<Pick<SignIn, 'user_id' | 'issuer' | 'subject' | 'sid'>>

/** What a session is begun with. */
export interface SessionBounds {
  /** So many its member or key may have: the oldest end for it. */
  most: number
  /** The current secret of its key, as `Key` has it. */
  secret_hash?: Key['secret_hash']
}

/** Stores links and sessions. What was begun by a member who leaves ends with that. */
export interface SignInStore {
  /**
   * Inserts one, and removes those that are over. Throws 403 for a member who has left, and 401 for
   * a key that is disabled, deleted or rotated by now.
   */
  insert(
    signIn: SignIn,
    now: string,
    entry: AuditEntry | null,
    bounds?: SessionBounds,
  ): Promise<void>
  find(hash: string): Promise<SignIn | undefined>
  /** Takes one: of simultaneous callers one gets it, and later ones get undefined. */
  take(hash: string): Promise<SignIn | undefined>
  /** Lists the sessions of a member, or of a key, the newest first. */
  listSessions(of: Pick<SignIn, 'user_id' | 'key_hash'>): Promise<SignIn[]>
  /** Ends sessions of members that have begun until a time. */
  endSessions(of: SessionFilter, until: string): Promise<void>
}

/** The parts of the gateway that signing in needs. */
export interface SignInWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { signIns: SignInStore; shared?: { marks: Marks } }
  secrets: IdentityWorld['secrets'] & { mac: Mac }
  /** What providers of sign-in have said is over, the newest last. */
  logouts: ProviderLogout[]
}

/** In milliseconds. */
const LINK_LIFETIME = 600_000
const SESSION_LIFETIME = 12 * 3_600_000

/** The most sessions of one member or key: the oldest ends for one more. */
const MOST_SESSIONS = 100

const auditSignIn = defineAudit<SignIn>('sign_ins', {
  identify: ({ hash }) => ({ id: hash, workspace_id: null }),
  show: ({ kind, user_id, key_hash, created_at, expires_at }) => ({
    ...{ kind, user_id, key_hash, created_at, expires_at },
  }),
})

/**
 * Creates a link that signs a member in, once, within ten minutes. Throws 403 for actors who manage
 * one workspace only and for a member who has left, and 404.
 */
export async function createSignInLink(world: SignInWorld, actor: Actor, id: string) {
  assertCanManageAll(world, actor)
  const { active, email } = await getMember(world, id)
  if (!active) throw denied('This member was deactivated')
  const whose = { user_id: id, key_hash: null, ...NO_PROVIDER }
  const { secret, signIn } = buildSignIn(world, 'link', whose, computeEnd(world, LINK_LIFETIME))
  const entry = auditSignIn(world, actor, null, signIn)
  await world.store.signIns.insert(signIn, signIn.created_at, entry)
  const url = `${getConsoleUrl(world)}/auth/sign-in?token=${secret}`
  return { data: { email, url, expires_at: signIn.expires_at } }
}

function buildSignIn(
  world: SignInWorld,
  kind: SignIn['kind'],
  whose: Whose,
  expires_at: string,
): { secret: string; signIn: SignIn } {
  const secret = addChecksum(`gw-${kind}-v1-${world.ids.secret()}`)
  const signIn = {
    hash: hashSecret(secret),
    kind,
    ...whose,
    created_at: getIsoTime(world),
    expires_at,
  }
  return { secret, signIn }
}

const computeEnd = ({ clock }: SignInWorld, lifetime: number): string =>
  new Date(clock.now().getTime() + lifetime).toISOString()

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
export const beginSession = (
  world: SignInWorld,
  id: string,
  provider: ProviderSession = NO_PROVIDER,
): Promise<string> => insertSession(world, { user_id: id, key_hash: null, ...provider })

/** What a provider has said is over: one of its sessions, or all of a user, at a time in seconds. */
export interface ProviderLogout extends ProviderSession {
  at: number
}

/** The most logouts that are remembered, and for how many seconds: longer than a sign-in may take. */
const MOST_LOGOUTS = 1_000
const LOGOUT_MEMORY = 600

/**
 * Begins a session of a member whom a provider has signed in, by a token of a time in seconds. Throws
 * 403 where it has said since that this is over.
 */
export async function beginProviderSession(
  world: SignInWorld,
  id: string,
  there: ProviderSession,
  at: number,
): Promise<string> {
  const session = await beginSession(world, id, there)
  // Looked at last: a logout before this is found, and one after this has found the session.
  const logouts = await listLogouts(world)
  if (!logouts.some(logout => logout.at >= at && isAbout(logout, there))) return session
  await signOut(world, session)
  throw denied('You have signed out meanwhile: begin again')
}

const LOGOUT = 'logout '

/** Lists the logouts that servers of this store were told of. */
async function listLogouts({ logouts, store }: SignInWorld): Promise<ProviderLogout[]> {
  if (!store.shared) return logouts
  const marks = await store.shared.marks.list(LOGOUT)
  return marks.map(mark => JSON.parse(mark.slice(LOGOUT.length)))
}

// Of a session without a sid only its user is known.
const isAbout = (logout: ProviderLogout, { issuer, subject, sid }: ProviderSession): boolean =>
  logout.issuer === issuer &&
  (logout.subject === null || logout.subject === subject) &&
  (logout.sid === null || logout.sid === sid || (sid === null && logout.subject !== null))

/** Ends the sessions of a logout that have begun until a time, and those that are about to begin. */
export async function endProviderSessions(
  world: SignInWorld,
  logout: ProviderLogout,
  until: string,
): Promise<void> {
  const { issuer, subject, sid, at } = logout
  const { signIns } = world.store
  const recent = world.logouts.filter(one => one.at > at - LOGOUT_MEMORY)
  world.logouts = [...recent, logout].slice(-MOST_LOGOUTS)
  await world.store.shared?.marks.add(LOGOUT + JSON.stringify(logout), LOGOUT_MEMORY)
  const whose = { issuer, ...(subject === null ? {} : { subject }) }
  await signIns.endSessions(sid === null ? whose : { ...whose, sid }, until)
  if (sid !== null && subject !== null) await signIns.endSessions({ ...whose, sid: null }, until)
}

/**
 * Begins a session of whoever has this key, by one of its secrets: for twelve hours, or as long as
 * that can be used. Throws 401 where it cannot.
 */
export async function beginKeySession(
  world: SignInWorld,
  { user_id, key_hash }: Actor,
  secret: string,
): Promise<string> {
  // Another server may have rotated it, and left this secret valid for a while.
  await world.catchUp()
  const key = world.memory.keys.findBySecret(hashSecret(secret), world.clock.now())
  if (key?.hash !== key_hash) throw unauthenticated('Invalid API key')
  const isPrevious = key.previous_secret_hash === hashSecret(secret)
  const until = isPrevious ? key.previous_secret_until : null
  const whose = { user_id, key_hash, ...NO_PROVIDER }
  return insertSession(world, whose, { until, secret_hash: key.secret_hash })
}

async function insertSession(
  world: SignInWorld,
  whose: Whose,
  { until = null, ...of }: { until?: string | null; secret_hash?: Key['secret_hash'] } = {},
): Promise<string> {
  const end = computeEnd(world, SESSION_LIFETIME)
  const expires_at = until !== null && until < end ? until : end
  const { secret, signIn } = buildSignIn(world, 'session', whose, expires_at)
  const bounds = { most: MOST_SESSIONS, ...of }
  await world.store.signIns.insert(signIn, signIn.created_at, null, bounds)
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
  session === undefined ? undefined : (await findSession(world, session))?.member

/** Who a session acts as, and until when. */
export interface Session {
  actor: Actor
  /** Its member; undefined where a key has begun it. */
  member: Member | undefined
  signIn: SignIn
}

/**
 * Finds a session by its secret: undefined for one that is over, of a member who has left, or of a
 * key that cannot be used any more. Members who manage the organization act as its management keys
 * do.
 */
export async function findSession(
  world: SignInWorld,
  secret: string,
): Promise<Session | undefined> {
  const signIn = await world.store.signIns.find(hashSecret(secret))
  if (signIn?.key_hash === null) {
    const member = await findActiveMember(world, signIn, 'session')
    return member && { actor: buildMemberActor(world, member), member, signIn }
  }
  if (signIn === undefined || signIn.expires_at <= getIsoTime(world)) return undefined
  const key = world.memory.keys.get(signIn.key_hash)
  if (!key || !isUsable(key, world.clock.now())) return undefined
  return { actor: buildKeyActor(world, key), member: undefined, signIn }
}

const buildMemberActor = ({ memory: { owner } }: SignInWorld, { id, role }: Member): Actor => ({
  kind: role === 'org:admin' || id === owner.user_id ? 'management' : 'member',
  user_id: id,
  workspace_id: owner.workspace_id,
  key_hash: null,
})

/** Lists the sessions of whom this one is, the newest first. */
export async function listSessions(world: SignInWorld, { signIn }: Session) {
  const now = getIsoTime(world)
  const sessions = await world.store.signIns.listSessions(signIn)
  return {
    data: sessions
      .filter(({ expires_at }) => expires_at > now)
      .map(({ hash, created_at, expires_at }) => ({
        ...{ id: hash, created_at, expires_at, is_current: hash === signIn.hash },
      })),
  }
}

/** Ends one of the sessions of whom this one is. Throws 404 for any other. */
export async function endSession(world: SignInWorld, { signIn }: Session, id: string) {
  const own = await world.store.signIns.listSessions(signIn)
  requireFound(
    own.find(({ hash }) => hash === id),
    'Session',
  )
  await world.store.signIns.take(id)
  return { deleted: true as const }
}

async function findActiveMember(
  world: SignInWorld,
  found: SignIn | undefined,
  kind: SignIn['kind'],
): Promise<Member | undefined> {
  if (found?.kind !== kind || found.expires_at <= getIsoTime(world)) return undefined
  const [member] = await world.store.members.byIds([found.user_id])
  return member?.active ? member : undefined
}
