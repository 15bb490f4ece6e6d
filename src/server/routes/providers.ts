import { listProviders } from '../../core/catalog/providers.ts'
import { defineResource, route } from '../resource.ts'

/** Creates the route of providers. It needs no key, as at the public service. */
export const providers = defineResource({ tag: 'Providers', access: 'open' }, [
  route('GET /providers', 'listProviders', 'List providers', listProviders),
])
