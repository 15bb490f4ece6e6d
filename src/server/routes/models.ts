import { type Static, Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { GatewayError } from '../../base/errors.ts'
import { open, SomeName } from '../../base/schema-builders.ts'
import { listImageEndpoints, listImageModels } from '../../extensions/image-models.ts'
import { getPolicy } from '../../limits/effective.ts'
import type { Actor } from '../../resources/actor.ts'
import type { Catalog } from '../../resources/models/catalog.ts'
import {
  CallableQuery,
  CountQuery,
  EmbeddingsQuery,
  ModelQuery,
} from '../../resources/models/query.ts'
import type { toPublicModel } from '../../resources/models/view.ts'
import {
  countModels,
  isWhole,
  listCallableModels,
  listEmbeddingsModels,
  listEndpoints,
  listModels,
  listZdrEndpoints,
  retrieveModel,
  showModel,
} from '../../resources/models.ts'
import { defineOperation } from '../../resources/operation.ts'
import { listProviders } from '../../resources/providers.ts'
import { allowAnyone, identifyActor, requireKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { defineResource } from '../resource.ts'
import { Routes } from '../routes.ts'

const describeModelsOperation = (details: Omit<Operation, 'tag'>) =>
  describeOperation({ tag: 'Models', open: true, ...details })
const slug = { author: 'The author, before the slash', slug: 'The model, after the slash' }

/**
 * Creates the routes of models and endpoints. They need no key, as at the public service, except
 * `/models/user`, which depends on the key.
 */
export const createModelRoutes = (gateway: Gateway) => [
  createPublicModelRoutes(gateway),
  createUserModelRoutes(gateway),
]

/** Creates the route of providers. It needs no key, as at the public service. */
export const createProviderRoutes = defineResource({ tag: 'Providers', access: 'open' }, [
  defineOperation('GET /providers', 'listProviders', 'List providers', listProviders),
])

const createPublicModelRoutes = (gateway: Gateway) =>
  new Routes(allowAnyone())
    .get(
      '/models',
      ({ request }) => {
        if (isAnthropics(request))
          return listAsAnthropic(gateway, readQuery(request, AnthropicModelQuery))
        const query = readQuery(request, ModelQuery)
        if (isPlainList(query)) return answerPlainList(gateway, query)
        const list = listModels(gateway, query)
        return query.use_rss === 'true'
          ? renderModelsFeed(list.data, gateway.config.service_name, gateway.instance.siteUrl)
          : list
      },
      describeModelsOperation({
        id: 'getModels',
        summary: 'List models',
        query: ModelQuery,
        statuses: [200, 400, 500],
        produces: ['application/rss+xml'],
      }),
    )
    .get(
      '/models/count',
      ({ request }) => countModels(gateway, readQuery(request, CountQuery)),
      describeModelsOperation({
        id: 'listModelsCount',
        summary: 'Count the models',
        query: CountQuery,
        statuses: [200, 400, 500],
      }),
    )
    .get(
      '/embeddings/models',
      ({ request }) => listEmbeddingsModels(gateway, readQuery(request, EmbeddingsQuery)),
      describeModelsOperation({
        id: 'listEmbeddingsModels',
        summary: 'List the embedding models',
        query: EmbeddingsQuery,
        statuses: [200, 400, 500],
      }),
    )
    .get(
      '/images/models',
      () => listImageModels(gateway),
      describeModelsOperation({
        id: 'listImageModels',
        summary: 'List the models that draw',
        statuses: [200, 500],
      }),
    )
    .get(
      '/images/models/:author/:slug/endpoints',
      ({ params }) => listImageEndpoints(gateway, `${params.author}/${params.slug}`),
      describeModelsOperation({
        id: 'listImageModelEndpoints',
        summary: 'List the endpoints of a model that draws',
        params: slug,
        statuses: [200, 404, 500],
      }),
    )
    .get(
      '/endpoints/zdr',
      () => listZdrEndpoints(gateway),
      describeModelsOperation({
        id: 'listEndpointsZdr',
        summary: 'List the endpoints that retain no data',
        statuses: [200, 500],
      }),
    )
    .get(
      '/model/:author/:slug',
      ({ params }) => showModel(gateway, `${params.author}/${params.slug}`),
      describeModelsOperation({
        id: 'getModel',
        summary: 'Get a model',
        params: slug,
        statuses: [200, 404, 500],
      }),
    )
    .get(
      '/models/:author',
      // A broken escape leaves no parameter.
      ({ params, request }) => retrieveAs(request, retrieveModel(gateway, params.author ?? '')),
      describeModelsOperation({
        id: 'retrieveModelById',
        summary: 'Get a model by its encoded slug, or by its plain name',
        params: { author: 'The slug with its slash encoded, or a name that means one model' },
        statuses: [200, 404, 500],
      }),
    )
    .get(
      '/models/:author/:slug',
      ({ params, request }) =>
        retrieveAs(request, retrieveModel(gateway, `${params.author}/${params.slug}`)),
      describeModelsOperation({
        id: 'retrieveModel',
        summary: 'Get a model as OpenAI’s clients expect it',
        params: slug,
        statuses: [200, 404, 500],
      }),
    )
    .get(
      '/models/:author/:slug/endpoints',
      async ({ params, request }) =>
        listEndpoints(
          gateway,
          `${params.author}/${params.slug}`,
          await findActor(gateway, request),
        ),
      describeModelsOperation({
        id: 'listEndpoints',
        summary: 'List the endpoints of a model',
        params: slug,
        statuses: [200, 404, 500],
      }),
    )

/** Anthropic’s clients say the version of their API, and expect its form (wire reference A.8). */
const isAnthropics = ({ headers }: Request): boolean => headers.has('anthropic-version')

const AnthropicModelQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    after_id: Type.Optional(SomeName),
    before_id: Type.Optional(SomeName),
  },
  open,
)

/** Lists a page of the models that `/models` lists, in Anthropic’s form. */
function listAsAnthropic(
  gateway: Gateway,
  { limit = 20, after_id, before_id }: Static<typeof AnthropicModelQuery>,
) {
  const { data: all } = listModels(gateway)
  const start = all.findIndex(({ id }) => id === after_id) + 1
  const end = before_id === undefined ? -1 : all.findIndex(({ id }) => id === before_id)
  const rest = all.slice(start, end === -1 ? undefined : end)
  const page = before_id === undefined ? rest.slice(0, limit) : rest.slice(-limit)
  return {
    data: page.map(showAsAnthropic),
    has_more: rest.length > page.length,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  }
}

const showAsAnthropic = ({ id, name, created }: ReturnType<typeof toPublicModel>) => ({
  type: 'model' as const,
  id,
  display_name: name,
  created_at: new Date(created * 1000).toISOString(),
})

const retrieveAs = (request: Request, model: ReturnType<typeof retrieveModel>) =>
  isAnthropics(request) ? showAsAnthropic(model) : model

const isPlainList = (query: ModelQuery) => Object.keys(query).every(name => name === 'all')

/** The rendered lists of each catalogue: of the whole, and of what can be called. */
const plainLists = new WeakMap<Catalog, Map<boolean, string>>()

// Anyone may ask for them as often as they like, and they change with the catalogue only.
function answerPlainList(gateway: Gateway, query: ModelQuery): Response {
  const lists = plainLists.get(gateway.catalog) ?? new Map<boolean, string>()
  plainLists.set(gateway.catalog, lists)
  const whole = isWhole(gateway, query)
  const text = lists.get(whole) ?? JSON.stringify(listModels(gateway, query))
  lists.set(whole, text)
  return new Response(text, { headers: { 'content-type': 'application/json;charset=utf-8' } })
}

const createUserModelRoutes = (gateway: Gateway) =>
  new Routes(requireKey(gateway)).get(
    '/models/user',
    ({ actor, request }) =>
      listCallableModels(
        gateway,
        readQuery(request, CallableQuery),
        getPolicy(gateway, actor).rules,
        actor,
      ),
    describeModelsOperation({
      id: 'listModelsUser',
      summary: 'List the models that this key can call',
      query: CallableQuery,
      statuses: [200, 400, 401, 500],
      open: false,
    }),
  )

/**
 * Renders models as an RSS 2.0 feed: one item per model, dated with its release if it is known. All
 * links are under the site's URL.
 */
export function renderModelsFeed(
  models: ReturnType<typeof toPublicModel>[],
  title: string,
  siteUrl: string,
): Response {
  const site = siteUrl.replace(/\/$/, '')
  const items = models.map(model => renderItem(model, site)).join('')
  const name = escapeXml(title)
  const channel =
    `<title>${name} models</title><link>${escapeXml(`${site}/`)}</link>` +
    `<description>Models that ${name} knows</description>`
  const xml =
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    `<rss version="2.0"><channel>${channel}${items}</channel></rss>\n`
  return new Response(xml, { headers: { 'content-type': 'application/rss+xml; charset=utf-8' } })
}

function renderItem(
  { id, name, description, created, links }: ReturnType<typeof toPublicModel>,
  site: string,
): string {
  const date = created === 0 ? {} : { pubDate: new Date(created * 1000).toUTCString() }
  const fields = { title: name, link: site + links.details, description, ...date }
  const elements = Object.entries(fields).map(
    ([tag, text]) => `<${tag}>${escapeXml(text)}</${tag}>`,
  )
  return `<item>${elements.join('')}<guid isPermaLink="false">${escapeXml(id)}</guid></item>`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

const escapeXml = (text: string) =>
  removeForbidden(Bun.stripANSI(text)).replace(/[&<>"]/g, sign => ENTITIES[sign] ?? sign)

// Removes the characters that XML forbids, even escaped (XML 1.0, 2.2): controls, lone surrogates
// and two noncharacters.
const removeForbidden = (text: string) =>
  text.replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')

/** Identifies the caller of a route that needs no key. Returns null without a valid key. */
const findActor = (gateway: Gateway, request: Request): Promise<Actor | null> =>
  identifyActor(gateway, request).catch(thrown => {
    if (GatewayError.from(thrown).type === 'authentication') return null
    throw thrown
  })
