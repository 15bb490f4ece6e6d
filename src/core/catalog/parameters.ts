import { own } from '../kernel/json.ts'
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

/** What nobody who speaks so knows. A protocol that is not here may know everything: its servers differ. */
const UNKNOWN_TO_PROTOCOL: Record<string, Parameter[]> = {
  'anthropic-messages': UNKNOWN_TO_ANTHROPIC,
  'anthropic-vertex': UNKNOWN_TO_ANTHROPIC,
  gemini: ['min_p', 'top_a', 'repetition_penalty', 'logit_bias', 'prediction', 'verbosity'],
  // What Converse has no word for is what Anthropic has none for.
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

/** What a provider refuses with an error, whatever the model, besides what its quirks drop. */
const UNKNOWN_TO_PROVIDER: Record<string, Parameter[]> = {
  openai: OPEN_WEIGHTS,
  azure: OPEN_WEIGHTS,
  xai: OPEN_WEIGHTS,
  mistral: ['web_search_options'],
  deepseek: [...OPEN_WEIGHTS, 'prediction', 'web_search_options', 'verbosity'],
  groq: [...OPEN_WEIGHTS, 'prediction'],
  perplexity: TOOLS,
}

/** What a provider refuses for models that reason. */
const UNKNOWN_TO_REASONERS: Record<string, Parameter[]> = {
  openai: [...SAMPLING, 'stop', 'prediction'],
  azure: [...SAMPLING, 'stop', 'prediction'],
  xai: ['frequency_penalty', 'presence_penalty', 'stop'],
}

export interface Served {
  provider: string
  protocol: string
  /** What its quirks drop. */
  dropped: string[]
  /** Null where nobody knows. */
  reasoning: boolean | null
  /** Whether text comes out. */
  isText: boolean
}

/**
 * Says what an endpoint of the catalogue supports. Generous: what is not known to be refused is forwarded, for the endpoint to judge. Endpoints
 * that support the same share one set.
 */
export function openParameters(): (served: Served) => Set<string> {
  const known = new Map<string, Set<string>>()
  return served => {
    const key = Object.values(served).join()
    const parameters = known.get(key) ?? parametersOf(served)
    known.set(key, parameters)
    return parameters
  }
}

function parametersOf({ provider, protocol, dropped, reasoning, isText }: Served): Set<string> {
  const refused = new Set<string>([
    ...dropped,
    ...(own(UNKNOWN_TO_PROTOCOL, protocol) ?? []),
    ...(own(UNKNOWN_TO_PROVIDER, provider) ?? []),
    ...(reasoning === true ? (own(UNKNOWN_TO_REASONERS, provider) ?? []) : []),
    ...(reasoning === false ? REASONING : []),
    ...(isText ? [] : [...TOOLS, ...REASONING]),
  ])
  return new Set(ALL_PARAMETERS.filter(name => !refused.has(name)))
}
