import { Elysia } from 'elysia'
import { shownEndpoints, shownModel } from '../../core/catalog/models/shown.ts'
import { getModel, listModels, ModelQuery } from '../../core/catalog/models.ts'
import type { Gateway } from '../../core/gateway.ts'
import { nobody } from '../access.ts'
import { readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const modelsOperation = (described: Omit<Operation, 'tag' | 'open'>) => operation({ tag: 'Models', open: true, ...described })
const slug = { author: 'The author, before the slash', slug: 'The model, after the slash' }

/** What can be called. Read without a key, as the public service serves it. */
export const models = (gateway: Gateway) =>
  new Elysia()
    .use(nobody())
    .get(
      '/models',
      ({ request }) => listModels(gateway, readQuery(request.url, ModelQuery)),
      modelsOperation({ id: 'getModels', summary: 'List models', query: ModelQuery, statuses: [200, 400, 500] }),
    )
    .get(
      '/model/:author/:slug',
      ({ params }) => ({ data: shownModel(getModel(gateway, `${params.author}/${params.slug}`)) }),
      modelsOperation({ id: 'getModel', summary: 'Get a model', params: slug, statuses: [200, 404, 500] }),
    )
    .get(
      '/models/:author/:slug/endpoints',
      ({ params }) => ({ data: shownEndpoints(getModel(gateway, `${params.author}/${params.slug}`)) }),
      modelsOperation({ id: 'listEndpoints', summary: 'List the endpoints of a model', params: slug, statuses: [200, 404, 500] }),
    )
