import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { describeKey } from '../../core/identity/keys.ts'
import { policyFor } from '../../core/policy/effective.ts'
import { anyKey } from '../access.ts'
import { operation } from '../operation.ts'

/** The key that asks, as it may see itself. */
export const key = (gateway: Gateway) =>
  new Elysia({ prefix: '/key' })
    .use(anyKey(gateway))
    .get(
      '/',
      ({ actor }) => describeKey(gateway, actor, policyFor(gateway, actor)),
      operation({ id: 'getCurrentKey', tag: 'API Keys', summary: 'Get the current API key', statuses: [200, 401, 500] }),
    )
