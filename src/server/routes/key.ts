import { getPolicy } from '../../limits/effective.ts'
import { describeKey } from '../../resources/keys.ts'
import { defineOperation } from '../../resources/operation.ts'
import { defineResource } from '../resource.ts'

/** Creates the route of the caller's own key, with the fields that it may see. */
export const createCurrentKeyRoutes = defineResource({ tag: 'API Keys', access: 'key' }, [
  defineOperation('GET /key', 'getCurrentKey', 'Get the current API key', (gateway, actor) =>
    describeKey(gateway, actor, getPolicy(gateway, actor)),
  ),
])
