import { listNearest } from '../../base/nearest.ts'
import type { EndpointConfig, ModelConfig } from '../../config.ts'
import type { TextDialect } from '../../language/dialect.ts'
import { INPUT_MODALITIES } from '../../language/public-terms.data.ts'
import type { EndpointTraits } from '../parameters.ts'
import { FREE, toExactPrices } from '../prices.ts'
import { getDataPolicy } from '../providers/facts.ts'
import type { Provider } from '../providers/provider.ts'
import { isHomeOf } from '../providers.ts'
import type { BuiltInModels } from './built-in.ts'
import type { Endpoint, Model, Models } from './catalog.ts'
import {
  buildFreeVariant,
  buildSnapshot,
  changeEndpoints,
  type DatedName,
  distrust,
  FREE_VARIANT,
  fillPattern,
  findProtocol,
  isServedAtHome,
  readUnlistedName,
  splitDatedName,
} from './derived.ts'
import type { EndpointRow, ModelRow } from './rows.ts'

/** Everything that opening a model needs. */
interface ModelContext {
  providers: Map<string, Provider>
  /** The protocols that this version supports. */
  protocols: string[]
  /** In Unix seconds: the release time of models that only the config knows. */
  created: number
  listParameters: (served: EndpointTraits) => Set<string>
  /** The entries of the config that stand for all names of an author. */
  patterns: ModelConfig[]
  /** The providers that may be asked for models that no list has. */
  passing: Provider[]
  isRouter: (slug: string) => boolean
}

/** Opens a model from the config, from the built-in row, or from the config laid over the row. */
function openModel(
  id: string,
  config: ModelConfig | undefined,
  row: ModelRow | undefined,
  context: ModelContext,
): Model {
  const model = {
    id,
    name: config?.name ?? row?.name ?? id,
    description: config?.description ?? '',
    created: row ? readReleaseTime(row) : context.created,
    context_length: config?.context_length ?? row?.context_length ?? null,
    input_modalities: config?.input_modalities ?? row?.input ?? ['text'],
    refused_modalities: listRefusedModalities(config, row),
    output_modalities: config?.output_modalities ?? row?.output ?? ['text'],
    reasoning: row?.reasoning ?? null,
  }
  const distillable = config?.distillable ?? false
  const configured = config?.endpoints ?? []
  const builtIn = (row?.endpoints ?? []).filter(
    one =>
      hasKnownProtocol(one, context) &&
      configured.every(({ provider }) => provider !== one.provider),
  )
  const list = (dialect: TextDialect | null) => {
    const endpoints = [
      ...configured.map(one => {
        const provider = speak(getProvider(one, context), one, dialect)
        return openConfiguredEndpoint({ ...model, distillable }, one, provider)
      }),
      ...builtIn.map(one => {
        const provider = speak(getProvider(one, context), one, dialect)
        return openBuiltInEndpoint({ ...model, distillable }, one, provider, context)
      }),
    ]
    return addTierPrices(distinguishIds(endpoints))
  }
  const rows = [...configured, ...builtIn]
  const dialects = TEXT_PROTOCOLS.filter(([, protocol]) =>
    rows.some(one => isSpoken(getProvider(one, context), one, protocol)),
  )
  const spoken = Object.fromEntries(dialects.map(([dialect]) => [dialect, list(dialect)]))
  return { ...model, endpoints: list(null), ...(dialects.length > 0 ? { spoken } : {}) }
}

/** The protocol that is nearest to each dialect: a call leaves in it where its provider speaks it. */
const TEXT_PROTOCOLS: [TextDialect, string][] = [
  ['chat', 'openai-chat'],
  ['messages', 'anthropic-messages'],
  ['responses', 'openai-responses'],
]

/** Whether the provider speaks this protocol beside its first, and the model does not fix one. */
const isSpoken = (
  { alsoSpeaks }: Provider,
  { protocol: fixed }: { protocol?: string | undefined },
  protocol: string,
): boolean => fixed === undefined && alsoSpeaks.some(one => one.protocol === protocol)

/** How a provider is spoken to: by itself, or through another of its protocols. */
interface Speaking {
  provider: Provider
  protocol: string
  base_url?: string
}

function speak(
  provider: Provider,
  row: { protocol?: string | undefined },
  dialect: TextDialect | null,
): Speaking {
  const protocol = TEXT_PROTOCOLS.find(([name]) => name === dialect)?.[1]
  if (protocol === undefined || !isSpoken(provider, row, protocol))
    return { provider, protocol: row.protocol ?? provider.protocol }
  const { base_url } = provider.alsoSpeaks.find(one => one.protocol === protocol) ?? provider
  return { provider, protocol, ...(base_url === provider.base_url ? {} : { base_url }) }
}

// The operator knows all inputs. The data's sources tell of texts and pictures for sure, so a model
// without pictures is one for text alone, or for what its list has.
function listRefusedModalities(config: ModelConfig | undefined, row: ModelRow | undefined) {
  const { input_modalities: known = row?.input?.includes('image') ? undefined : row?.input } =
    config ?? {}
  return known ? INPUT_MODALITIES.filter(input => !known.includes(input)) : []
}

const readReleaseTime = ({ created }: ModelRow) =>
  created === undefined ? null : Date.parse(created) / 1000

/**
 * Builds an endpoint's id from what it is, independent of its position in a list. Slugs of models
 * and providers have no space.
 */
function buildEndpointId(
  model: string,
  { slug, edition }: Provider,
  { model: upstreamModel, region, quantization, service_tier }: Placed,
): string {
  const provider = edition === 1 ? slug : `${slug} ${edition}`
  return [`${model} ${provider}`, upstreamModel, region, quantization, service_tier]
    .filter(part => part !== undefined)
    .join('/')
}

/** What tells an endpoint from others of its model and provider. */
type Placed = Pick<EndpointConfig, 'model' | 'region' | 'service_tier'> &
  Pick<EndpointRow, 'quantization'>

/** Numbers endpoints that are listed twice, so that each has measurements of its own. */
function distinguishIds(endpoints: Endpoint[]): Endpoint[] {
  const ids = new Set<string>()
  return endpoints.map(endpoint => {
    let { id } = endpoint
    for (let i = 2; ids.has(id); i++) id = `${endpoint.id} ${i}`
    ids.add(id)
    return id === endpoint.id ? endpoint : { ...endpoint, id }
  })
}

/** Adds to endpoints with a service tier, and to those beside them, the prices of all the tiers. */
function addTierPrices(endpoints: Endpoint[]): Endpoint[] {
  if (endpoints.every(({ service_tier }) => service_tier === null)) return endpoints
  return endpoints.map(endpoint => {
    const same = endpoints.filter(one => isSameBesideTier(one, endpoint))
    if (same.every(({ service_tier }) => service_tier === null)) return endpoint
    const prices = same.map(one => [one.service_tier ?? 'default', one.prices])
    return { ...endpoint, tier_prices: Object.fromEntries(prices) }
  })
}

const isSameBesideTier = (one: Endpoint, other: Endpoint): boolean =>
  one.provider === other.provider &&
  one.upstreamModel === other.upstreamModel &&
  one.region === other.region

// A model cannot be called where its provider serves it in a protocol that this version does not
// support.
const hasKnownProtocol = ({ protocol }: EndpointRow, { protocols }: ModelContext) =>
  protocol === undefined || protocols.includes(protocol)

// The config was checked when it was read, the data when it was generated.
function getProvider({ provider }: { provider: string }, { providers }: ModelContext): Provider {
  const known = providers.get(provider)
  if (!known) throw new Error(`There is no provider ${provider}`)
  return known
}

type ModelDescription = Omit<Model, 'endpoints'> & Pick<Endpoint, 'distillable'>

function openConfiguredEndpoint(
  model: ModelDescription,
  config: EndpointConfig,
  { provider, ...spoken }: Speaking,
): Endpoint {
  const { usd_per_million_tokens: prices, data_policy } = config
  const policy = getDataPolicy(provider.slug)
  return {
    id: buildEndpointId(model.id, provider, config),
    provider,
    ...spoken,
    model: model.id,
    upstreamModel: config.model,
    output_modalities: model.output_modalities,
    prices: prices ? toExactPrices(prices) : provider.protocol === 'sandbox' ? FREE : null,
    context_length: config.context_length ?? model.context_length,
    max_completion_tokens: config.max_completion_tokens ?? null,
    supported_parameters: config.supported_parameters ? new Set(config.supported_parameters) : null,
    data_policy: {
      training: data_policy?.training ?? policy.training,
      retention_days: data_policy?.retention_days ?? policy.retention_days,
    },
    region: config.region ?? null,
    quantization: config.quantization ?? 'unknown',
    service_tier: config.service_tier ?? null,
    tier_prices: null,
    distillable: model.distillable,
    is_byok: false,
  }
}

function openBuiltInEndpoint(
  model: ModelDescription,
  row: EndpointRow,
  { provider, ...spoken }: Speaking,
  { listParameters }: ModelContext,
): Endpoint {
  const isText = model.output_modalities.includes('text')
  const { dropped } = provider.quirks
  return {
    id: buildEndpointId(model.id, provider, row),
    provider,
    ...spoken,
    model: model.id,
    upstreamModel: row.model,
    output_modalities: model.output_modalities,
    prices: row.prices ? toExactPrices(row.prices) : null,
    context_length: row.context_length ?? model.context_length,
    max_completion_tokens: row.max_completion_tokens ?? null,
    supported_parameters: listParameters({
      provider: row.provider,
      protocol: spoken.protocol,
      dropped,
      reasoning: row.reasoning ?? null,
      isText,
    }),
    data_policy: getDataPolicy(row.provider),
    region: row.region ?? null,
    quantization: row.quantization ?? 'unknown',
    service_tier: null,
    tier_prices: null,
    distillable: model.distillable,
    is_byok: false,
  }
}

// A relay that is configured to speak one protocol speaks no other.
function toPassedEndpoint({ slug, alsoSpeaks }: Provider, model: string): EndpointConfig {
  const protocol = findProtocol(slug, model)
  const isSpoken = alsoSpeaks.some(one => one.protocol === protocol)
  return { provider: slug, model, ...(protocol && isSpoken ? { protocol } : {}) }
}

// Some providers do not tell cases apart.
const nameAtProvider = ({ provider, model }: { provider: string; model: string }): string =>
  `${provider} ${model.toLowerCase()}`

const keepNamed = (endpoint: Endpoint, name: string): Endpoint | undefined =>
  nameAtProvider({ provider: endpoint.provider.slug, model: endpoint.upstreamModel }) === name
    ? endpoint
    : undefined

/** Indexes the models by what their providers call them. */
const indexServed = (
  models: { id: string; endpoints: { provider: string; model: string }[] }[],
): Map<string, string> =>
  new Map(
    models.flatMap(({ id, endpoints }) => endpoints.map(one => [nameAtProvider(one), id] as const)),
  )

/** How many names of snapshots and of models that are not listed are kept. */
const MOST_DERIVED = 1_000

/** The models that a name without an author may mean, by that name. */
interface PlainNames {
  /** By what stands after the slash of their slugs and aliases. */
  slugs: Map<string, Set<string>>
  /** By what their providers call them. */
  upstream: Map<string, Set<string>>
}

/** Indexes the models by the names that their authors and providers use: `gpt-4o-mini`. */
function indexPlainNames(
  configured: Map<string, ModelConfig>,
  { rows, aliases }: BuiltInModels,
): PlainNames {
  const names: PlainNames = { slugs: new Map(), upstream: new Map() }
  for (const [id, { endpoints }] of [...rows, ...configured]) {
    addName(names.slugs, removeAuthor(id), id)
    for (const { model } of endpoints) addName(names.upstream, model, id)
  }
  for (const [alias, id] of aliases) addName(names.slugs, removeAuthor(alias), id)
  return names
}

function addName(names: Map<string, Set<string>>, name: string, id: string): void {
  const ids = names.get(name) ?? new Set()
  names.set(name, ids.add(id))
}

const removeAuthor = (slug: string) => slug.slice(slug.indexOf('/') + 1)

/** Lists the models that a plain name may mean. A model's own name hides names of providers. */
const listMeant = ({ slugs, upstream }: PlainNames, name: string): string[] => [
  ...(slugs.get(name) ?? upstream.get(name) ?? []),
]

/**
 * Lists the slugs that an unknown one may be a misspelling of: at most three, the nearest first.
 * The right name by a wrong author counts as near.
 */
function listNearestModels({ slugs }: PlainNames, slug: string): string[] {
  const meant = slugs.get(removeAuthor(slug).toLowerCase())
  if (meant) return [...meant].slice(0, 3)
  const names = listNearest(removeAuthor(slug), slugs.keys())
  const found = [...new Set(names.flatMap(name => [...(slugs.get(name) ?? [])]))]
  const author = slug.includes('/') ? slug.slice(0, slug.indexOf('/') + 1).toLowerCase() : ''
  const [same, others] = [true, false].map(is => found.filter(id => id.startsWith(author) === is))
  return [...(same ?? []), ...(others ?? [])].slice(0, 3)
}

/**
 * The models of the config over the built-in ones. Each is opened on first use, and the built-in
 * data when the first model is.
 */
export class LazyModels implements Models {
  readonly #configured: Map<string, ModelConfig>
  readonly #read: () => BuiltInModels
  readonly #context: ModelContext
  readonly #opened = new Map<string, Model>()
  /** By names that callers may make up, so that only some are kept. */
  readonly #derived = new Map<string, Model>()
  #builtIn: BuiltInModels | undefined
  #plainNames: PlainNames | undefined
  #served: Map<string, string> | undefined

  constructor(
    configured: Map<string, ModelConfig>,
    read: () => BuiltInModels,
    context: ModelContext,
  ) {
    this.#configured = configured
    this.#read = read
    this.#context = context
  }

  get(slug: string): Model | undefined {
    return this.#opened.get(slug) ?? this.#derived.get(slug) ?? this.#open(slug)
  }

  has(slug: string): boolean {
    return this.get(slug) !== undefined
  }

  /** Yields the config's models in their order, then the built-in ones by slug. */
  *values(): Iterable<Model> {
    for (const slug of this.#slugs()) {
      const model = this.get(slug)
      if (model) yield model
    }
  }

  *listServedBy(provider: string): Iterable<Model> {
    const { rows } = this.#data()
    const isThere = (one: { provider: string }) => one.provider === provider
    for (const slug of this.#slugs()) {
      const { endpoints = [] } = this.#configured.get(slug) ?? {}
      if (!endpoints.some(isThere) && !rows.get(slug)?.endpoints.some(isThere)) continue
      const model = this.get(slug)
      if (model) yield model
    }
  }

  get size(): number {
    return this.#slugs().size
  }

  #slugs(): Set<string> {
    return new Set([...this.#configured.keys(), ...this.#data().rows.keys()])
  }

  #data(): BuiltInModels {
    this.#builtIn ??= this.#read()
    return this.#builtIn
  }

  #open(slug: string): Model | undefined {
    const dated = splitDatedName(slug)
    const snapshot = dated.length > 0 ? this.#openSnapshot(slug, dated) : undefined
    return snapshot ?? this.#openListed(slug) ?? this.#openUnlisted(slug)
  }

  /** Opens a model by a name that the catalogue has. */
  #openListed(slug: string): Model | undefined {
    const { rows, aliases } = this.#data()
    const id = this.#configured.has(slug) || rows.has(slug) ? slug : aliases.get(slug)
    if (id === undefined) return this.#openFree(slug) ?? this.#openPlain(slug)
    const model =
      this.#opened.get(id) ?? openModel(id, this.#configured.get(id), rows.get(id), this.#context)
    this.#opened.set(id, model).set(slug, model)
    return model
  }

  #getListed = (slug: string): Model | undefined => this.#opened.get(slug) ?? this.#openListed(slug)

  /** Opens a snapshot of a built-in model, unless it is listed itself. */
  #openSnapshot(slug: string, dated: DatedName[]): Model | undefined {
    const { rows, aliases } = this.#data()
    const meant = this.listMeant(slug)
    const isListed = (id: string) => this.#configured.has(id) || rows.has(id)
    if (isListed(slug) || meant.some(id => removeAuthor(id) === slug)) return undefined
    const isAlias = aliases.has(slug) || meant.length === 1
    const snapshots = dated.flatMap(({ family, date }) => {
      const model = this.#getListed(family)
      return model && rows.has(model.id) ? (buildSnapshot(model, date, isAlias) ?? []) : []
    })
    const snapshot = snapshots.find(isServedAtHome) ?? snapshots[0]
    return snapshot && this.#keep(slug, snapshot)
  }

  /** Opens a name that a pattern of the config has, or that its provider may be asked for. */
  #openUnlisted(slug: string): Model | undefined {
    const unlisted = readUnlistedName(slug)
    const [base = ''] = slug.split(':')
    if (!unlisted || this.#context.isRouter(base)) return undefined
    // Of a model that is listed, what stands behind a colon is a variant that it does not have.
    if (base !== slug && this.#getListed(base)) return undefined
    const { author, name } = unlisted
    const pattern = this.#context.patterns.find(({ id }) => id === `${author}/*`)
    const passing = this.#context.passing.filter(({ slug: home }) => isHomeOf(home, author))
    const entry = pattern
      ? fillPattern(pattern, slug, name)
      : { id: slug, endpoints: passing.map(provider => toPassedEndpoint(provider, name)) }
    if (entry.endpoints.length === 0) return undefined
    const listed = this.#findServed(entry)
    if (listed) return this.#keep(slug, listed)
    const model = openModel(slug, entry, undefined, this.#context)
    return this.#keep(
      slug,
      pattern
        ? { ...model, unlisted: 'pattern' }
        : { ...distrust(model), created: null, unlisted: 'passed' },
    )
  }

  // By its provider's own name a model has its own prices and rules: it is that model, there.
  #findServed({ endpoints }: ModelConfig): Model | undefined {
    this.#served ??= indexServed([...this.#data().rows.values(), ...this.#configured.values()])
    for (const one of endpoints) {
      const name = nameAtProvider(one)
      const id = this.#served.get(name)
      const model = id === undefined ? undefined : this.#getListed(id)
      const there = model && changeEndpoints(model, endpoint => keepNamed(endpoint, name))
      if (there && there.endpoints.length > 0) return there
    }
    return undefined
  }

  #keep(slug: string, model: Model): Model {
    if (this.#derived.size >= MOST_DERIVED) this.#derived.clear()
    this.#derived.set(slug, model)
    return model
  }

  listMeant(name: string): string[] {
    return name.includes('/') ? [] : listMeant(this.#names(), name)
  }

  listNearest(slug: string): string[] {
    return listNearestModels(this.#names(), slug)
  }

  #names(): PlainNames {
    this.#plainNames ??= indexPlainNames(this.#configured, this.#data())
    return this.#plainNames
  }

  #openPlain(name: string): Model | undefined {
    const [id, ...others] = this.listMeant(name)
    const model = id === undefined || others.length > 0 ? undefined : this.get(id)
    if (model) this.#opened.set(name, model)
    return model
  }

  // A model with that slug of its own takes precedence over a free variant.
  #openFree(slug: string): Model | undefined {
    const base = slug.endsWith(FREE_VARIANT) ? slug.slice(0, -FREE_VARIANT.length) : ''
    const model = base === '' || base.includes(':') ? undefined : this.#getListed(base)
    const free = model && buildFreeVariant(model)
    if (free) this.#opened.set(free.id, free).set(slug, free)
    return free
  }
}
