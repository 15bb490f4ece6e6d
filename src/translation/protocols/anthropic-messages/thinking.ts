import type { Json } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Params, Reasoning } from '../../../language/params.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import type { Conversation, ConversationMessage } from '../conversation.ts'
import { isNative } from '../native.ts'
import { toReasoningBudget, toReasoningEffort } from '../reasoning.ts'
import { type Capabilities, getCapabilities, OTHER_VENDOR } from './capabilities.data.ts'
import { getReasoningFormat, NATIVE, renderThinkingBlocks } from './messages.ts'

/** The parameters that control thinking. */
export interface Thinking {
  thinking?: Json
  effort?: string
  /** Includes room for the thinking, if there is any. */
  max_tokens: number
}

const MIN_BUDGET = 1_024

/**
 * Renders the requested reasoning as far as the model supports it. `isBarred` says that something
 * else in the request rules out thinking.
 */
export function renderThinking(
  call: TextCall,
  endpoint: Endpoint,
  conversation: Conversation,
  isBarred: boolean,
): Thinking {
  const { reasoning, verbosity, max_tokens } = call.params
  const capabilities = getCapabilities(endpoint)
  const bound = computeMaxTokens(max_tokens, endpoint)
  const plain = { max_tokens: bound, ...fitEffort(verbosity, capabilities) }
  const effort = reasoning && toReasoningEffort(reasoning, bound)
  if (!reasoning || effort === undefined || capabilities.thinking === 'none') return plain
  if (effort === 'none' || reasoning.max_tokens === 0)
    return { ...plain, ...renderThinkingOff(capabilities, plain.effort) }
  if (usesBudget(capabilities, reasoning))
    return isBarred || hasLostThinking(conversation, endpoint)
      ? plain
      : { ...plain, ...renderBudget(toReasoningBudget(reasoning, bound) ?? 0, bound, endpoint) }
  const withEffort = {
    ...plain,
    ...(usesModelDefault(call) ? {} : fitEffort(effort, capabilities)),
  }
  return isBarred
    ? withEffort
    : { ...withEffort, thinking: { type: 'adaptive', ...renderDisplay(call) } }
}

// A client of this dialect that names no effort means the model's default.
function usesModelDefault(call: TextCall): boolean {
  const { effort, max_tokens } = call.params.reasoning ?? {}
  return isNative(call, NATIVE) && effort === undefined && max_tokens === undefined
}

// A client of this dialect that names no display means the model's default. All others want to see
// the thinking.
function renderDisplay(call: TextCall): Json {
  const { reasoning } = call.params
  if (reasoning?.exclude) return { display: 'omitted' }
  const isLeftToTheModel = isNative(call, NATIVE) && reasoning?.summary === undefined
  return isLeftToTheModel ? {} : { display: 'summarized' }
}

const usesBudget = ({ thinking }: Capabilities, { max_tokens }: Reasoning): boolean =>
  thinking === 'budget' || (thinking === 'either' && max_tokens !== undefined)

// Picks the lower of two efforts: a caller must not pay for more than they asked for.
function fitEffort(effort: string | undefined, { efforts }: Capabilities): { effort?: string } {
  if (effort === undefined || efforts.length === 0) return {}
  if (efforts.includes(effort)) return { effort: effort }
  if (effort === 'minimal') return { effort: 'low' }
  return effort === 'xhigh' || effort === 'max' ? { effort: 'high' } : {}
}

function renderThinkingOff(
  { thinkingOff }: Capabilities,
  effort: string | undefined,
): { thinking?: Json; effort?: string } {
  switch (thinkingOff) {
    case 'omit':
      return {}
    case 'least':
      return { effort: 'low' }
    default:
      // Above `high`, the model insists on thinking.
      return {
        thinking: { type: thinkingOff },
        ...(effort === 'xhigh' || effort === 'max' ? { effort: 'high' } : {}),
      }
  }
}

/**
 * Renders the thinking budget, which must be less than `max_tokens`. If it is not, the caller's
 * bound is taken as the room for the text, and the thinking gets its own room in addition, up to
 * the model's maximum.
 */
function renderBudget(
  wanted: number,
  bound: number,
  endpoint: Endpoint,
): Pick<Thinking, 'thinking' | 'max_tokens'> {
  const budget = Math.max(wanted, MIN_BUDGET)
  if (budget < bound)
    return { thinking: { type: 'enabled', budget_tokens: budget }, max_tokens: bound }
  const max_tokens = Math.max(
    Math.min(budget + bound, findMaxOutput(endpoint) ?? Number.POSITIVE_INFINITY),
    MIN_BUDGET + 1,
  )
  return {
    thinking: {
      type: 'enabled',
      budget_tokens: Math.max(Math.min(budget, max_tokens - bound), MIN_BUDGET),
    },
    max_tokens,
  }
}

/**
 * Tells whether a tool loop is in progress whose thinking did not come back. Models with a thinking
 * budget then refuse to continue with thinking ("Extended thinking with tool use").
 */
function hasLostThinking({ messages }: Conversation, endpoint: Endpoint): boolean {
  const last = messages.at(-1)
  if (last?.role !== 'user' || !hasOnlyResults(last)) return false
  const start = messages.findLastIndex(
    message => message.role === 'user' && !hasOnlyResults(message),
  )
  const first = messages.slice(start + 1).find(message => message.role === 'assistant')
  const [block] = first?.blocks ?? []
  return block?.type !== 'reasoning' || isLost(block.details, endpoint)
}

const isLost = (details: ReasoningDetail[] | null, endpoint: Endpoint): boolean =>
  renderThinkingBlocks(details, getReasoningFormat(endpoint)).length === 0

const hasOnlyResults = ({ blocks }: ConversationMessage): boolean =>
  blocks.every(block => block.type === 'tool-result')

/**
 * Returns the most output tokens in one answer: the catalogue's number, else the model's own.
 * Undefined for an unknown model.
 */
function findMaxOutput(endpoint: Endpoint): number | undefined {
  const capabilities = getCapabilities(endpoint)
  return (
    endpoint.max_completion_tokens ??
    (capabilities === OTHER_VENDOR ? undefined : capabilities.maxOutputTokens)
  )
}

/**
 * Returns the value for `max_tokens`, which this API requires: the caller's bound, else the model's
 * maximum.
 */
const computeMaxTokens = (max_tokens: number | undefined, endpoint: Endpoint): number =>
  max_tokens ?? endpoint.max_completion_tokens ?? getCapabilities(endpoint).maxOutputTokens

/**
 * Renders the sampling parameters that the model accepts. A thinking model accepts none, and the
 * highest temperature is 1.
 */
export function renderSampling(
  { temperature, top_p, top_k }: Params,
  { sampling }: Capabilities,
  { thinking }: Thinking,
): Json {
  if (sampling === 'none' || (thinking && thinking.type !== 'disabled')) return {}
  const fields: Json = {}
  if (temperature !== undefined) fields.temperature = Math.min(Math.max(temperature, 0), 1)
  if (top_p !== undefined && !(sampling === 'either' && temperature !== undefined))
    fields.top_p = top_p
  if (top_k !== undefined) fields.top_k = top_k
  return fields
}
