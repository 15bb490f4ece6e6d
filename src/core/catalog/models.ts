import type { Config, ModelConfig } from '../config.ts'
import { invalid, notFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { pageOf } from '../kernel/pages.ts'
import type { Router } from '../language/routing.ts'
import { routerCalled } from '../language/routing.ts'
import { type BuiltIn, readingOnce } from './models/built-in.ts'
import { costsNothing } from './models/free.ts'
import { LazyModels } from './models/lazy.ts'
import {
  type CountQuery,
  keepsNothing,
  type ModelQuery,
  matching,
  type PageQuery,
} from './models/query.ts'
import { type Measured, shownEndpoint, shownEndpoints, shownModel } from './models/shown.ts'
import { openParameters } from './parameters.ts'
import type { Prices } from './prices.ts'
import { openProviders, type Provider } from './providers.ts'
import { routerModelCalled, routerModels } from './routers.ts'
import type { CatalogWorld } from './world.ts'

/** A rule that keeps calls away from endpoints. */
export interface EndpointRule {
  excludes(endpoint: Endpoint): boolean
}

/** One model at one provider, to which a call is sent. */
export interface Endpoint {
  /**
   * Unique, and stable whenever the catalogue or callers' keys are read again. What is measured of
   * the endpoint is stored by it.
   */
  id: string
  provider: Provider
  /** The protocol: the provider's own, unless this model has another. */
  protocol: string
  /** Our slug of the model. */
  model: string
  /** The provider's own name for it. */
  upstreamModel: string
  prices: Prices | null
  context_length: number | null
  max_completion_tokens: number | null
  /** Null means all. */
  supported_parameters: Set<string> | null
  data_policy: { training: boolean; retention_days: number | null }
  region: string | null
  quantization: string
  /** Whether the model's author is known to allow training other models on its texts. */
  distillable: boolean
  /** Whether it uses a caller's own credential instead of the gateway's. */
  is_byok: boolean
}

/** A model: what can be called under one slug. */
export interface Model {
  id: string
  name: string
  description: string
  /** The time of its release in Unix seconds. Null where it is not known. */
  created: number | null
  context_length: number | null
  input_modalities: string[]
  output_modalities: string[]
  /** Null unless it is known to reason. */
  reasoning: { mandatory: boolean; supported_efforts?: string[] } | null
  endpoints: Endpoint[]
  /** Set for a router, which is a choice among models and no model itself. */
  router?: Router
}

/** The models by slug. `get` and `has` know aliases too, `values` and `size` do not count them. */
export interface Models {
  get(slug: string): Model | undefined
  has(slug: string): boolean
  values(): Iterable<Model>
  readonly size: number
}

/** The known models and providers. A model can be called if a configured provider serves it. */
export interface Catalog {
  models: Models
  providers: Map<string, Provider>
  /**
   * The time at which the first catalogue was opened. It is the age of models that only the config
   * knows.
   */
  since: Date
  /** The number of catalogues that this process has opened, this one included. */
  edition: number
  /** Returns the built-in catalogue. It is read once, on first use. */
  builtIn: () => BuiltIn
}

// Named as sandboxes: their answers are made in this process and cost nothing.
const SANDBOX: ModelConfig[] = [
  {
    id: 'sandbox/echo',
    name: 'Sandbox: Echo',
    description:
      'A sandbox, not a model: it repeats the message, needs no network and costs nothing.',
    context_length: 1_000_000,
    input_modalities: ['text', 'image', 'file', 'audio'],
    endpoints: [
      { provider: 'sandbox', model: 'echo', data_policy: { training: false, retention_days: 0 } },
    ],
  },
  {
    id: 'sandbox/embed',
    name: 'Sandbox: Embed',
    description:
      'A sandbox, not a model: it computes vectors from the words themselves, needs no network ' +
      'and costs nothing.',
    context_length: 1_000_000,
    output_modalities: ['embeddings'],
    endpoints: [
      { provider: 'sandbox', model: 'embed', data_policy: { training: false, retention_days: 0 } },
    ],
  },
]

/**
 * Opens the catalogue: the config's models over the built-in ones. If a model of the config has a
 * built-in id, its fields override that model's. Its endpoints come first and replace the built-in
 * ones of the same providers. A provider's credential alone makes all of its built-in models
 * callable. What `before` has for unchanged settings is kept. Throws `invalid_request` naming the
 * first setting that is wrong.
 */
export function openCatalog(
  config: Config,
  protocols: string[],
  now: Date,
  before?: Pick<CatalogWorld, 'config' | 'catalog'>,
): Catalog {
  const {
    since,
    builtIn,
    edition: last,
  } = before?.catalog ?? { since: now, builtIn: readingOnce(), edition: 0 }
  const edition = last + 1
  const { providers, faults } = openProviders(config.providers, protocols, edition, before)
  const [fault] = faults
  if (fault)
    throw invalid(
      `providers.${fault.slug}.${fault.field}: expected ${fault.expected}`,
      `providers.${fault.slug}.${fault.field}`,
    )
  const given = new Map([...SANDBOX, ...config.models].map(model => [model.id, model]))
  checkIds(config.models)
  for (const [i, model] of config.models.entries())
    checkEndpoints(model, `models.${i}`, providers, protocols)
  const created = Math.floor(since.getTime() / 1000)
  const models = new LazyModels(given, builtIn, {
    providers,
    protocols,
    created,
    parametersOf: openParameters(),
  })
  if (
    !given.has(config.default_model) &&
    !routerCalled(config, config.default_model) &&
    !models.has(config.default_model)
  )
    throw invalid(
      `default_model: expected a model of the catalogue, found ${config.default_model}`,
      'default_model',
    )
  return { models, providers, since, edition, builtIn }
}

function checkIds(models: ModelConfig[]): void {
  const seen = new Set<string>()
  for (const [i, { id }] of models.entries()) {
    if (seen.has(id))
      throw invalid(
        `models.${i}.id: expected one that no other model has, found ${id}`,
        `models.${i}.id`,
      )
    seen.add(id)
  }
}

function checkEndpoints(
  { endpoints }: ModelConfig,
  path: string,
  providers: Map<string, Provider>,
  protocols: string[],
): void {
  for (const [i, { provider, protocol }] of endpoints.entries()) {
    const at = `${path}.endpoints.${i}`
    if (!providers.get(provider)?.configured) {
      const configured = [...providers.values()].filter(one => one.configured).map(one => one.slug)
      throw invalid(
        `${at}.provider: expected one of ${configured.join(', ')}, found ${provider}`,
        `${at}.provider`,
      )
    }
    if (protocol && !protocols.includes(protocol)) throw unspoken(`${at}.protocol`, protocols)
  }
}

const unspoken = (path: string, protocols: string[]) =>
  invalid(`${path}: expected one of ${protocols.join(', ')}`, path)

/** Returns the model with this slug or alias, or a router. Throws 404. */
export function getModel(gateway: CatalogWorld, id: string): Model {
  const model = modelCalled(gateway, id) ?? routerModelCalled(gateway.config, id)
  if (!model) throw notFound(`${JSON.stringify(id.slice(0, 200))} is not a model of this gateway`)
  return model
}

/** Finds the model that a name stands for, with or without a variant. */
export const modelCalled = ({ catalog: { models } }: CatalogWorld, id: string): Model | undefined =>
  models.get(id) ?? models.get(withoutVariant(id))

// These variants say how to choose an endpoint, not which model is called. `:free` is another
// model.
const withoutVariant = (id: string) => id.replace(/:(nitro|floor|exacto|online|thinking)$/, '')

/**
 * Returns a model as `GET /model/{author}/{slug}` shows it. An alias also names its target. Throws
 * 404.
 */
export function showModel(gateway: CatalogWorld, id: string) {
  const model = getModel(gateway, id)
  const shown = shownModel(model)
  const isAlias = model.id !== id && model.id !== withoutVariant(id)
  return {
    data: isAlias ? { ...shown, id, alias_target: { slug: model.id, name: model.name } } : shown,
  }
}

/**
 * Returns a model with its endpoints, as `GET /models/{author}/{slug}/endpoints` shows it. Only
 * callers with a key see latency and throughput (wire reference A.13). Throws 404.
 */
export function listEndpoints(gateway: CatalogWorld, id: string, actor: Actor | null) {
  return {
    data: shownEndpoints(getModel(gateway, id), endpoint => measured(gateway, endpoint, actor)),
  }
}

function measured(
  { traffic: { health } }: CatalogWorld,
  endpoint: Endpoint,
  actor: Actor | null,
): Measured {
  const all = health.shown(endpoint)
  return actor ? all : { ...all, latency_last_30m: null, throughput_last_30m: null }
}

/**
 * Lists the models that match the query, as `GET /models` shows them: one page, or all where the
 * query names no page.
 */
export function listModels(gateway: CatalogWorld, query: ModelQuery = {}) {
  return linkedPageOf(
    matching(allModels(gateway), query, gateway.clock.now()),
    query,
    '/api/v1/models',
  )
}

/** Yields all models and then the routers, which clients select like models. */
function* allModels({ config, catalog }: CatalogWorld): Iterable<Model> {
  yield* catalog.models.values()
  yield* routerModels(config)
}

/**
 * Lists the models that this gateway can call under these rules, each with its callable endpoints
 * only, as `GET /models/user` shows them.
 */
export function listCallableModels(
  gateway: CatalogWorld,
  query: ModelQuery = {},
  rules: EndpointRule[] = [],
) {
  const models = [...callable(gateway.catalog.models.values(), rules)]
  const all = [...models, ...choosing(gateway, models)]
  return linkedPageOf(matching(all, query, gateway.clock.now()), query, '/api/v1/models/user')
}

function* callable(models: Iterable<Model>, rules: EndpointRule[]): Iterable<Model> {
  for (const model of models) {
    const endpoints = model.endpoints.filter(
      endpoint => endpoint.provider.configured && !rules.some(rule => rule.excludes(endpoint)),
    )
    if (endpoints.length > 0) yield { ...model, endpoints }
  }
}

/** Lists the routers that can choose among these models. */
function choosing({ config }: CatalogWorld, models: Model[]): Model[] {
  const texts = models.filter(({ output_modalities }) => output_modalities.includes('text'))
  const isFreeThere = texts.some(({ endpoints }) => endpoints.some(costsNothing))
  return routerModels(config).filter(({ router }) =>
    router === 'free' ? isFreeThere : texts.length > 0,
  )
}

/** Lists the embedding models, as `GET /embeddings/models` shows them. */
export function listEmbeddingsModels(gateway: CatalogWorld, page: PageQuery = {}) {
  const query = { ...page, output_modalities: 'embeddings' }
  return linkedPageOf(
    matching(gateway.catalog.models.values(), query, gateway.clock.now()),
    page,
    '/api/v1/embeddings/models',
  )
}

/** Counts the models that match the query, as `GET /models/count` shows it. */
export function countModels(gateway: CatalogWorld, query: CountQuery = {}) {
  return { data: { count: matching(allModels(gateway), query, gateway.clock.now()).length } }
}

/**
 * Lists every endpoint that retains nothing it is sent, as `GET /endpoints/zdr` shows them. The
 * sandbox is left out: it has no provider that could retain anything.
 */
export function listZdrEndpoints(gateway: CatalogWorld) {
  const models = [...gateway.catalog.models.values()].filter(model =>
    SANDBOX.every(({ id }) => id !== model.id),
  )
  return {
    data: models.flatMap(model =>
      model.endpoints
        .filter(keepsNothing)
        .map(endpoint => shownEndpoint(model, endpoint, measured(gateway, endpoint, null))),
    ),
  }
}

function linkedPageOf(models: Model[], query: ModelQuery, path: string) {
  const { offset = 0, limit = query.offset === undefined ? models.length : 500 } = query
  const following = textsOf({ ...query, offset: offset + limit, limit })
  const next = offset + limit < models.length ? `${path}?${new URLSearchParams(following)}` : null
  const { data, total_count } = pageOf(models, { offset, limit }, shownModel)
  return { data, links: { next }, total_count }
}

const textsOf = (query: object) =>
  Object.entries(query).map(([name, value]) => [name, String(value)])
