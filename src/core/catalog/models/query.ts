import { type Static, Type } from '@sinclair/typebox'
import { toAttosPerToken } from '../../kernel/money.ts'
import { pageQuery } from '../../kernel/pages.ts'
import { oneOf, TrueOrFalse } from '../../kernel/schema-builders.ts'
import { ALL_PARAMETERS } from '../../language/parameters.ts'
import type { Endpoint, Model } from '../models.ts'
import { type Prices, sumPrices } from '../prices.ts'
import { listProviderNames } from '../providers/names.ts'
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

/** The query of `GET /models/count`. */
export const CountQuery = Type.Object({ output_modalities: OUTPUTS })
export type CountQuery = Static<typeof CountQuery>

/** The query of `GET /models/user`. */
export const CallableQuery = Type.Object({ ...PageQuery.properties, ...CountQuery.properties })
export type CallableQuery = Static<typeof CallableQuery>

const UNMEASURED = 'This gateway does not measure it, so no model matches'

/** The query of `GET /models`. A filter never matches a model whose value is not known. */
export const ModelQuery = Type.Object({
  ...CallableQuery.properties,
  category: Type.Optional(
    Type.Union(
      [
        ...['programming', 'roleplay', 'marketing', 'marketing/seo', 'technology', 'science'],
        ...['translation', 'legal', 'finance', 'health', 'trivia', 'academia'],
      ].map(word => Type.Literal(word)),
      { description: 'This gateway has no categories, so no model matches' },
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
      { description: 'Orders that this gateway does not measure change nothing' },
    ),
  ),
  use_rss: List('true: an RSS feed'),
  use_rss_chat_links: List('Accepted and ignored: there is no chat page to link to'),
})
export type ModelQuery = Static<typeof ModelQuery>

type QueryValue<Name extends keyof ModelQuery> = NonNullable<ModelQuery[Name]>
type FilterFactory<Name extends keyof ModelQuery> = (
  wanted: QueryValue<Name>,
  now: Date,
) => (model: Model) => boolean

const rejectAll = () => () => false

const FILTERS: { [Name in keyof ModelQuery]?: FilterFactory<Name> } = {
  category: rejectAll,
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
  region: value => model => model.endpoints.some(endpoint => endpoint.region === value),
  min_age_days: (value, now) => createAgeFilter(now, days => days >= value),
  max_age_days: (value, now) => createAgeFilter(now, days => days <= value),
  min_intelligence_index: rejectAll,
  max_intelligence_index: rejectAll,
  min_coding_index: rejectAll,
  max_coding_index: rejectAll,
  min_agentic_index: rejectAll,
  max_agentic_index: rejectAll,
  min_tool_success_rate: rejectAll,
  max_tool_success_rate: rejectAll,
}

/**
 * Returns the models that match every filter of the query, sorted as it says. `output_modalities`
 * defaults to text.
 */
export function filterModels(models: Iterable<Model>, query: ModelQuery, now: Date): Model[] {
  const filters = [
    createOutputFilter(query.output_modalities ?? 'text'),
    ...buildFilters(query, now),
  ]
  const found = [...models].filter(model => filters.every(filter => filter(model)))
  const order = query.sort && ORDERS[query.sort]
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
const ORDERS: Record<string, ModelComparator> = {
  newest: (a, b) => (b.created ?? 0) - (a.created ?? 0),
  'context-high-to-low': (a, b) => (b.context_length ?? -1) - (a.context_length ?? -1),
  'pricing-low-to-high': createPriceOrder((a, b) => a - b),
  'pricing-high-to-low': createPriceOrder((a, b) => b - a),
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
