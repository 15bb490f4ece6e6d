import { Elysia } from 'elysia'
import { listProviders } from '../../core/catalog/providers.ts'
import type { Gateway } from '../../core/gateway.ts'
import { nobody } from '../access.ts'
import { operation } from '../operation.ts'

/** Who serves models. Read without a key, as the public service serves it. */
export const providers = (gateway: Gateway) =>
  new Elysia()
    .use(nobody())
    .get(
      '/providers',
      () => listProviders(gateway),
      operation({ id: 'listProviders', tag: 'Providers', summary: 'List providers', statuses: [200, 500], open: true }),
    )
