import { Elysia } from 'elysia'
import { denied } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { type Actor, identify } from '../core/identity/actor.ts'
import { identifyScim } from '../core/identity/scim/tokens.ts'

type Guard = (context: { request: Request }) => Promise<{ actor: Actor }>

/** The guards in use: what `isGuarded` looks for. */
const GUARDS = new WeakSet<object>()

/** Any good key. Throws 401 before anything else of the request is looked at. */
export const anyKey = (gateway: Gateway) => guarded(async ({ request }) => ({ actor: await actorOf(gateway, request) }))

/** Any good key, also in the header that Anthropic's clients send. `Authorization` rules where both are there. Throws 401. */
export const anyKeyInEitherHeader = (gateway: Gateway) =>
  guarded(async ({ request: { headers } }) => ({ actor: await identify(gateway, headers.get('authorization') || bearer(headers)) }))

const bearer = (headers: Headers): string | null => {
  const key = headers.get('x-api-key')
  return key ? `Bearer ${key}` : null
}

/** A management key. Throws 401, or 403 for any other good key. */
export const managementKey = (gateway: Gateway) =>
  guarded(async ({ request }) => {
    const actor = await actorOf(gateway, request)
    if (actor.kind !== 'management') throw denied('Only management keys can perform this operation')
    return { actor }
  })

/** The token of an identity provider, which opens nothing else. Throws 401, or 403 for any good key. */
export const scimToken = (gateway: Gateway) =>
  guarded(async ({ request }) => ({ actor: await identifyScim(gateway, request.headers.get('authorization')) }))

const actorOf = (gateway: Gateway, request: Request) => identify(gateway, request.headers.get('authorization'))

/** Everybody. A group that may be read without a key says so. */
export const nobody = () => new Elysia()

/** Whether a route's hooks hold one of the guards. */
export function isGuarded(hooks: unknown): boolean {
  const { transform } = hooks as { transform?: { fn: object }[] | { fn: object } }
  return [transform ?? []].flat().some(({ fn }) => GUARDS.has(fn))
}

// Scoped, so that it guards the group that uses it and no other; a derive, so that it runs before the body is looked at.
function guarded(guard: Guard) {
  GUARDS.add(guard)
  return new Elysia().derive({ as: 'scoped' }, guard)
}
