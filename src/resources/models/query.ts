import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { toAttosPerToken } from '../../base/money.ts'
import { pageQuery } from '../../base/pages.ts'
import { oneOf, TrueOrFalse } from '../../base/schema-builders.ts'
import { ALL_PARAMETERS } from '../../language/parameters.ts'
import { type Prices, sumPrices } from '../prices.ts'
import { listProviderNames } from '../providers/names.ts'
import type { Endpoint, EndpointStats, Model } from './catalog.ts'
import { findCheapestPrices, getTokenizerFamily } from './view.ts'

const Amount = (description: string, maximum?: number) =>
  Type.Optional(
    Type.Number({ minimum: 0, description, ...(maximum === undefined ? {} : { maximum }) }),
  )

const Count = (minimum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum, description }))

/**
 * The most characters of a list or of words in a query. Anyone may send it, and each of its words
 * is compared with every model.
 */
const LONGEST_LIST = 1_000
const List = (description: string) =>
  Type.Optional(Type.String({ maxLength: LONGEST_LIST, description }))

/** The page of a list. Without offset and limit the list is whole. */
export const PageQuery = pageQuery(1000)
export type PageQuery = Static<typeof PageQuery>

const OUTPUTS = List(
  'Output modalities, one of these, separated by commas, or all; text when omitted',
)

const ALL = Type.Optional(
  Type.Union([Type.Literal('true'), Type.Literal('false')], {
    description: 'true: the whole catalogue; false: what can be called here',
  }),
)

/** The query of `GET /models/count`. */
export const CountQuery = Type.Object({ output_modalities: OUTPUTS, all: ALL })
export type CountQuery = Static<typeof CountQuery>

/** The query of `GET /embeddings/models`. */
export const EmbeddingsQuery = Type.Object({ ...PageQuery.properties, all: ALL })
export type EmbeddingsQuery = Static<typeof EmbeddingsQuery>

/** The query of `GET /models/user`. */
export const CallableQuery = Type.Object({ ...PageQuery.properties, output_modalities: OUTPUTS })
export type CallableQuery = Static<typeof CallableQuery>

const UNMEASURED = 'Not measured here: a 400'

const NAMED_ORDERS =
  'newest, pricing-low-to-high, pricing-high-to-low, context-high-to-low, ' +
  'throughput-high-to-low or latency-low-to-high'

/** The query of `GET /models`. A filter never matches a model whose value is not known. */
export const ModelQuery = Type.Object({
  ...CallableQuery.properties,
  all: ALL,
  category: Type.Optional(
    Type.Union(
      [
        ...['programming', 'roleplay', 'marketing', 'marketing/seo', 'technology', 'science'],
        ...['translation', 'legal', 'finance', 'health', 'trivia', 'academia'],
      ].map(word => Type.Literal(word)),
      { description: UNMEASURED },
    ),
  ),
  supported_parameters: List('Parameters, all supported by one endpoint'),
  input_modalities: List('Input modalities, all of these'),
  q: List('Words in the name or the slug, all of them'),
  context: Count(1, 'The least context in tokens'),
  min_price: Amount('USD per million tokens of input'),
  max_price: Amount('USD per million tokens of input'),
  min_output_price: Amount('USD per million tokens of output'),
  max_output_price: Amount('USD per million tokens of output'),
  arch: List('The family, as in architecture.tokenizer: GPT, Claude, Llama'),
  model_authors: List('Authors, one of these'),
  providers: List('Providers by name or slug, one of these'),
  distillable: Type.Optional(TrueOrFalse),
  zdr: Type.Optional(oneOf('true')),
  region: Type.Optional(oneOf('eu', 'us')),
  min_age_days: Count(0, 'Days since its release'),
  max_age_days: Count(0, 'Days since its release'),
  min_intelligence_index: Amount(UNMEASURED),
  max_intelligence_index: Amount(UNMEASURED),
  min_coding_index: Amount(UNMEASURED),
  max_coding_index: Amount(UNMEASURED),
  min_agentic_index: Amount(UNMEASURED),
  max_agentic_index: Amount(UNMEASURED),
  min_tool_success_rate: Amount(UNMEASURED, 1),
  max_tool_success_rate: Amount(UNMEASURED, 1),
  sort: Type.Optional(
    Type.Union(
      [
        ...[
          'newest',
          'pricing-low-to-high',
          'pricing-high-to-low',
          'context-high-to-low',
          'most-popular',
          'top-weekly',
        ],
        ...[
          'throughput-high-to-low',
          'latency-low-to-high',
          'intelligence-high-to-low',
          'coding-high-to-low',
        ],
        ...['agentic-high-to-low', 'design-arena-elo-high-to-low'],
      ].map(word => Type.Literal(word)),
      { description: `${NAMED_ORDERS}; others are not measured here: a 400` },
    ),
  ),
  use_rss: List('true: an RSS feed'),
  use_rss_chat_links: List('There is no chat page to link to: true is a 400'),
})

export type ModelQuery = Static<typeof ModelQuery>

type QueryValue<Name extends keyof ModelQuery> = NonNullable<ModelQuery[Name]>
type FilterFactory<Name extends keyof ModelQuery> = (
  wanted: QueryValue<Name>,
  now: Date,
) => (model: Model) => boolean

const FILTERS: { [Name in keyof ModelQuery]?: FilterFactory<Name> } = {
  supported_parameters: value => {
    const names = splitCommas(value)
    return ({ endpoints }) =>
      endpoints.some(endpoint => names.every(name => supportsParameter(endpoint, name)))
  },
  input_modalities: value => {
    const inputs = splitCommas(value)
    return model => inputs.every(one => model.input_modalities.includes(one))
  },
  q: value => {
    const words = [...new Set(value.toLowerCase().split(/\s+/))]
    return ({ id, name }) => {
      const text = `${id} ${name}`.toLowerCase()
      return words.every(word => text.includes(word))
    }
  },
  context: value => model => model.context_length !== null && model.context_length >= value,
  min_price: value => createPriceFilter('prompt', price => price >= toAttosPerToken(value)),
  max_price: value => createPriceFilter('prompt', price => price <= toAttosPerToken(value)),
  min_output_price: value =>
    createPriceFilter('completion', price => price >= toAttosPerToken(value)),
  max_output_price: value =>
    createPriceFilter('completion', price => price <= toAttosPerToken(value)),
  arch: value => model => getTokenizerFamily(model).toLowerCase().startsWith(value.toLowerCase()),
  model_authors: value => {
    const authors = new Set(splitCommas(value))
    return ({ id }) => authors.has(id.slice(0, id.indexOf('/')))
  },
  providers: value => {
    const names = new Set(splitCommas(value).map(name => name.toLowerCase()))
    return ({ endpoints }) =>
      endpoints.some(({ provider }) => listProviderNames(provider).some(name => names.has(name)))
  },
  distillable: value => model =>
    model.endpoints.some(({ distillable }) => distillable) === (value === 'true'),
  zdr: () => model => model.endpoints.some(hasZeroRetention),
  region: value => model => model.endpoints.some(({ region }) => REGIONS[value].test(region ?? '')),
  min_age_days: (value, now) => createAgeFilter(now, days => days >= value),
  max_age_days: (value, now) => createAgeFilter(now, days => days <= value),
}

/** Providers name their regions in more detail: `eu-central-1`, `europe-west4`. */
const REGIONS = { eu: /^(eu|europe)\b/, us: /^us\b/ }

/** The parameters of the public service whose values this gateway has no measurements of. */
const UNMEASURED_FILTERS = [
  ...['category', 'min_intelligence_index', 'max_intelligence_index', 'min_coding_index'],
  ...['max_coding_index', 'min_agentic_index', 'max_agentic_index', 'min_tool_success_rate'],
  'max_tool_success_rate',
] as const satisfies (keyof ModelQuery)[]

/**
 * Refuses what the gateway cannot do as it is told. Throws 400 naming the parameter: an order or a
 * selection by nothing would look like one.
 */
export function requireMeasured(query: ModelQuery): void {
  const filter = UNMEASURED_FILTERS.find(name => query[name] !== undefined)
  if (filter) throw invalid(`${filter}: not measured here, expected nothing`, filter)
  if (query.sort !== undefined && !Object.hasOwn(ORDERS, query.sort))
    throw invalid(`sort: ${query.sort} is not measured here, expected ${NAMED_ORDERS}`, 'sort')
  if (query.use_rss_chat_links === 'true')
    throw invalid(
      'use_rss_chat_links: expected nothing, as there are no chat pages',
      'use_rss_chat_links',
    )
}

/** What is measured of endpoints while they are called. */
type GetStats = (
  endpoint: Endpoint,
) => Pick<EndpointStats, 'latency_last_30m' | 'throughput_last_30m'>

/**
 * Returns the models that match every filter of the query, sorted as it says. `output_modalities`
 * defaults to text. Throws 400 as `requireMeasured` does.
 */
export function filterModels(
  models: Iterable<Model>,
  query: ModelQuery,
  now: Date,
  getStats: GetStats,
): Model[] {
  requireMeasured(query)
  const filters = [
    createOutputFilter(query.output_modalities ?? 'text'),
    ...buildFilters(query, now),
  ]
  const found = [...models].filter(model => filters.every(filter => filter(model)))
  const order = query.sort && ORDERS[query.sort]?.(getStats)
  return order ? found.sort(order) : found
}

// The query may hold anything, so only known names are read.
function buildFilters(query: ModelQuery, now: Date): ((model: Model) => boolean)[] {
  return Object.entries(FILTERS).flatMap(([name, filter]) => {
    const value = query[name as keyof ModelQuery]
    return value === undefined ? [] : [(filter as FilterFactory<keyof ModelQuery>)(value, now)]
  })
}

function createOutputFilter(value: string): (model: Model) => boolean {
  const outputs = splitCommas(value)
  return model =>
    outputs.includes('all') || model.output_modalities.some(one => outputs.includes(one))
}

const splitCommas = (text: string) => [...new Set(text.split(',').map(one => one.trim()))]

const supportsParameter = ({ supported_parameters }: Endpoint, name: string) =>
  supported_parameters ? supported_parameters.has(name) : ALL_PARAMETERS.some(one => one === name)

/** Returns whether an endpoint is known to retain nothing it is sent. */
export const hasZeroRetention = ({ data_policy }: Endpoint): boolean =>
  data_policy.retention_days === 0

const createPriceFilter =
  (name: 'prompt' | 'completion', fits: (price: bigint) => boolean) => (model: Model) => {
    const prices = findCheapestPrices(model.endpoints)
    return prices !== null && fits(prices[name])
  }

const createAgeFilter =
  (now: Date, fits: (days: number) => boolean) =>
  ({ created }: Model) =>
    created !== null && fits(Math.floor((now.getTime() / 1000 - created) / 86_400))

type ModelComparator = (a: Model, b: Model) => number

/** Unknown values come last in both directions. */
const ORDERS: Record<string, (getStats: GetStats) => ModelComparator> = {
  newest: () => createNumberOrder(({ created }) => created, -1),
  'context-high-to-low': () => createNumberOrder(model => model.context_length, -1),
  'pricing-low-to-high': () => createPriceOrder((a, b) => a - b),
  'pricing-high-to-low': () => createPriceOrder((a, b) => b - a),
  'throughput-high-to-low': getStats =>
    createNumberOrder(
      model => findBest(model, getStats, 'throughput_last_30m', (...all) => Math.max(...all)),
      -1,
    ),
  'latency-low-to-high': getStats =>
    createNumberOrder(
      model => findBest(model, getStats, 'latency_last_30m', (...all) => Math.min(...all)),
      1,
    ),
}

/** Finds the median of the model's best endpoint. Null where nothing was measured lately. */
function findBest(
  { endpoints }: Model,
  getStats: GetStats,
  name: keyof ReturnType<GetStats>,
  pick: (...all: number[]) => number,
): number | null {
  const medians = endpoints.flatMap(endpoint => getStats(endpoint)[name]?.p50 ?? [])
  return medians.length > 0 ? pick(...medians) : null
}

// Each model is measured once, not at every comparison.
function createNumberOrder(
  read: (model: Model) => number | null,
  direction: 1 | -1,
): ModelComparator {
  const known = new Map<Model, number | null>()
  const get = (model: Model) => {
    const value = known.has(model) ? known.get(model) : read(model)
    known.set(model, value ?? null)
    return value ?? null
  }
  return (first, second) => {
    const [a, b] = [get(first), get(second)]
    if (a === null || b === null) return Number(a === null) - Number(b === null)
    return (a - b) * direction
  }
}

// Twice the average, which sorts the same.
function createPriceOrder(compare: (a: bigint, b: bigint) => bigint): ModelComparator {
  const sum = (prices: Prices | null) => prices && sumPrices(prices)
  return (first, second) => {
    const a = sum(findCheapestPrices(first.endpoints))
    const b = sum(findCheapestPrices(second.endpoints))
    if (a === null || b === null) return Number(a === null) - Number(b === null)
    return Number(compare(a, b))
  }
}
