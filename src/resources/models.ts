import { notFound } from '../base/errors.ts'
import { toPage } from '../base/pages.ts'
import { createConfigError, type FoundIssue } from '../config/issues.ts'
import type { Config, ModelConfig } from '../config.ts'
import type { TextDialect } from '../language/dialect.ts'
import { findRouter } from '../language/routing.ts'
import type { Actor } from './actor.ts'
import type { DecryptedKey } from './byok/decrypted-keys.ts'
import { listUsableByokKeys } from './byok.ts'
import type { CatalogWorld } from './catalog-world.ts'
import { type BuiltInModels, createBuiltInReader } from './models/built-in.ts'
import type {
  Catalog,
  Endpoint,
  EndpointRule,
  EndpointStats,
  Model,
  Models,
} from './models/catalog.ts'
import { isFreeEndpoint, isPattern } from './models/derived.ts'
import { LazyModels } from './models/lazy.ts'
import {
  type CountQuery,
  type EmbeddingsQuery,
  filterModels,
  hasZeroRetention,
  type ModelQuery,
} from './models/query.ts'
import { toPublicEndpoint, toPublicEndpoints, toPublicModel } from './models/view.ts'
import { createParameterLookup } from './parameters.ts'
import type { Preset } from './presets/store.ts'
import { describeCredential, needsCredential } from './providers/environment.ts'
import type { Provider } from './providers/provider.ts'
import { isKnownProvider, openProviders, type ProviderIssue } from './providers.ts'
import { findRouterModel, listRouterModels } from './routers.ts'

/** Returns a model's endpoints, each in the protocol that is nearest to calls of this dialect. */
export const listSpoken = ({ endpoints, spoken }: Model, dialect: TextDialect): Endpoint[] =>
  spoken?.[dialect] ?? endpoints

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
  {
    id: 'sandbox/image',
    name: 'Sandbox: Image',
    description:
      'A sandbox, not a model: it draws a pattern from the words themselves, needs no network and ' +
      'costs nothing.',
    context_length: 1_000_000,
    input_modalities: ['text', 'image'],
    output_modalities: ['image'],
    endpoints: [
      { provider: 'sandbox', model: 'image', data_policy: { training: false, retention_days: 0 } },
    ],
  },
  {
    id: 'sandbox/speech',
    name: 'Sandbox: Speech',
    description:
      'A sandbox, not a model: it hums a tone for each letter, needs no network and costs nothing.',
    context_length: 1_000_000,
    output_modalities: ['speech'],
    endpoints: [
      { provider: 'sandbox', model: 'speech', data_policy: { training: false, retention_days: 0 } },
    ],
  },
  {
    id: 'sandbox/video',
    name: 'Sandbox: Video',
    description:
      'A sandbox, not a model: it films a pattern that the words decide, needs no network and ' +
      'costs nothing.',
    context_length: 1_000_000,
    output_modalities: ['video'],
    endpoints: [
      { provider: 'sandbox', model: 'video', data_policy: { training: false, retention_days: 0 } },
    ],
  },
  {
    id: 'sandbox/transcribe',
    name: 'Sandbox: Transcribe',
    description:
      'A sandbox, not a model: it knows what sandbox/speech has said, needs no network and costs ' +
      'nothing.',
    context_length: 1_000_000,
    input_modalities: ['audio'],
    output_modalities: ['transcription'],
    endpoints: [
      {
        provider: 'sandbox',
        model: 'transcribe',
        data_policy: { training: false, retention_days: 0 },
      },
    ],
  },
]

/** What else a catalogue is opened with. */
export interface CatalogOpening {
  before?: Pick<CatalogWorld, 'config' | 'catalog'>
  issues?: FoundIssue[]
  /** Reads the known models, where not as before. */
  getBuiltIn?: () => BuiltInModels
}

/**
 * Opens the catalogue: the config's models over the built-in ones. If a model of the config has a
 * built-in id, its fields override that model's. Its endpoints come first and replace the built-in
 * ones of the same providers. A provider's credential alone makes all of its built-in models
 * callable. What `before` has for unchanged settings is kept. Throws `invalid_request` with all
 * that is wrong, and with the `issues` of other settings.
 */
export function openCatalog(
  config: Config,
  protocols: string[],
  now: Date,
  { before, issues: others = [], ...opening }: CatalogOpening = {},
): Catalog {
  const { since, edition: lastEdition } = before?.catalog ?? { since: now, edition: 0 }
  const getBuiltIn = opening.getBuiltIn ?? before?.catalog.getBuiltIn ?? createBuiltInReader()
  const edition = lastEdition + 1
  const { providers, issues } = openProviders(config.providers, protocols, edition, before)
  const patterns = config.models.filter(isPattern)
  const named = config.models.filter(model => !isPattern(model))
  const configured = new Map([...SANDBOX, ...named].map(model => [model.id, model]))
  const created = Math.floor(since.getTime() / 1000)
  const models = new LazyModels(configured, getBuiltIn, {
    providers,
    protocols,
    created,
    listParameters: createParameterLookup(),
    patterns,
    passing: listPassing(config, providers),
    isRouter: slug => findRouter(config, slug) !== undefined,
  })
  const broken = new Set(issues.map(({ slug }) => slug))
  const wrong = [
    ...issues.map(describeProviderIssue),
    ...listWrongModels(config.models, { providers, protocols, broken }),
    ...listWrongDefault(config, configured, models),
    ...others,
  ]
  if (wrong.length > 0) throw createConfigError(wrong)
  return { models, providers, since, edition, getBuiltIn }
}

/**
 * Lists what is wrong in the providers and models of a config that has lost its `wrong` settings,
 * each by the names on the way to it. A provider that is wrong itself may be named by models.
 */
export function listCatalogIssues(
  config: Config,
  protocols: string[],
  wrong: string[][],
): FoundIssue[] {
  const { providers, issues } = openProviders(config.providers, protocols)
  const lost = wrong.flatMap(([section, slug]) => (section === 'providers' ? [slug ?? null] : []))
  const broken = new Set([...issues.map(({ slug }) => slug), ...lost.filter(slug => slug !== null)])
  return [
    ...issues.map(describeProviderIssue),
    ...(lost.includes(null)
      ? []
      : listWrongModels(config.models, { providers, protocols, broken })),
  ]
}

const listWrongModels = (
  models: ModelConfig[],
  { providers, ...known }: Omit<Known, 'configured'> & { providers: Map<string, Provider> },
): FoundIssue[] => [
  ...listRepeatedIds(models),
  ...listWrongStars(models),
  ...listWrongEndpoints(models, { ...known, configured: listConfigured(providers) }),
]

const listConfigured = (providers: Map<string, Provider>): Set<string> =>
  new Set(providers.values().flatMap(({ configured, slug }) => (configured ? [slug] : [])))

// The built-in catalogue is read last, as that takes time.
const listWrongDefault = (
  { default_model: id, ...config }: Config,
  configured: Map<string, ModelConfig>,
  models: Models,
): FoundIssue[] =>
  configured.has(id) || findRouter(config, id) || isCertain(models.get(id))
    ? []
    : [createIssue(['default_model'], `a model of the catalogue, found ${id}`)]

// A name that is only passed on may be misspelt.
const isCertain = (model: Model | undefined): boolean =>
  model !== undefined && model.unlisted !== 'passed'

/** Lists the providers that are asked for models that no list has. */
export const listPassing = (
  { unknown_models }: Pick<Config, 'unknown_models'>,
  providers: Map<string, Provider>,
): Provider[] =>
  unknown_models === 'refuse'
    ? []
    : [...providers.values()].filter(
        ({ slug, configured, protocol }) =>
          configured &&
          protocol !== 'sandbox' &&
          (unknown_models === 'pass' || isKnownProvider(slug)),
      )

const createIssue = (names: (string | number)[], expected: string): FoundIssue => ({
  names: names.map(String),
  message: `${names.join('.')}: expected ${expected}`,
})

const describeProviderIssue = ({ slug, field, expected }: ProviderIssue): FoundIssue =>
  createIssue(['providers', slug, ...field.split('.')], expected)

function listRepeatedIds(models: ModelConfig[]): FoundIssue[] {
  const first = new Map<string, number>()
  for (const [i, { id }] of models.entries()) if (!first.has(id)) first.set(id, i)
  return models.flatMap(({ id }, i) =>
    first.get(id) === i
      ? []
      : createIssue(['models', i, 'id'], `one that no other model has, found ${id}`),
  )
}

// A star of a pattern is replaced by the name; any other is part of no name.
const listWrongStars = (models: ModelConfig[]): FoundIssue[] =>
  models.flatMap((entry, i) =>
    entry.endpoints.flatMap(({ model }, j) => {
      const expected = isPattern(entry) ? 1 : 0
      if (model.split('*').length - 1 === expected) return []
      const found = `found ${JSON.stringify(model)}`
      return createIssue(
        ['models', i, 'endpoints', j, 'model'],
        expected === 1 ? `one * for what ${entry.id} stands for, ${found}` : `no *, ${found}`,
      )
    }),
  )

/** What endpoints of the config may name. */
interface Known {
  /** The slugs of the providers that are configured. */
  configured: Set<string>
  protocols: string[]
  /** Providers whose own settings are wrong, which is said there. */
  broken: Set<string>
}

const listWrongEndpoints = (models: ModelConfig[], known: Known): FoundIssue[] =>
  models.flatMap(({ endpoints }, i) =>
    endpoints.flatMap((endpoint, j) =>
      listEndpointIssues(endpoint, ['models', i, 'endpoints', j], known),
    ),
  )

function listEndpointIssues(
  { provider, protocol }: ModelConfig['endpoints'][number],
  path: (string | number)[],
  { configured, protocols, broken }: Known,
): FoundIssue[] {
  const isKnown = configured.has(provider) || broken.has(provider)
  const describe = () =>
    needsCredential(provider)
      ? `a provider with a credential: set ${describeCredential(provider)}`
      : `one of ${[...configured].join(', ')}, found ${provider}`
  return [
    ...(isKnown ? [] : [createIssue([...path, 'provider'], describe())]),
    ...(protocol && !protocols.includes(protocol)
      ? [createIssue([...path, 'protocol'], `one of ${protocols.join(', ')}`)]
      : []),
  ]
}

/** Returns the model with this slug or alias, or a router. Throws 404. */
export function getModel(world: CatalogWorld, id: string): Model {
  const model = findModel(world, id) ?? findRouterModel(world.config, id)
  if (model) return model
  const hint = renderPassing(world, id) || renderOtherNames(world.catalog, id)
  throw notFound(`${JSON.stringify(id.slice(0, 200))} is not a model of this gateway${hint}`)
}

function renderPassing({ catalog: { models } }: CatalogWorld, id: string): string {
  const { unlisted, endpoints = [] } = models.get(id) ?? models.get(removeVariant(id)) ?? {}
  if (!unlisted) return ''
  const providers = endpoints.map(({ provider }) => provider.slug).join(', ')
  const price = endpoints.some(({ prices }) => prices)
    ? 'the price of its pattern'
    : 'an unknown price'
  return `; calls of it go to ${providers}, at ${price}`
}

/** Renders what an unknown name may mean, as the end of a sentence; empty if nothing is near. */
export function renderOtherNames({ models }: Pick<Catalog, 'models'>, name: string): string {
  const names = listOtherNames({ models }, name)
  if (names.length === 0) return ''
  const question =
    models.listMeant(removeVariant(name)).length > 0 ? 'which of these do you mean' : 'did you mean'
  return `; ${question}: ${names.join(', ')}?`
}

/** Lists the slugs that an unknown name may mean: all that have this name, or the nearest few. */
export function listOtherNames({ models }: Pick<Catalog, 'models'>, name: string): string[] {
  const plainName = removeVariant(name)
  const meant = models.listMeant(plainName)
  return meant.length > 0 ? meant : models.listNearest(plainName)
}

/** Finds the listed model that a name stands for, with or without a variant. */
export function findModel({ catalog: { models } }: CatalogWorld, id: string): Model | undefined {
  const model = models.get(id) ?? models.get(removeVariant(id))
  return model?.unlisted ? undefined : model
}

// These variants say how to choose an endpoint, not which model is called. `:free` is another
// model.
const removeVariant = (id: string) => id.replace(/:(nitro|floor|exacto|online|thinking)$/, '')

/**
 * Returns a model as `GET /model/{author}/{slug}` shows it. An alias also names its target. Throws
 * 404.
 */
export const showModel = (world: CatalogWorld, id: string) => ({ data: describeModel(world, id) })

/**
 * Returns a model as OpenAI's clients retrieve it with `GET /models/{id}`: the same fields, and
 * those of theirs. Throws 404.
 */
export function retrieveModel(world: CatalogWorld, id: string) {
  const model = describeModel(world, id)
  const owner = getModel(world, id).id
  return { ...model, object: 'model', owned_by: owner.slice(0, owner.indexOf('/')) }
}

function describeModel(world: CatalogWorld, id: string) {
  const model = getModel(world, id)
  const view = toPublicModel(model)
  const isAlias = model.id !== id && model.id !== removeVariant(id)
  return isAlias ? { ...view, id, alias_target: { slug: model.id, name: model.name } } : view
}

/**
 * Returns a model with its endpoints, as `GET /models/{author}/{slug}/endpoints` shows it. Only
 * callers with a key see latency and throughput (wire reference A.13). Throws 404.
 */
export function listEndpoints(world: CatalogWorld, id: string, actor: Actor | null) {
  return {
    data: toPublicEndpoints(getModel(world, id), endpoint => getStats(world, endpoint, actor)),
  }
}

function getStats(
  { traffic: { health } }: CatalogWorld,
  endpoint: Endpoint,
  actor: Actor | null,
): EndpointStats {
  const all = health.getStats(endpoint)
  return actor ? all : { ...all, latency_last_30m: null, throughput_last_30m: null }
}

/**
 * Lists the models that match the query, as `GET /models` shows them: one page, or all where the
 * query names no page. Those that can be called here, or the whole catalogue where the query or the
 * config says so. Throws 400 for a filter or an order by what is not measured.
 */
export const listModels = (world: CatalogWorld, query: ModelQuery = {}) =>
  buildLinkedPage(filterListed(world, query), query, '/api/v1/models')

const filterListed = (world: CatalogWorld, query: ModelQuery): Model[] =>
  filterModels(iterateModels(world, query), query, world.clock.now(), endpoint =>
    world.traffic.health.getStats(endpoint),
  )

/** Returns models and then the routers, which clients select like models. */
const iterateModels = (world: CatalogWorld, query: Pick<ModelQuery, 'all'>): Iterable<Model> =>
  isWhole(world, query)
    ? [...world.catalog.models.values(), ...listRouterModels(world.config)]
    : getCallable(world)

/** Tells whether a list is of the whole catalogue, and not only of what can be called here. */
export const isWhole = ({ config }: CatalogWorld, { all }: Pick<ModelQuery, 'all'>): boolean =>
  all === undefined ? config.server.list_all_models : all === 'true'

const callableByCatalog = new WeakMap<Catalog, Model[]>()

// Anyone may ask for it, and a catalogue does not change.
function getCallable(world: CatalogWorld): Model[] {
  const known = callableByCatalog.get(world.catalog) ?? findCallable(world, [], [])
  callableByCatalog.set(world.catalog, known)
  return known
}

/**
 * Lists the models that the actor can call under these rules, each with its callable endpoints
 * only, and the presets that name one of them, as `GET /models/user` shows them.
 */
export function listCallableModels(
  world: CatalogWorld,
  query: ModelQuery = {},
  rules: EndpointRule[] = [],
  actor: Actor | null = null,
) {
  const models = findCallable(world, rules, actor ? listUsableByokKeys(world, actor) : [])
  const all = actor ? [...models, ...listPresetModels(world, actor, models)] : models
  const found = filterModels(all, query, world.clock.now(), endpoint =>
    world.traffic.health.getStats(endpoint),
  )
  return buildLinkedPage(found, query, '/api/v1/models/user')
}

function findCallable(
  world: CatalogWorld,
  rules: EndpointRule[],
  byokKeys: DecryptedKey[],
): Model[] {
  const hasCredential = ({ provider }: Endpoint, id: string) =>
    provider.configured ||
    byokKeys.some(
      ({ key, providers }) =>
        providers.has(provider.slug) && (key.allowed_models?.includes(id) ?? true),
    )
  const models = [...world.catalog.models.values()].flatMap(model => {
    const endpoints = model.endpoints.filter(
      endpoint => hasCredential(endpoint, model.id) && !rules.some(rule => rule.excludes(endpoint)),
    )
    return endpoints.length > 0 ? [{ ...model, endpoints }] : []
  })
  return [...models, ...listUsableRouters(world, models)]
}

/** Lists the presets of the actor's workspace whose model can be called, as models. */
function listPresetModels(
  { memory: { presets }, catalog, config }: CatalogWorld,
  { workspace_id }: Actor,
  models: Model[],
): Model[] {
  const callable = new Map(models.map(model => [model.id, model]))
  return [...presets.values()].flatMap(preset => {
    if (preset.workspace_id !== workspace_id || preset.status !== 'active') return []
    const { model, models: [first] = [] } = preset.designated_version.config as PresetModels
    const slug = model ?? first ?? config.default_model
    const target = callable.get(catalog.models.get(removeVariant(slug))?.id ?? slug)
    return target ? [toPresetModel(preset, target)] : []
  })
}

/** What a preset's config may say of models. It was checked when it was made. */
interface PresetModels {
  model?: string
  models?: string[]
}

const toPresetModel = (preset: Preset, target: Model): Model => ({
  ...target,
  id: `@preset/${preset.slug}`,
  target: target.id,
  name: preset.name,
  description: preset.description ?? '',
  created: Math.floor(Date.parse(preset.created_at) / 1000),
})

/** Lists the routers that can choose among these models. */
function listUsableRouters({ config }: CatalogWorld, models: Model[]): Model[] {
  const texts = models.filter(({ output_modalities }) => output_modalities.includes('text'))
  const isFreeThere = texts.some(({ endpoints }) => endpoints.some(isFreeEndpoint))
  return listRouterModels(config).filter(({ router }) =>
    router === 'free' ? isFreeThere : texts.length > 0,
  )
}

/** Lists the embedding models, as `GET /embeddings/models` shows them. */
export const listEmbeddingsModels = (world: CatalogWorld, query: EmbeddingsQuery = {}) =>
  buildLinkedPage(
    filterListed(world, { ...query, output_modalities: 'embeddings' }),
    query,
    '/api/v1/embeddings/models',
  )

/** Lists the models that output pictures, of those that can be called here or of all. */
export const listDrawingModels = (world: CatalogWorld): Model[] =>
  filterListed(world, { output_modalities: 'image' }).filter(({ router }) => !router)

/** Lists the models that make videos. */
export const listVideoMakers = (world: CatalogWorld): Model[] =>
  filterListed(world, { output_modalities: 'video' }).filter(({ router }) => !router)

/** Counts the models that match the query, as `GET /models/count` shows it. */
export function countModels(world: CatalogWorld, query: CountQuery = {}) {
  return {
    data: { count: filterListed(world, query).length },
  }
}

/**
 * Lists every endpoint that retains nothing it is sent, as `GET /endpoints/zdr` shows them. The
 * sandbox is left out: it has no provider that could retain anything.
 */
export function listZdrEndpoints(world: CatalogWorld) {
  const models = [...world.catalog.models.values()].filter(model =>
    SANDBOX.every(({ id }) => id !== model.id),
  )
  return {
    data: models.flatMap(model =>
      model.endpoints
        .filter(hasZeroRetention)
        .map(endpoint => toPublicEndpoint(model, endpoint, getStats(world, endpoint, null))),
    ),
  }
}

function buildLinkedPage(models: Model[], query: ModelQuery, path: string) {
  const { offset = 0, limit = query.offset === undefined ? models.length : 500 } = query
  const following = toQueryEntries({ ...query, offset: offset + limit, limit })
  const next = offset + limit < models.length ? `${path}?${new URLSearchParams(following)}` : null
  const { data, total_count } = toPage(models, { offset, limit }, toPublicModel)
  return { data, links: { next }, total_count }
}

const toQueryEntries = (query: object) =>
  Object.entries(query).map(([name, value]) => [name, String(value)])
