import { Elysia } from 'elysia'
import type { Gateway } from '../app/gateway.ts'
import { denied, GatewayError } from '../base/errors.ts'
import { type Actor, identify, recognize } from '../resources/actor.ts'
import { identifyScim } from '../resources/scim/tokens.ts'
import { boundAnonymousBody } from './body.ts'

type Guard = (context: { request: Request }) => Guarded | Promise<Guarded>
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
 * Requires a valid key, also in the header that Anthropic's clients send. `Authorization` takes
 * precedence if both are present. Throws 401.
 */
export const requireKeyInEitherHeader = (gateway: Gateway) =>
  createGuard('key-in-either-header', ({ request: { headers } }) =>
    findGuarded(gateway, headers.get('authorization') || readApiKeyHeader(headers)),
  )

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
 * Requires a management key. Throws 401, 403 for any other valid key, and 429 for one that has made
 * as many requests in this minute as the config allows.
 */
export const requireManagementKey = (gateway: Gateway) =>
  createGuard('management', async ({ request }) => {
    const actor = await identifyManager(gateway, request)
    gateway.traffic.counters.countManagement(actor)
    return { actor }
  })

/** Identifies a management key. Throws 401, or 403 for any other valid key. */
export async function identifyManager(gateway: Gateway, request: Request): Promise<Actor> {
  const actor = await identifyActor(gateway, request)
  if (actor.kind !== 'management') throw denied('Only management keys can perform this operation')
  return actor
}

/**
 * Requires an identity provider's token, which is valid nowhere else. Throws 401, or 403 for any
 * valid key.
 */
export const requireScimToken = (gateway: Gateway) =>
  createGuard('scim', async ({ request }) => ({
    actor: await identifyScim(gateway, request.headers.get('authorization')),
  }))

const identifyActor = (gateway: Gateway, request: Request) =>
  identify(gateway, request.headers.get('authorization'))

/** Identifies the caller of a route that needs no key. Returns null without a valid key. */
export const findActor = (gateway: Gateway, request: Request): Promise<Actor | null> =>
  identifyActor(gateway, request).catch(thrown => {
    if (GatewayError.from(thrown).type === 'authentication') return null
    throw thrown
  })

/** Requires nothing. Declares that a group of routes needs no key, and bounds their bodies. */
export const allowAnyone = () =>
  new Elysia().derive({ as: 'scoped' }, ({ request }) => {
    boundAnonymousBody(request)
    return {}
  })

/** Returns the credential that the guard among a route's hooks requires; undefined without one. */
export function findRequiredCredential(hooks: unknown): RequiredCredential | undefined {
  const { transform } = hooks as { transform?: { fn: object }[] | { fn: object } }
  return [transform ?? []].flat().flatMap(({ fn }) => GUARDS.get(fn) ?? [])[0]
}

// Scoped, so that it guards only the group that uses it. A derive, so that it runs before the body
// is read. Elysia awaits what is async, or returns what a function returns, by its source text.
function createGuard(credential: RequiredCredential, guard: Guard) {
  GUARDS.set(guard, credential)
  return new Elysia().derive({ as: 'scoped' }, guard)
}
