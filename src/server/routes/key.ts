import { describeKey } from '../../core/identity/keys.ts'
import { policyFor } from '../../core/policy/effective.ts'
import { defineResource, route } from '../resource.ts'

/** The key that asks, as it may see itself. */
export const key = defineResource({ tag: 'API Keys', access: 'key' }, [
  route('GET /key', 'getCurrentKey', 'Get the current API key', (gateway, actor) =>
    describeKey(gateway, actor, policyFor(gateway, actor)),
  ),
])
