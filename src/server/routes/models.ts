import { Elysia } from 'elysia'
import {
  CallableQuery,
  CountQuery,
  ModelQuery,
  PageQuery,
} from '../../core/catalog/models/query.ts'
import {
  countModels,
  listCallableModels,
  listEmbeddingsModels,
  listEndpoints,
  listModels,
  listZdrEndpoints,
  showModel,
} from '../../core/catalog/models.ts'
import type { Gateway } from '../../core/gateway.ts'
import { policyFor } from '../../core/policy/effective.ts'
import { anybody, anyKey, nobody } from '../access.ts'
import { readQuery } from '../body.ts'
import { modelsFeed } from '../models-feed.ts'
import { type Operation, operation } from '../operation.ts'

const modelsOperation = (described: Omit<Operation, 'tag'>) =>
  operation({ tag: 'Models', open: true, ...described })
const slug = { author: 'The author, before the slash', slug: 'The model, after the slash' }

/**
 * Creates the routes of models and endpoints. They need no key, as at the public service, except
 * `/models/user`, which depends on the key.
 */
export const models = (gateway: Gateway, siteUrl: string) =>
  new Elysia().use(publicModels(gateway, siteUrl)).use(userModels(gateway))

const publicModels = (gateway: Gateway, siteUrl: string) =>
  new Elysia()
    .use(nobody())
    .get(
      '/models',
      ({ request }) => {
        const query = readQuery(request.url, ModelQuery)
        const list = listModels(gateway, query)
        return query.use_rss === 'true'
          ? modelsFeed(list.data, gateway.config.service_name, new URL(siteUrl, request.url))
          : list
      },
      modelsOperation({
        id: 'getModels',
        summary: 'List models',
        query: ModelQuery,
        statuses: [200, 400, 500],
        produces: ['application/rss+xml'],
      }),
    )
    .get(
      '/models/count',
      ({ request }) => countModels(gateway, readQuery(request.url, CountQuery)),
      modelsOperation({
        id: 'listModelsCount',
        summary: 'Count the models',
        query: CountQuery,
        statuses: [200, 400, 500],
      }),
    )
    .get(
      '/embeddings/models',
      ({ request }) => listEmbeddingsModels(gateway, readQuery(request.url, PageQuery)),
      modelsOperation({
        id: 'listEmbeddingsModels',
        summary: 'List the embedding models',
        query: PageQuery,
        statuses: [200, 400, 500],
      }),
    )
    .get(
      '/endpoints/zdr',
      () => listZdrEndpoints(gateway),
      modelsOperation({
        id: 'listEndpointsZdr',
        summary: 'List the endpoints that retain no data',
        statuses: [200, 500],
      }),
    )
    .get(
      '/model/:author/:slug',
      ({ params }) => showModel(gateway, `${params.author}/${params.slug}`),
      modelsOperation({
        id: 'getModel',
        summary: 'Get a model',
        params: slug,
        statuses: [200, 404, 500],
      }),
    )
    .get(
      '/models/:author/:slug/endpoints',
      async ({ params, request }) =>
        listEndpoints(gateway, `${params.author}/${params.slug}`, await anybody(gateway, request)),
      modelsOperation({
        id: 'listEndpoints',
        summary: 'List the endpoints of a model',
        params: slug,
        statuses: [200, 404, 500],
      }),
    )

const userModels = (gateway: Gateway) =>
  new Elysia().use(anyKey(gateway)).get(
    '/models/user',
    ({ actor, request }) =>
      listCallableModels(
        gateway,
        readQuery(request.url, CallableQuery),
        policyFor(gateway, actor).rules,
      ),
    modelsOperation({
      id: 'listModelsUser',
      summary: 'List the models that this key can call',
      query: CallableQuery,
      statuses: [200, 400, 401, 500],
      open: false,
    }),
  )
