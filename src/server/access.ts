import type { Gateway } from '../app/gateway.ts'
import { denied, unauthenticated } from '../base/errors.ts'
import { type Actor, identify, recognize } from '../resources/actor.ts'
import { identifyScim } from '../resources/scim/tokens.ts'
import { findSession } from '../resources/sign-ins.ts'
import { boundAnonymousBody } from './body.ts'
import { readConsoleSession } from './console.ts'

/** Finds whose a request is, before anything else of it is read, or throws. */
export type Guard<Found> = (context: { request: Request }) => Found | Promise<Found>
type Guarded = { actor: Actor }

/**
 * The credential that a guard requires: any key, any key also in the header of Anthropic's clients,
 * a management key, or an identity provider's token.
 */
export type RequiredCredential = 'key' | 'key-in-either-header' | 'management' | 'scim'

/** The guards in use, for `findRequiredCredential`. */
const GUARDS = new WeakMap<object, RequiredCredential>()

/** Requires a valid key. Throws 401 before anything else of the request is read. */
export const requireKey = (gateway: Gateway) =>
  createGuard('key', ({ request }) => findGuarded(gateway, request.headers.get('authorization')))

/**
 * Requires a valid key, or a session of the console, which makes no calls. Throws 401, and 403 for
 * the session of a member who manages nothing, unless `members` lets them.
 */
export const requireKeyOrSession = (gateway: Gateway, members = false) =>
  createGuard('key', async ({ request }) => {
    const actor = await identifyActor(gateway, request)
    return { actor: members ? actor : refuseMember(actor) }
  })

/**
 * Requires a valid key, also in the header that Anthropic's clients send. `Authorization` takes
 * precedence if both are present. Throws 401.
 */
export const requireKeyInEitherHeader = (gateway: Gateway) =>
  createGuard('key-in-either-header', ({ request: { headers } }) =>
    findGuarded(gateway, headers.get('authorization') || readApiKeyHeader(headers)),
  )

/** Requires a valid key in either header, or a session of a manager at the console. Throws 401. */
export const requireKeyInEitherHeaderOrSession = (gateway: Gateway) =>
  createGuard('key-in-either-header', async ({ request }) => {
    const key = request.headers.get('authorization') || readApiKeyHeader(request.headers)
    return key
      ? findGuarded(gateway, key)
      : { actor: refuseMember(await identifyActor(gateway, request)) }
  })

function refuseMember(actor: Actor): Actor {
  if (actor.kind === 'member') throw denied('Only those who manage the organization can do this')
  return actor
}

/** Finds whose key it is. Returns no promise for a key that is known, as of most calls. */
function findGuarded(gateway: Gateway, authorization: string | null): Guarded | Promise<Guarded> {
  const actor = recognize(gateway, authorization)
  return actor
    ? { actor }
    : identify(gateway, authorization).then((identified): Guarded => ({ actor: identified }))
}

const readApiKeyHeader = (headers: Headers): string | null => {
  const key = headers.get('x-api-key')
  return key ? `Bearer ${key}` : null
}

/**
 * Requires a management key, or the session of somebody who manages; with `members` any session of
 * the console. Throws 401, 403 for whoever else, and 429 for one that has made as many requests in
 * this minute as the config allows.
 */
export const requireManagementKey = (gateway: Gateway, members = false) =>
  createGuard('management', async ({ request }) => {
    const actor = await identifyActor(gateway, request)
    if (actor.kind !== 'management' && !(members && actor.kind === 'member')) throw denied(MANAGED)
    await gateway.traffic.counters.countManagement({ key_hash: actor.key_hash ?? actor.user_id })
    return { actor }
  })

/** Identifies a manager, by key or session. Throws 401, or 403 for any other valid one. */
export async function identifyManager(gateway: Gateway, request: Request): Promise<Actor> {
  const actor = await identifyActor(gateway, request)
  if (actor.kind !== 'management') throw denied(MANAGED)
  return actor
}

const MANAGED = 'Only management keys can perform this operation'

/**
 * Requires an identity provider's token, which is valid nowhere else. Throws 401, or 403 for any
 * valid key.
 */
export const requireScimToken = (gateway: Gateway) =>
  createGuard('scim', async ({ request }) => ({
    actor: await identifyScim(gateway, request.headers.get('authorization')),
  }))

/** Identifies the key of a request or, where it has none, its session of the console. Throws 401. */
export async function identifyActor(gateway: Gateway, request: Request): Promise<Actor> {
  const authorization = request.headers.get('authorization')
  const secret = authorization === null ? readConsoleSession(gateway, request) : undefined
  if (secret === undefined) return identify(gateway, authorization)
  const session = await findSession(gateway, secret)
  if (!session) throw unauthenticated('This session is over: sign in again')
  return session.actor
}

/**
 * Identifies an actor again once a body has arrived, which may take minutes. Throws 401 where what
 * they came with is no longer valid, and 403 where they may something else by now.
 */
export async function recheckActor(
  gateway: Gateway,
  request: Request,
  { kind, workspace_id }: Actor,
): Promise<void> {
  const now = await identifyActor(gateway, request)
  if (now.kind !== kind || now.workspace_id !== workspace_id) throw denied(MANAGED)
}

/** Requires nothing. Declares that a group of routes needs no key, and bounds their bodies. */
export const allowAnyone =
  (): Guard<object> =>
  ({ request }) => {
    boundAnonymousBody(request)
    return {}
  }

/** Returns the credential that the guard among a route's hooks requires; undefined without one. */
export function findRequiredCredential(hooks: unknown): RequiredCredential | undefined {
  const { transform } = hooks as { transform?: { fn: object }[] | { fn: object } }
  return [transform ?? []].flat().flatMap(({ fn }) => GUARDS.get(fn) ?? [])[0]
}

// Elysia awaits what is async, or returns what a function returns, by its source text.
function createGuard(credential: RequiredCredential, guard: Guard<Guarded>): Guard<Guarded> {
  GUARDS.set(guard, credential)
  return guard
}
