import { renderUsdPerToken } from '../../base/money.ts'
import { ALL_PARAMETERS } from '../../language/parameters.ts'
import type { ServiceTier } from '../../language/routing.ts'
import { UNIT_ROWS } from '../../language/usage.ts'
import { FREE, type Prices, type PriceTier } from '../prices.ts'
import type { Endpoint, EndpointStats, Model } from './catalog.ts'

/** Caches the public shape of each model. A model does not change. */
const publicModels = new WeakMap<Model, ReturnType<typeof buildPublicModel>>()

/**
 * Returns a model in the public shape (wire reference B.4). `pricing` is that of its cheapest
 * priced endpoint, in USD per token. `created` must be a number there: an unknown release is 0,
 * which no real model has and which sorts as old.
 */
export function toPublicModel(model: Model) {
  const publicModel = publicModels.get(model) ?? buildPublicModel(model)
  publicModels.set(model, publicModel)
  return publicModel
}

function buildPublicModel(model: Model) {
  const [first] = model.endpoints
  return {
    id: model.id,
    canonical_slug: model.target ?? model.id,
    name: model.name,
    description: model.description,
    created: model.created ?? 0,
    context_length: model.context_length,
    architecture: toPublicArchitecture(model),
    pricing: toPublicPrices(model.router === 'free' ? FREE : findCheapestPrices(model.endpoints)),
    top_provider: {
      context_length: first?.context_length ?? model.context_length,
      max_completion_tokens: first?.max_completion_tokens ?? null,
      is_moderated: false,
    },
    ...toPublicReasoning(model),
    per_request_limits: null,
    supported_parameters: listSupportedParameters(model.endpoints),
    default_parameters: null,
    supported_voices: null,
    knowledge_cutoff: null,
    expiration_date: null,
    links: { details: `/api/v1/models/${model.target ?? model.id}/endpoints` },
  }
}

/** Returns a model with its endpoints, as `GET /models/{author}/{slug}/endpoints` shows it. */
export function toPublicEndpoints(model: Model, getStats: (endpoint: Endpoint) => EndpointStats) {
  const { id, name, description } = model
  const created = model.created ?? 0
  const architecture = { ...toPublicArchitecture(model), instruct_type: null }
  return {
    id,
    name,
    description,
    created,
    architecture,
    endpoints: model.endpoints.map(one => toPublicEndpoint(model, one, getStats(one))),
  }
}

// Left out unless the model is known to reason.
const toPublicReasoning = ({ reasoning }: Model) => (reasoning ? { reasoning } : {})

/** Returns an endpoint in the public shape, with its measurements. */
export function toPublicEndpoint(model: Model, endpoint: Endpoint, stats: EndpointStats) {
  return {
    name: `${endpoint.provider.name} | ${model.id}`,
    model_id: model.id,
    model_name: model.name,
    context_length: endpoint.context_length ?? 0,
    pricing: toPublicPrices(endpoint.prices),
    provider_name: endpoint.provider.name,
    tag: buildTag(endpoint),
    quantization: endpoint.quantization,
    max_completion_tokens: endpoint.max_completion_tokens,
    max_prompt_tokens: null,
    supported_parameters: listSupportedParameters([endpoint]),
    supports_implicit_caching:
      endpoint.prices?.cache_read !== undefined &&
      !EXPLICIT_CACHE_PROTOCOLS.includes(endpoint.protocol),
    supports_tool_choice: toPublicToolChoice(endpoint),
    ...stats,
  }
}

// A name that `provider.only` and `provider.order` take for this endpoint alone.
function buildTag({ provider: { slug }, region, quantization, service_tier }: Endpoint): string {
  if (service_tier !== null) return buildTierName(slug, region, service_tier)
  const suffix = region ?? (quantization === 'unknown' ? null : quantization)
  return suffix === null ? slug : `${slug}/${suffix}`
}

/** Returns the only name of an endpoint of a service tier: `openai/priority`. */
export const buildTierName = (slug: string, region: string | null, tier: ServiceTier): string =>
  [slug, ...(region === null ? [] : [region]), tier].join('/')

function toPublicToolChoice({ supported_parameters }: Endpoint) {
  const chooses = supported_parameters === null || supported_parameters.has('tool_choice')
  return { auto: chooses, none: chooses, required: chooses, function: chooses }
}

/** Protocols that cache only what the caller has marked. */
const EXPLICIT_CACHE_PROTOCOLS = ['anthropic-messages', 'bedrock-converse']

function toPublicArchitecture(model: Model) {
  const { input_modalities, output_modalities } = model
  return {
    modality: `${input_modalities.join('+')}->${output_modalities.join('+')}`,
    input_modalities,
    output_modalities,
    tokenizer: getTokenizerFamily(model),
  }
}

/** Tokenizer families in the public list's names (ModelGroup), by slug. The first match counts. */
const TOKENIZERS: [slug: RegExp, tokenizer: string][] = [
  [/^openai\//, 'GPT'],
  [/^anthropic\//, 'Claude'],
  [/^google\/gemini/, 'Gemini'],
  [/^google\/.*gemma/, 'Gemma'],
  [/^x-ai\//, 'Grok'],
  [/^cohere\//, 'Cohere'],
  [/^amazon\/nova/, 'Nova'],
  [/^qwen\/qwen-?3/, 'Qwen3'],
  [/^qwen\//, 'Qwen'],
  [/^deepseek\/(?!.*distill)/, 'DeepSeek'],
  [/^mistralai\//, 'Mistral'],
  [/^meta-llama\/llama-4/, 'Llama4'],
  [/^meta-llama\/llama-3/, 'Llama3'],
  [/^meta-llama\/llama-2/, 'Llama2'],
]

/** Returns the family of the model's tokenizer, `Media` for models that produce no text. */
export function getTokenizerFamily({ id, output_modalities, router }: Model): string {
  if (router) return 'Router'
  if (output_modalities.every(one => one === 'image' || one === 'video')) return 'Media'
  return TOKENIZERS.find(([slug]) => slug.test(id))?.[1] ?? 'Other'
}

/**
 * Returns prices in the public shape. An unknown price is "-1", as the public service marks it, and
 * never "0", which means free.
 */
export function toPublicPrices(prices: Prices | null) {
  if (!prices) return { prompt: '-1', completion: '-1' }
  const { audio_output, image_output, image, reasoning, request } = prices
  const overrides = prices.tiers?.map(tier => toPublicTier(prices, tier))
  return {
    prompt: '0',
    completion: '0',
    ...renderRates({
      ...toTokenRates(prices),
      audio_output,
      image_output,
      image_token: image,
      internal_reasoning: reasoning,
      request,
      ...toUnitRates(prices),
    }),
    ...(overrides ? { overrides } : {}),
  }
}

/** Returns the rates that a tier may change, by their public names. */
const toTokenRates = ({
  prompt,
  completion,
  cache_read,
  cache_write,
  cache_write_1h,
  audio,
}: Prices) => ({
  prompt,
  completion,
  input_cache_read: cache_read,
  input_cache_write: cache_write,
  input_cache_write_1h: cache_write_1h,
  audio,
})

/** Returns the prices of the units for which the public list has a name. */
function toUnitRates(prices: Prices): Record<string, bigint> {
  const listed: Record<string, bigint> = {}
  for (const { price, publicPriceName, partsPerUnit } of UNIT_ROWS) {
    const attos = prices[price]
    if (publicPriceName !== undefined && attos !== undefined)
      listed[publicPriceName] = attos * BigInt(partsPerUnit)
  }
  return listed
}

function toPublicTier(base: Prices, { above, prices }: PriceTier) {
  const before = toTokenRates(base)
  const changed = Object.entries(toTokenRates(prices)).filter(
    ([name, rate]) => rate !== before[name as keyof typeof before],
  )
  return { min_prompt_tokens: above, ...renderRates(Object.fromEntries(changed)) }
}

const renderRates = (rates: Record<string, bigint | undefined>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(rates).flatMap(([name, rate]) =>
      rate === undefined ? [] : [[name, renderUsdPerToken(rate)]],
    ),
  )

/** Returns the lowest known prices of the endpoints. Null where none is known. */
export function findCheapestPrices(endpoints: Endpoint[]): Prices | null {
  const priced = endpoints.flatMap(endpoint => endpoint.prices ?? [])
  return priced.reduce<Prices | null>(
    (best, next) => (best && best.prompt <= next.prompt ? best : next),
    null,
  )
}

const listSupportedParameters = (endpoints: Endpoint[]) => [
  ...new Set(endpoints.flatMap(endpoint => [...(endpoint.supported_parameters ?? ALL_PARAMETERS)])),
]
