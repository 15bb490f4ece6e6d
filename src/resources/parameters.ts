import { getOwn } from '../base/json.ts'
import { ALL_PARAMETERS, type Parameter } from '../language/parameters.ts'

const REASONING: Parameter[] = ['reasoning', 'reasoning_effort', 'include_reasoning']
const TOOLS: Parameter[] = ['tools', 'tool_choice', 'parallel_tool_calls']
const SAMPLING: Parameter[] = [
  'temperature',
  'top_p',
  'frequency_penalty',
  'presence_penalty',
  'logprobs',
  'top_logprobs',
  'logit_bias',
]
const OPEN_WEIGHTS: Parameter[] = ['top_k', 'min_p', 'top_a', 'repetition_penalty']

const UNKNOWN_TO_ANTHROPIC: Parameter[] = [
  ...(['min_p', 'top_a', 'repetition_penalty', 'frequency_penalty', 'presence_penalty'] as const),
  ...(['logit_bias', 'logprobs', 'top_logprobs', 'prediction', 'seed'] as const),
]

/**
 * Parameters that no server of a protocol knows. A protocol that is missing here may know every
 * parameter: its servers differ.
 */
const UNKNOWN_TO_PROTOCOL: Record<string, Parameter[]> = {
  'anthropic-messages': UNKNOWN_TO_ANTHROPIC,
  'anthropic-vertex': UNKNOWN_TO_ANTHROPIC,
  gemini: ['min_p', 'top_a', 'repetition_penalty', 'logit_bias', 'prediction', 'verbosity'],
  // Converse lacks the same parameters as Anthropic.
  'bedrock-converse': UNKNOWN_TO_ANTHROPIC,
  'cohere-chat': [
    'min_p',
    'top_a',
    'repetition_penalty',
    'logit_bias',
    'prediction',
    'verbosity',
    'web_search_options',
  ],
  'openai-responses': [
    ...OPEN_WEIGHTS,
    'frequency_penalty',
    'presence_penalty',
    'logit_bias',
    'prediction',
    'seed',
    'stop',
  ],
}

/**
 * Parameters that a provider refuses with an error for every model, in addition to those that its
 * quirks drop.
 */
const UNKNOWN_TO_PROVIDER: Record<string, Parameter[]> = {
  openai: OPEN_WEIGHTS,
  azure: OPEN_WEIGHTS,
  xai: OPEN_WEIGHTS,
  mistral: ['web_search_options'],
  deepseek: [...OPEN_WEIGHTS, 'prediction', 'web_search_options', 'verbosity'],
  groq: [...OPEN_WEIGHTS, 'prediction'],
  perplexity: TOOLS,
}

/** Parameters that a provider refuses for models that reason. */
const UNKNOWN_TO_REASONERS: Record<string, Parameter[]> = {
  openai: [...SAMPLING, 'stop', 'prediction'],
  azure: [...SAMPLING, 'stop', 'prediction'],
  xai: ['frequency_penalty', 'presence_penalty', 'stop'],
}

export interface EndpointTraits {
  provider: string
  protocol: string
  /** The parameters that its quirks drop. */
  dropped: string[]
  /** Null where it is not known. */
  reasoning: boolean | null
  /** Whether the model produces text. */
  isText: boolean
}

/**
 * Returns a function that lists the parameters an endpoint supports. The list is generous: unless a
 * parameter is known to be refused it is forwarded, and the endpoint decides. Endpoints that
 * support the same parameters share one set.
 */
export function createParameterLookup(): (traits: EndpointTraits) => Set<string> {
  const cache = new Map<string, Set<string>>()
  return traits => {
    const key = Object.values(traits).join()
    const parameters = cache.get(key) ?? listParameters(traits)
    cache.set(key, parameters)
    return parameters
  }
}

function listParameters({
  provider,
  protocol,
  dropped,
  reasoning,
  isText,
}: EndpointTraits): Set<string> {
  const refused = new Set<string>([
    ...dropped,
    ...(getOwn(UNKNOWN_TO_PROTOCOL, protocol) ?? []),
    ...(getOwn(UNKNOWN_TO_PROVIDER, provider) ?? []),
    ...(reasoning === true ? (getOwn(UNKNOWN_TO_REASONERS, provider) ?? []) : []),
    ...(reasoning === false ? REASONING : []),
    ...(isText ? [] : [...TOOLS, ...REASONING]),
  ])
  return new Set(ALL_PARAMETERS.filter(name => !refused.has(name)))
}
