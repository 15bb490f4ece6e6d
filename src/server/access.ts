import { Elysia } from 'elysia'
import { denied, GatewayError } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { type Actor, identify } from '../core/identity/actor.ts'
import { identifyScim } from '../core/identity/scim/tokens.ts'

type Guard = (context: { request: Request }) => Promise<{ actor: Actor }>

/** What a guard opens to: any key, also where it comes in the header of Anthropic's clients, management keys, or an identity provider. */
export type Opens = 'key' | 'key-in-either-header' | 'management' | 'scim'

/** The guards in use: what `guardOf` looks for. */
const GUARDS = new WeakMap<object, Opens>()

/** Any good key. Throws 401 before anything else of the request is looked at. */
export const anyKey = (gateway: Gateway) =>
  guarded('key', async ({ request }) => ({ actor: await actorOf(gateway, request) }))

/** Any good key, also in the header that Anthropic's clients send. `Authorization` rules where both are there. Throws 401. */
export const anyKeyInEitherHeader = (gateway: Gateway) =>
  guarded('key-in-either-header', async ({ request: { headers } }) => ({
    actor: await identify(gateway, headers.get('authorization') || bearer(headers)),
  }))

const bearer = (headers: Headers): string | null => {
  const key = headers.get('x-api-key')
  return key ? `Bearer ${key}` : null
}

/** A management key. Throws 401, or 403 for any other good key. */
export const managementKey = (gateway: Gateway) =>
  guarded('management', async ({ request }) => {
    const actor = await actorOf(gateway, request)
    if (actor.kind !== 'management') throw denied('Only management keys can perform this operation')
    return { actor }
  })

/** The token of an identity provider, which opens nothing else. Throws 401, or 403 for any good key. */
export const scimToken = (gateway: Gateway) =>
  guarded('scim', async ({ request }) => ({
    actor: await identifyScim(gateway, request.headers.get('authorization')),
  }))

const actorOf = (gateway: Gateway, request: Request) =>
  identify(gateway, request.headers.get('authorization'))

/** Who asks at a door that is open to all; null for whoever has no good key. */
export const anybody = (gateway: Gateway, request: Request): Promise<Actor | null> =>
  actorOf(gateway, request).catch(thrown => {
    if (GatewayError.from(thrown).type === 'authentication') return null
    throw thrown
  })

/** Everybody. A group that may be read without a key says so. */
export const nobody = () => new Elysia()

/** What the guard among a route's hooks opens to; undefined where there is none. */
export function guardOf(hooks: unknown): Opens | undefined {
  const { transform } = hooks as { transform?: { fn: object }[] | { fn: object } }
  return [transform ?? []].flat().flatMap(({ fn }) => GUARDS.get(fn) ?? [])[0]
}

// Scoped, so that it guards the group that uses it and no other; a derive, so that it runs before the body is looked at.
function guarded(opens: Opens, guard: Guard) {
  GUARDS.set(guard, opens)
  return new Elysia().derive({ as: 'scoped' }, guard)
}
