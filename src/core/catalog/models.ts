import { type Static, Type } from '@sinclair/typebox'
import type { ModelConfig } from '../config.ts'
import { invalid, notFound } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import { usdPerTokenText } from '../ledger/money.ts'
import { FREE, type Prices, pricesOf } from './prices.ts'
import { openProviders, type Provider } from './providers.ts'

/** One model at one provider: the thing a call is sent to. */
export interface Endpoint {
  provider: Provider
  /** Our slug of the model. */
  model: string
  /** The provider's own name for it. */
  upstreamModel: string
  prices: Prices | null
  context_length: number | null
  max_completion_tokens: number | null
  /** Null: all. */
  supported_parameters: Set<string> | null
  data_policy: { training: boolean; retention_days: number | null }
  region: string | null
  quantization: string
}

/** What can be called under one slug. */
export interface Model {
  id: string
  name: string
  description: string
  /** Unix seconds. */
  created: number
  context_length: number | null
  input_modalities: string[]
  output_modalities: string[]
  endpoints: Endpoint[]
}

/** Everything that can be called, by slug and by provider. */
export interface Catalog {
  models: Map<string, Model>
  providers: Map<string, Provider>
}

// Plainly a sandbox: its answers are made in this process and cost nothing.
const SANDBOX: ModelConfig = {
  id: 'sandbox/echo',
  name: 'Sandbox: Echo',
  description: 'A sandbox, not a model: it answers with what was said, needs no network and costs nothing.',
  context_length: 1_000_000,
  input_modalities: ['text', 'image', 'file', 'audio'],
  endpoints: [{ provider: 'sandbox', model: 'echo', data_policy: { training: false, retention_days: 0 } }],
}

/** The catalogue of the config laid over the built-in one. Throws `invalid_request` naming the first setting that is wrong. */
export function openCatalog(config: Gateway['config'], protocols: string[], now: Date): Catalog {
  const { providers, faults } = openProviders(config.providers, protocols)
  const [fault] = faults
  if (fault) throw invalid(`providers.${fault.slug}.${fault.field}: expected ${fault.expected}`, `providers.${fault.slug}.${fault.field}`)
  const created = Math.floor(now.getTime() / 1000)
  const models = new Map<string, Model>()
  for (const [i, given] of [SANDBOX, ...config.models].entries()) models.set(given.id, openModel(given, i - 1, providers, created))
  if (!models.has(config.default_model))
    throw invalid(`default_model: expected a model of the catalogue, found ${config.default_model}`, 'default_model')
  return { models, providers }
}

function openModel(given: ModelConfig, at: number, providers: Map<string, Provider>, created: number): Model {
  const endpoints = given.endpoints.map((one, i) => {
    const provider = providers.get(one.provider)
    const path = `models.${at}.endpoints.${i}.provider`
    if (!provider) throw invalid(`${path}: expected one of ${[...providers.keys()].join(', ')}, found ${one.provider}`, path)
    return openEndpoint(given, one, provider)
  })
  return {
    id: given.id,
    name: given.name ?? given.id,
    description: given.description ?? '',
    created,
    context_length: given.context_length ?? null,
    input_modalities: given.input_modalities ?? ['text'],
    output_modalities: given.output_modalities ?? ['text'],
    endpoints,
  }
}

function openEndpoint(model: ModelConfig, given: ModelConfig['endpoints'][number], provider: Provider): Endpoint {
  const prices = given.usd_per_million_tokens
  return {
    provider,
    model: model.id,
    upstreamModel: given.model,
    prices: prices ? pricesOf(prices) : provider.protocol === 'sandbox' ? FREE : null,
    context_length: given.context_length ?? model.context_length ?? null,
    max_completion_tokens: given.max_completion_tokens ?? null,
    supported_parameters: given.supported_parameters ? new Set(given.supported_parameters) : null,
    data_policy: { training: given.data_policy?.training ?? true, retention_days: given.data_policy?.retention_days ?? null },
    region: given.region ?? null,
    quantization: given.quantization ?? 'unknown',
  }
}

/** The model under this slug. Throws 404. */
export function getModel(gateway: Gateway, id: string): Model {
  const model = gateway.catalog.models.get(id)
  if (!model) throw notFound(`${JSON.stringify(id)} is not a model of this gateway`)
  return model
}

/** The query of `GET /models`. */
export const ModelQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
})
export type ModelQuery = Static<typeof ModelQuery>

/** One page of the models, as `GET /models` shows it. */
export function listModels(gateway: Gateway, { offset = 0, limit = 500 }: ModelQuery = {}) {
  const models = [...gateway.catalog.models.values()]
  const next = offset + limit < models.length ? `/api/v1/models?offset=${offset + limit}&limit=${limit}` : null
  return { data: models.slice(offset, offset + limit).map(shownModel), links: { next }, total_count: models.length }
}

/** A model in the public shape (wire reference B.4). `pricing` is of its cheapest priced endpoint, in USD per token. */
export function shownModel(model: Model) {
  const [first] = model.endpoints
  return {
    id: model.id,
    canonical_slug: model.id,
    name: model.name,
    description: model.description,
    created: model.created,
    context_length: model.context_length,
    architecture: shownArchitecture(model),
    pricing: shownPrices(cheapest(model.endpoints)),
    top_provider: {
      context_length: first?.context_length ?? model.context_length,
      max_completion_tokens: first?.max_completion_tokens ?? null,
      is_moderated: false,
    },
    per_request_limits: null,
    supported_parameters: parametersOf(model.endpoints),
    default_parameters: null,
    supported_voices: null,
    knowledge_cutoff: null,
    expiration_date: null,
    links: { details: `/api/v1/models/${model.id}/endpoints` },
  }
}

/** A model and who serves it, as `GET /models/{author}/{slug}/endpoints` shows it. */
export function shownEndpoints(model: Model) {
  const { id, name, description, created } = model
  const architecture = { ...shownArchitecture(model), instruct_type: null }
  return { id, name, description, created, architecture, endpoints: model.endpoints.map(one => shownEndpoint(model, one)) }
}

function shownEndpoint(model: Model, endpoint: Endpoint) {
  return {
    name: `${endpoint.provider.name} | ${model.id}`,
    model_id: model.id,
    model_name: model.name,
    context_length: endpoint.context_length ?? 0,
    pricing: shownPrices(endpoint.prices),
    provider_name: endpoint.provider.name,
    tag: endpoint.provider.slug,
    quantization: endpoint.quantization,
    max_completion_tokens: endpoint.max_completion_tokens,
    max_prompt_tokens: null,
    supported_parameters: parametersOf([endpoint]),
    supports_implicit_caching: endpoint.prices?.cache_read !== undefined,
    supports_tool_choice: { auto: true, none: true, required: true, function: true },
    uptime_last_5m: null,
    uptime_last_30m: null,
    uptime_last_1d: null,
    latency_last_30m: null,
    throughput_last_30m: null,
    status: 0,
  }
}

function shownArchitecture({ input_modalities, output_modalities }: Model) {
  return {
    modality: `${input_modalities.join('+')}->${output_modalities.join('+')}`,
    input_modalities,
    output_modalities,
    tokenizer: 'Other',
  }
}

// An unknown price is "-1", as the public service marks prices it cannot tell: never "0", which is free.
function shownPrices(prices: Prices | null) {
  if (!prices) return { prompt: '-1', completion: '-1' }
  const { prompt, completion, cache_read, cache_write, reasoning, audio, audio_output, image_output, request } = prices
  const named = {
    prompt,
    completion,
    request,
    input_cache_read: cache_read,
    input_cache_write: cache_write,
    internal_reasoning: reasoning,
    audio,
    audio_output,
    image_output,
  }
  const known = Object.entries(named).filter((entry): entry is [string, bigint] => entry[1] !== undefined)
  return { prompt: '0', completion: '0', ...Object.fromEntries(known.map(([name, rate]) => [name, usdPerTokenText(rate)])) }
}

function cheapest(endpoints: Endpoint[]): Prices | null {
  const priced = endpoints.flatMap(endpoint => endpoint.prices ?? [])
  return priced.reduce<Prices | null>((best, next) => (best && best.prompt <= next.prompt ? best : next), null)
}

const parametersOf = (endpoints: Endpoint[]) => [
  ...new Set(endpoints.flatMap(endpoint => [...(endpoint.supported_parameters ?? ALL_PARAMETERS)])),
]

/** The parameters that an endpoint may or may not support, in the public list's names (wire reference B.4, Parameter). */
export const ALL_PARAMETERS = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'top_a',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'max_tokens',
  'max_completion_tokens',
  'logit_bias',
  'logprobs',
  'top_logprobs',
  'prediction',
  'seed',
  'response_format',
  'structured_outputs',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'include_reasoning',
  'reasoning',
  'reasoning_effort',
  'web_search_options',
  'verbosity',
] as const
