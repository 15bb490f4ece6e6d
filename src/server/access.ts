import { Elysia } from 'elysia'
import { denied } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { type Actor, authenticate } from '../core/identity/actor.ts'

/** Any good key. Throws 401 before anything else of the request is looked at. */
export const anyKey = (gateway: Gateway) =>
  new Elysia().derive({ as: 'scoped' }, ({ request }): { actor: Actor } => ({ actor: authenticate(gateway, request.headers.get('authorization')) }))

/** A management key. Throws 401, or 403 for any other good key. */
export const managementKey = (gateway: Gateway) =>
  new Elysia().derive({ as: 'scoped' }, ({ request }): { actor: Actor } => {
    const actor = authenticate(gateway, request.headers.get('authorization'))
    if (actor.kind !== 'management') throw denied('Only management keys can perform this operation')
    return { actor }
  })

/** Everybody. A route that may be read without a key says so. */
export const nobody = () => new Elysia()
