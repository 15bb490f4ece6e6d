import type { Endpoint } from '../../../catalog/models.ts'
import type { Prices } from '../../../catalog/prices.ts'
import { isObject } from '../../../kernel/json.ts'
import { multiplyPrice, pickLarger } from '../../../kernel/money.ts'
import type { TextCall } from '../../../language/call.ts'
import {
  boundTokens,
  computeLargestPrompt,
  computePromptBound,
} from '../../../tokenizers/prompt.ts'
import type { Costing } from '../../kinds.ts'
import { listUnsupported } from './understanding.ts'

export const costing: Partial<Costing<'text'>> = {
  estimateInput: computePromptBound,
  boundInput: computeLargestPrompt,
  boundUnits: call => ({ search: countSearches(call) }),
  boundOutput,
  computeLeastOutput,
  needsOutputLimit,
  limitOutput,
  priceOutputToken,
  priceSurcharge,
}

/** No model makes use of less, and some refuse it. */
const MIN_OUTPUT = 16

/**
 * A model that reasons by budget uses at least this many tokens, whatever the call asks for
 * (Anthropic, "Extended thinking").
 */
const MIN_THINKING = 1024

/**
 * Returns the most tokens that an answer may have: what the caller asks for or the model gives,
 * plus what reasoning may take.
 */
function boundOutput(call: TextCall, endpoint: Endpoint): number | null {
  const isGiven = call.params.max_tokens !== undefined && supportsBound(endpoint)
  const requested = isGiven
    ? Math.max(findHighestBound(call), MIN_OUTPUT) + computeThinking(call)
    : null
  const most = endpoint.max_completion_tokens
  return requested === null || most === null ? (requested ?? most) : Math.min(requested, most)
}

/**
 * Tells whether nothing bounds the answer, or the call asks for more than the endpoint is known to
 * give.
 */
function needsOutputLimit(call: TextCall, { max_completion_tokens: most }: Endpoint): boolean {
  return most === null ? call.params.max_tokens === undefined : findHighestBound(call) > most
}

/**
 * Returns the least output that makes the call worthwhile: infinite if the endpoint takes no bound.
 */
function computeLeastOutput(call: TextCall, endpoint: Endpoint): number {
  if (!supportsBound(endpoint)) return Number.POSITIVE_INFINITY
  return MIN_OUTPUT + (computeThinking(call) > 0 ? MIN_THINKING : 0)
}

/** Returns the call with this many tokens for its reasoning and its answer together. */
function limitOutput(call: TextCall, tokens: number): TextCall {
  const thinking = Math.min(computeThinking(call), Math.max(tokens - MIN_OUTPUT, 0))
  const { reasoning } = call.params
  const budget =
    reasoning?.max_tokens === undefined ? {} : { reasoning: { ...reasoning, max_tokens: thinking } }
  const params = { ...call.params, ...budget, max_tokens: Math.max(tokens - thinking, 1) }
  return { ...call, params, extra: removeBounds(call.extra) }
}

/** Returns the highest price of a token of the answer, times the number of answers. */
function priceOutputToken(call: TextCall, prices: Prices): bigint {
  const { completion, reasoning, audio_output, image_output } = prices
  // Models that output images do so unasked; none outputs audio unasked.
  const sound = call.params.modalities?.includes('audio') ? audio_output : undefined
  const dearest = pickLarger(
    pickLarger(completion, reasoning),
    pickLarger(image_output ?? 0n, sound),
  )
  return multiplyPrice(countChoices(call), dearest)
}

/** OpenAI charges tokens of a prediction that does not come true like output. */
function priceSurcharge(call: TextCall, prices: Prices): bigint {
  const { prediction } = call.params
  if (prediction === undefined) return 0n
  return multiplyPrice(boundTokens(JSON.stringify(prediction)), priceOutputToken(call, prices))
}

const supportsBound = (endpoint: Endpoint) => listUnsupported(endpoint, BOUND_ALONE).length === 0

const BOUND_ALONE = { params: { max_tokens: 1 }, tools: [] }

function computeThinking({ params: { reasoning } }: TextCall): number {
  if (!reasoning || reasoning.enabled === false || reasoning.effort === 'none') return 0
  return Math.max(reasoning.max_tokens ?? 0, MIN_THINKING)
}

// We have no field for several answers at once, but providers have, and charge for each. Some
// accept numbers as strings too.
function countChoices({ extra }: TextCall): number {
  let most = 1
  for (const name in extra) most = Math.max(most, countAnswers(name, extra[name]))
  return most
}

function countAnswers(name: string, value: unknown): number {
  if (name === 'generationConfig' && isObject(value)) return readWholeNumber(value.candidateCount)
  return COUNTS.has(name) ? readWholeNumber(value) : 0
}

const COUNTS = new Set([
  'n',
  'best_of',
  'num_generations',
  'num_return_sequences',
  'candidate_count',
])

/** Other servers’ names for `max_tokens`. They may take precedence there. */
const BOUNDS = new Set([
  'max_output_tokens',
  'maxOutputTokens',
  'max_new_tokens',
  'max_tokens_to_sample',
  'n_predict',
  'num_predict',
])

/** Returns the highest bound of the call, whatever its name; 0 if it has none. */
function findHighestBound({ params: { max_tokens: most = 0 }, extra }: TextCall): number {
  for (const name in extra)
    if (BOUNDS.has(name)) most = Math.max(most, readWholeNumber(extra[name]))
  return most
}

function removeBounds(extra: TextCall['extra']): TextCall['extra'] {
  const isBounded = Object.keys(extra).some(name => BOUNDS.has(name))
  return isBounded
    ? Object.fromEntries(Object.entries(extra).filter(([name]) => !BOUNDS.has(name)))
    : extra
}

/** Reads a whole number; 0 if there is none. */
function readWholeNumber(value: unknown): number {
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) ? number : 0
}

/** The searches that a provider may make if the call does not bound them. */
const SEARCHES = 10

function countSearches({ tools, params, requiredCapabilities }: TextCall): number {
  const { web_search_options: options } = params
  let most = options === undefined ? 0 : countAskedSearches(options, requiredCapabilities)
  for (const tool of tools) if (tool.type === 'other') most += countToolSearches(tool.value)
  return most
}

// A bound holds only if every endpoint that may serve the call knows it. Otherwise it may be
// ignored.
function countAskedSearches(
  options: unknown,
  capabilities: TextCall['requiredCapabilities'],
): number {
  const maxUses = isObject(options) ? readWholeNumber(options.max_uses) : 0
  return capabilities?.includes('web_search') && maxUses > 0 ? maxUses : Math.max(maxUses, SEARCHES)
}

function countToolSearches(tool: unknown): number {
  if (!isObject(tool) || !String(tool.type).includes('search')) return 0
  return readWholeNumber(tool.max_uses) || SEARCHES
}
