import { describeKey } from '../../core/identity/keys.ts'
import { getPolicy } from '../../core/policy/effective.ts'
import { defineResource, defineRoute } from '../resource.ts'

/** Creates the route of the caller's own key, with the fields that it may see. */
export const createCurrentKeyRoutes = defineResource({ tag: 'API Keys', access: 'key' }, [
  defineRoute('GET /key', 'getCurrentKey', 'Get the current API key', (gateway, actor) =>
    describeKey(gateway, actor, getPolicy(gateway, actor)),
  ),
])
