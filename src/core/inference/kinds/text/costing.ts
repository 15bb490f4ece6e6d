import type { Endpoint } from '../../../catalog/models.ts'
import type { Prices } from '../../../catalog/prices.ts'
import { isObject, type Json, parseCount } from '../../../kernel/json.ts'
import { multiplyPrice, pickLarger } from '../../../kernel/money.ts'
import type { TextCall } from '../../../language/call.ts'
import {
  boundJsonTokens,
  computeLargestPrompt,
  computePromptBound,
} from '../../../tokenizers/prompt.ts'
import type { Costing } from '../../kinds.ts'
import { findHighestCount, removeCounts } from './counts.ts'
import { listUnsupported } from './understanding.ts'

export const costing: Partial<Costing<'text'>> = {
  estimateInput: computePromptBound,
  boundInput: computeLargestPrompt,
  countPrompts: () => 1,
  boundUnits: call => ({ search: countSearches(call) }),
  boundOutput,
  computeLeastOutput,
  needsOutputLimit,
  limitUnits,
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
  const output =
    requested === null || most === null ? (requested ?? most) : Math.min(requested, most)
  // Providers that read a budget in a field of their own may spend it beside the answer.
  return output === null ? null : output + findHighestCount(call, 'reasoning')
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
  return { ...call, params, extra: removeCounts(call.extra, ['output', 'reasoning']) }
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
  return multiplyPrice(boundJsonTokens(prediction), priceOutputToken(call, prices))
}

const supportsBound = (endpoint: Endpoint) => listUnsupported(endpoint, BOUND_ALONE).length === 0

const BOUND_ALONE = { params: { max_tokens: 1 }, tools: [] }

function computeThinking({ params: { reasoning } }: TextCall): number {
  if (!reasoning || reasoning.enabled === false || reasoning.effort === 'none') return 0
  return Math.max(reasoning.max_tokens ?? 0, MIN_THINKING)
}

// The gateway has no field for several answers at once, but providers have, and charge for each.
const countChoices = (call: TextCall): number => Math.max(findHighestCount(call, 'answers'), 1)

/** Returns the highest bound of the call, whatever its name; 0 if it has none. */
const findHighestBound = (call: TextCall): number =>
  Math.max(call.params.max_tokens ?? 0, findHighestCount(call, 'output'))

/** The searches that a provider may make if the call does not bound them. */
const SEARCHES = 10

function countSearches(call: TextCall): number {
  const { tools, params, extra, requiredCapabilities } = call
  const { web_search_options: options } = params
  let most = options === undefined ? 0 : countAskedSearches(options, requiredCapabilities)
  // Other servers switch on a search by fields of their own: `search_parameters`, `enable_search`.
  if (Object.keys(extra).some(name => name.includes('search')))
    most += Math.max(findHighestCount(call, 'searches'), SEARCHES)
  for (const tool of tools) if (tool.type === 'other') most += countToolSearches(tool.value)
  return most
}

// A bound holds only if every endpoint that may serve the call knows it. Otherwise it may be
// ignored.
function countAskedSearches(
  options: unknown,
  capabilities: TextCall['requiredCapabilities'],
): number {
  const maxUses = (isObject(options) && parseCount(options.max_uses)) || 0
  return capabilities?.includes('web_search') && maxUses > 0 ? maxUses : Math.max(maxUses, SEARCHES)
}

/**
 * Returns the call with the searches that its hold assumes, where it names no number and the
 * provider takes one (Anthropic, "Web search tool": `max_uses`).
 */
function limitUnits(call: TextCall, { protocol }: Endpoint): TextCall {
  if (!protocol.startsWith('anthropic-') || countSearches(call) === 0) return call
  const { web_search_options: options } = call.params
  const tools = call.tools.map(tool =>
    tool.type === 'other' && isObject(tool.value) && countToolSearches(tool.value) > 0
      ? { ...tool, value: addMaxUses(tool.value) }
      : tool,
  )
  if (!isObject(options)) return { ...call, tools }
  return { ...call, tools, params: { ...call.params, web_search_options: addMaxUses(options) } }
}

const addMaxUses = (fields: Json): Json => ({ ...fields, max_uses: fields.max_uses ?? SEARCHES })

function countToolSearches(tool: unknown): number {
  if (!isObject(tool) || !String(tool.type).includes('search')) return 0
  return parseCount(tool.max_uses) || SEARCHES
}
