import type { JWTPayload, JWTVerifyResult } from 'jose'
import { getIsoTime } from '../../base/clock.ts'
import { hashSecret } from '../../base/credential.ts'
import { denied, GatewayError, invalid } from '../../base/errors.ts'
import { isObject, parseObject } from '../../base/json.ts'
import type { RolesConfig, SignInConfig } from '../../config/sign-in.ts'
import { getConsoleUrl } from '../../config.ts'
import type { Member } from '../members/store.ts'
import { auditMember } from '../members/view.ts'
import {
  beginProviderSession,
  endProviderSessions,
  type ProviderSession,
  type SignInWorld,
} from '../sign-ins.ts'
import { refuseExchange } from '../workloads/refusal.ts'
import { ALGORITHMS, findBrokenRule, LONGEST_LIFE, TOLERANCE } from '../workloads/subject-token.ts'

/** What the browser keeps while its user is at the provider, and for how many milliseconds. */
interface Journey {
  secret: string
  /** The query of the page of consent to come back to. */
  search: string
  expiry: number
}
const LIFETIME = 600_000

// A cookie has 4,096 bytes, and base64 makes four of three.
const LONGEST_SEARCH = 2_700

/** Returns the provider that signs members in. Throws 403 where there is none. */
export function requireProvider({ config }: SignInWorld): SignInConfig {
  const { enabled, sign_in } = config.oauth
  if (!enabled || !sign_in) throw denied('This gateway has no sign-in by another service')
  return sign_in
}

/**
 * Begins a sign-in (OpenID Connect Core 1.0, 3.1, with PKCE): returns where the browser goes, and
 * what it keeps meanwhile. Throws 403 without a provider, and 503 while it is down.
 */
export async function beginSignIn(world: SignInWorld, search: string) {
  const provider = requireProvider(world)
  if (search.length > LONGEST_SEARCH)
    throw invalid('The address is too long to come back to: sign in first, then load it again')
  const { authorization_endpoint } = await world.workloads.issuerKeys.getEndpoints(provider)
  const expiry = world.clock.now().getTime() + LIFETIME
  const journey = { secret: world.ids.secret(), search, expiry }
  const proofs = deriveProofs(world, journey)
  const location = new URL(authorization_endpoint)
  for (const [name, value] of Object.entries({
    response_type: 'code',
    client_id: provider.client_id,
    redirect_uri: getCallback(world),
    scope: ['openid', 'email', ...(provider.scopes ?? [])].join(' '),
    state: proofs.state,
    nonce: proofs.nonce,
    code_challenge: Bun.CryptoHasher.hash('sha256', proofs.verifier, 'base64url'),
    code_challenge_method: 'S256',
  }))
    location.searchParams.set(name, value)
  return { location: location.href, cookie: sealJourney(world, journey) }
}

const getCallback = (world: SignInWorld): string => `${getConsoleUrl(world)}/auth/callback`

// Each is known only with the cookie, and none leads to another.
const deriveProofs = ({ secrets }: SignInWorld, { secret }: Journey) => ({
  state: secrets.mac(`sign-in state ${secret}`),
  nonce: secrets.mac(`sign-in nonce ${secret}`),
  verifier: secrets.mac(`sign-in verifier ${secret}`),
})

function sealJourney({ secrets }: SignInWorld, journey: Journey): string {
  const text = Buffer.from(JSON.stringify(journey)).toString('base64url')
  return `${text}.${secrets.mac(`sign-in ${text}`)}`
}

function openJourney({ secrets, clock }: SignInWorld, cookie: string | undefined): Journey {
  const [text = '', mac = ''] = (cookie ?? '').split('.')
  const isOurs = isSame(mac, secrets.mac(`sign-in ${text}`))
  const journey = isOurs ? parseObject(Buffer.from(text, 'base64url').toString()) : undefined
  if (!journey || !(Number(journey.expiry) > clock.now().getTime())) throw denied(AGAIN)
  return journey as unknown as Journey
}

// Equal hashes take as long as unequal ones.
const isSame = (a: string, b: string): boolean => hashSecret(a) === hashSecret(b)

const AGAIN = 'This sign-in is too old, or of another browser: begin again'

/** What the provider sends the browser back with. */
interface SignInAnswer {
  code?: string
  state?: string
  iss?: string
  error?: string
}

/**
 * Ends a sign-in: returns the secret of a new session, for twelve hours, and the query to come back
 * to. Throws 403 for an answer to another browser's question, a code that the provider does not
 * take, and a user who is no member; 503 while the provider is down.
 */
export async function finishSignIn(
  world: SignInWorld,
  { code, state, iss, error }: SignInAnswer,
  cookie: string | undefined,
): Promise<{ session: string; search: string }> {
  const provider = requireProvider(world)
  const journey = openJourney(world, cookie)
  const proofs = deriveProofs(world, journey)
  if (state === undefined || !isSame(state, proofs.state)) throw denied(AGAIN)
  // RFC 9207: an answer of another provider.
  if (iss !== undefined && iss !== provider.issuer) throw denied(AGAIN)
  if (error !== undefined || code === undefined) throw denied('The sign-in was refused')
  const idToken = await world.workloads.issuerKeys.exchangeCode(provider, {
    code,
    redirect_uri: getCallback(world),
    code_verifier: proofs.verifier,
  })
  const { payload: claims } = await verifyProviderToken(world, provider, idToken)
  if (typeof claims.nonce !== 'string' || !isSame(claims.nonce, proofs.nonce)) throw denied(AGAIN)
  const member = await findMember(world, provider, claims)
  const there = readProviderSession(provider, claims)
  if (there.subject === null) throw denied(NO_MEMBER)
  await applyGroups(world, provider, member, claims)
  const session = await beginProviderSession(world, member.id, there, claims.iat ?? 0)
  return { session, search: journey.search }
}

/** The longest names of a user and of a session at a provider. */
const LONGEST_NAME = 1_000

/** Reads which user and session of a provider a token names. */
export const readProviderSession = (
  { issuer }: SignInConfig,
  { sub, sid }: JWTPayload,
): ProviderSession => ({ issuer, subject: readName(sub), sid: readName(sid) })

const readName = (claim: unknown): string | null =>
  typeof claim === 'string' && claim !== '' && claim.length <= LONGEST_NAME ? claim : null

/**
 * Verifies a token of the provider that is for this gateway. Throws 403 for any other, and 503 where
 * the provider's keys are not to be had.
 */
export async function verifyProviderToken(
  world: SignInWorld,
  provider: SignInConfig,
  token: string,
): Promise<JWTVerifyResult> {
  const { createLocalJWKSet, jwtVerify } = await import('jose')
  const { issuerKeys } = world.workloads
  const verified = await jwtVerify(
    token,
    async (header, input) =>
      createLocalJWKSet(await issuerKeys.getKeys(provider, header.kid))(header, input),
    {
      ...{ algorithms: ALGORITHMS, issuer: provider.issuer, audience: provider.client_id },
      ...{ clockTolerance: TOLERANCE, currentDate: world.clock.now() },
      requiredClaims: ['exp', 'iat'],
    },
  ).catch(thrown => {
    if (thrown instanceof GatewayError) throw thrown
    throw denied('The provider’s answer cannot be verified')
  })
  // OpenID Connect Core 1.0, 3.1.3.7: a token for several is for the one that azp names.
  const { aud, azp } = verified.payload
  const isOthers = Array.isArray(aud) && aud.length > 1
  if ((isOthers || azp !== undefined) && azp !== provider.client_id)
    throw denied('The provider’s answer is for another')
  return verified
}

/** The same sentence for all, as it tells strangers who is a member otherwise. */
const NO_MEMBER = 'This account is of no member of this gateway'

async function findMember(
  { store }: SignInWorld,
  { domains, claims = {} }: SignInConfig,
  payload: JWTPayload,
): Promise<Member> {
  const { email, email_verified } = payload
  if (typeof email !== 'string' || email_verified !== true) throw denied(NO_MEMBER)
  const domain = email.slice(email.lastIndexOf('@') + 1).toLowerCase()
  if (domains && !domains.includes(domain)) throw denied(NO_MEMBER)
  if (findBrokenRule(payload, claims) !== undefined) throw denied(NO_MEMBER)
  const member = await store.members.findActive(email)
  if (!member) throw denied(NO_MEMBER)
  return member
}

/**
 * Gives a member who signs in the role that their groups have by the config, if it has any: the
 * groups that SCIM lists of those whom it provides, and of others those of their ID token. Who loses
 * a role loses the sessions that had it. The owner of the data directory keeps theirs.
 */
async function applyGroups(
  world: SignInWorld,
  { roles }: SignInConfig,
  member: Member,
  claims: JWTPayload,
): Promise<void> {
  const { id } = member
  if (!roles || id === world.memory.owner.user_id) return
  const groups = await listScimGroups(world, id)
  const role = findHighestRole(roles, groups ?? readGroups(claims[roles.claim ?? 'groups']))
  if (role === member.role) return
  const change = { role, updated_at: getIsoTime(world) }
  const actor = {
    ...{ kind: 'member' as const, user_id: id, key_hash: null },
    workspace_id: world.memory.owner.workspace_id,
  }
  const entry = auditMember(world, actor, member, { ...member, ...change })
  await world.store.members.update(id, change, entry)
  // What a session may do follows the role, so none may more in between.
  if (role === 'org:member')
    await world.store.signIns.endSessions({ user_id: id }, change.updated_at)
}

/** Lists the groups of a member whom SCIM provides; undefined for any other. */
async function listScimGroups(
  { store: { scim } }: SignInWorld,
  id: string,
): Promise<string[] | undefined> {
  const user = await scim.users.byMember(id)
  return user && (await scim.users.listGroups([user.id])).map(({ display_name }) => display_name)
}

const findHighestRole = ({ groups }: RolesConfig, held: string[]): Member['role'] =>
  held.some(group => Object.hasOwn(groups, group) && groups[group] === 'org:admin')
    ? 'org:admin'
    : 'org:member'

// Providers write a single group as a text. Whatever is no list of groups gives none.
const readGroups = (claim: unknown): string[] =>
  [claim].flat().filter(group => typeof group === 'string')

const LOGOUT = 'http://schemas.openid.net/event/backchannel-logout'

/**
 * Ends the sessions that a provider says are over (OpenID Connect Back-Channel Logout 1.0, 2.6 and
 * 2.7): those of one session of its own, or all of a user. Keys that apps were given stay. Throws
 * 400 for a token that is no logout or was used, 403 for one of another, and 503 where the
 * provider's keys are not to be had.
 */
export async function takeLogout(world: SignInWorld, token: string): Promise<void> {
  const provider = requireProvider(world)
  const { payload, protectedHeader } = await verifyProviderToken(world, provider, token)
  checkType(protectedHeader.typ)
  const now = world.clock.now()
  const { jti, iat, exp } = readLogout(payload, now.getTime() / 1000)
  const over = readProviderSession(provider, payload)
  if (over.subject === null && over.sid === null) throw refuse('expected sub or sid')
  const { used } = world.workloads
  const name = ['logout', provider.issuer, jti]
  if (!(await used.mark(name, exp, now))) throw refuse('it was used already')
  // A token that somebody keeps ends nothing that begins after it.
  const until = new Date((iat + TOLERANCE) * 1000).toISOString()
  await endProviderSessions(world, { ...over, at: iat }, until).catch(async thrown => {
    await used.unmark(name)
    throw thrown
  })
}

const refuse = (why: string) => refuseExchange('invalid_request', `logout_token: ${why}`)

// A token without a type is taken (2.4), and one of another type never.
function checkType(type = 'logout+jwt'): void {
  const name = type.toLowerCase().replace(/^application\//, '')
  if (name !== 'logout+jwt' && name !== 'jwt') throw refuse('expected the type logout+jwt')
}

function readLogout(payload: JWTPayload, now: number) {
  const { events, jti, iat = 0, exp = 0 } = payload
  if (!isObject(events) || !isObject(events[LOGOUT])) throw refuse('expected the event of a logout')
  if ('nonce' in payload) throw refuse('expected no nonce')
  if (typeof jti !== 'string' || jti === '') throw refuse('expected a jti')
  if (iat > now + TOLERANCE) throw refuse('it is not yet valid')
  if (exp - iat > LONGEST_LIFE) throw refuse('it lives longer than a day')
  return { jti, iat, exp }
}
