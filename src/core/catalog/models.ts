import { type Static, Type } from '@sinclair/typebox'
import type { ModelConfig } from '../config.ts'
import { invalid, notFound } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import { shownModel } from './models/shown.ts'
import { FREE, type Prices, pricesOf } from './prices.ts'
import { openProviders, type Provider } from './providers.ts'

/** One model at one provider: the thing a call is sent to. */
export interface Endpoint {
  provider: Provider
  /** How it is spoken to there: the provider's own way, unless this model has another. */
  protocol: string
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
  for (const [i, given] of [SANDBOX, ...config.models].entries())
    models.set(given.id, openModel(given, i - 1, providers, protocols, created))
  if (!models.has(config.default_model))
    throw invalid(`default_model: expected a model of the catalogue, found ${config.default_model}`, 'default_model')
  return { models, providers }
}

function openModel(given: ModelConfig, at: number, providers: Map<string, Provider>, protocols: string[], created: number): Model {
  const endpoints = given.endpoints.map((one, i) => {
    const provider = providers.get(one.provider)
    const path = `models.${at}.endpoints.${i}.provider`
    if (!provider) throw invalid(`${path}: expected one of ${[...providers.keys()].join(', ')}, found ${one.provider}`, path)
    if (one.protocol && !protocols.includes(one.protocol)) throw unspoken(`models.${at}.endpoints.${i}.protocol`, protocols)
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
    protocol: given.protocol ?? provider.protocol,
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

const unspoken = (path: string, protocols: string[]) => invalid(`${path}: expected one of ${protocols.join(', ')}`, path)

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
