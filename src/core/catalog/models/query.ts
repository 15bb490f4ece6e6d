import { type Static, Type } from '@sinclair/typebox'
import { attosPerToken } from '../../kernel/money.ts'
import { pageQuery } from '../../kernel/pages.ts'
import { oneOf, TrueOrFalse } from '../../kernel/schema-builders.ts'
import { ALL_PARAMETERS } from '../../language/parameters.ts'
import type { Endpoint, Model } from '../models.ts'
import { type Prices, sumPrices } from '../prices.ts'
import { namesOf } from '../providers/called.ts'
import { cheapest, tokenizerOf } from './shown.ts'

const Amount = (description: string, maximum?: number) =>
  Type.Optional(
    Type.Number({ minimum: 0, description, ...(maximum === undefined ? {} : { maximum }) }),
  )
const Count = (minimum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum, description }))
const List = (description: string) => Type.Optional(Type.String({ description }))

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

type Given<Name extends keyof ModelQuery> = NonNullable<ModelQuery[Name]>
type Filter<Name extends keyof ModelQuery> = (
  wanted: Given<Name>,
  now: Date,
) => (model: Model) => boolean

const never = () => () => false

const FILTERS: { [Name in keyof ModelQuery]?: Filter<Name> } = {
  category: never,
  supported_parameters: wanted => {
    const names = listed(wanted)
    return ({ endpoints }) =>
      endpoints.some(endpoint => names.every(name => supports(endpoint, name)))
  },
  input_modalities: wanted => model =>
    listed(wanted).every(one => model.input_modalities.includes(one)),
  q: wanted => {
    const words = wanted.toLowerCase().split(/\s+/)
    return ({ id, name }) => words.every(word => `${id} ${name}`.toLowerCase().includes(word))
  },
  context: wanted => model => model.context_length !== null && model.context_length >= wanted,
  min_price: wanted => priced('prompt', price => price >= attosPerToken(wanted)),
  max_price: wanted => priced('prompt', price => price <= attosPerToken(wanted)),
  min_output_price: wanted => priced('completion', price => price >= attosPerToken(wanted)),
  max_output_price: wanted => priced('completion', price => price <= attosPerToken(wanted)),
  arch: wanted => model => tokenizerOf(model).toLowerCase().startsWith(wanted.toLowerCase()),
  model_authors: wanted => model =>
    listed(wanted).includes(model.id.slice(0, model.id.indexOf('/'))),
  providers: wanted => {
    const names = listed(wanted).map(name => name.toLowerCase())
    return ({ endpoints }) =>
      endpoints.some(({ provider }) => namesOf(provider).some(name => names.includes(name)))
  },
  distillable: wanted => model =>
    model.endpoints.some(({ distillable }) => distillable) === (wanted === 'true'),
  zdr: () => model => model.endpoints.some(keepsNothing),
  region: wanted => model => model.endpoints.some(endpoint => endpoint.region === wanted),
  min_age_days: (wanted, now) => aged(now, days => days >= wanted),
  max_age_days: (wanted, now) => aged(now, days => days <= wanted),
  min_intelligence_index: never,
  max_intelligence_index: never,
  min_coding_index: never,
  max_coding_index: never,
  min_agentic_index: never,
  max_agentic_index: never,
  min_tool_success_rate: never,
  max_tool_success_rate: never,
}

/**
 * Returns the models that match every filter of the query, sorted as it says. `output_modalities`
 * defaults to text.
 */
export function matching(models: Iterable<Model>, query: ModelQuery, now: Date): Model[] {
  const filters = [byOutput(query.output_modalities ?? 'text'), ...filtersOf(query, now)]
  const found = [...models].filter(model => filters.every(filter => filter(model)))
  const order = query.sort && ORDERS[query.sort]
  return order ? found.sort(order) : found
}

// The query may hold anything, so only known names are read.
function filtersOf(query: ModelQuery, now: Date): ((model: Model) => boolean)[] {
  return Object.entries(FILTERS).flatMap(([name, filter]) => {
    const wanted = query[name as keyof ModelQuery]
    return wanted === undefined ? [] : [(filter as Filter<keyof ModelQuery>)(wanted, now)]
  })
}

function byOutput(wanted: string): (model: Model) => boolean {
  const outputs = listed(wanted)
  return model =>
    outputs.includes('all') || model.output_modalities.some(one => outputs.includes(one))
}

const listed = (text: string) => text.split(',').map(one => one.trim())

const supports = ({ supported_parameters }: Endpoint, name: string) =>
  supported_parameters ? supported_parameters.has(name) : ALL_PARAMETERS.some(one => one === name)

/** Returns whether an endpoint is known to retain nothing it is sent. */
export const keepsNothing = ({ data_policy }: Endpoint): boolean => data_policy.retention_days === 0

const priced =
  (name: 'prompt' | 'completion', fits: (price: bigint) => boolean) => (model: Model) => {
    const prices = cheapest(model.endpoints)
    return prices !== null && fits(prices[name])
  }

const aged =
  (now: Date, fits: (days: number) => boolean) =>
  ({ created }: Model) =>
    created !== null && fits(Math.floor((now.getTime() / 1000 - created) / 86_400))

type Order = (a: Model, b: Model) => number

/** Unknown values come last in both directions. */
const ORDERS: Record<string, Order> = {
  newest: (a, b) => (b.created ?? 0) - (a.created ?? 0),
  'context-high-to-low': (a, b) => (b.context_length ?? -1) - (a.context_length ?? -1),
  'pricing-low-to-high': byPrice((a, b) => a - b),
  'pricing-high-to-low': byPrice((a, b) => b - a),
}

// Twice the average, which sorts the same.
function byPrice(compare: (a: bigint, b: bigint) => bigint): Order {
  const sum = (prices: Prices | null) => prices && sumPrices(prices)
  return (first, second) => {
    const a = sum(cheapest(first.endpoints))
    const b = sum(cheapest(second.endpoints))
    if (a === null || b === null) return Number(a === null) - Number(b === null)
    return Number(compare(a, b))
  }
}
