import { defineOperation } from '../../resources/operation.ts'
import { listProviders } from '../../resources/providers.ts'
import { defineResource } from '../resource.ts'

/** Creates the route of providers. It needs no key, as at the public service. */
export const createProviderRoutes = defineResource({ tag: 'Providers', access: 'open' }, [
  defineOperation('GET /providers', 'listProviders', 'List providers', listProviders),
])
