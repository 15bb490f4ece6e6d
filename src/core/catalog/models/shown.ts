import { usdPerTokenText } from '../../ledger/money.ts'
import type { Endpoint, Model } from '../models.ts'
import type { Prices } from '../prices.ts'

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
