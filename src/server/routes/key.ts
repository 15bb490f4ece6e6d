import { describeKey } from '../../core/identity/keys.ts'
import { policyFor } from '../../core/policy/effective.ts'
import { defineResource, route } from '../resource.ts'

/** Creates the route of the caller's own key, with the fields that it may see. */
export const key = defineResource({ tag: 'API Keys', access: 'key' }, [
  route('GET /key', 'getCurrentKey', 'Get the current API key', (gateway, actor) =>
    describeKey(gateway, actor, policyFor(gateway, actor)),
  ),
])
