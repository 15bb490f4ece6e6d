import { listProviders } from '../../core/catalog/providers.ts'
import { defineResource, route } from '../resource.ts'

/** Who serves models. Read without a key, as the public service serves it. */
export const providers = defineResource({ tag: 'Providers', access: 'open' }, [
  route('GET /providers', 'listProviders', 'List providers', listProviders),
])
