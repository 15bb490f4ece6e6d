import type { Endpoint } from '../../catalog/models.ts'
import type { Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, Reasoning } from '../../language/params.ts'
import type { Conversation, Message } from '../conversation.ts'
import { isNative } from '../native.ts'
import { budgetOf, effortOf } from '../reasoning.ts'
import { type Capabilities, capabilitiesOf, STRANGER } from './capabilities.data.ts'
import { NATIVE, thinkingBlocks } from './messages.ts'

/** The parameters that control thinking. */
export interface Thinking {
  thinking?: Json
  effort?: string
  /** Includes room for the thinking, if there is any. */
  max_tokens: number
}

const LEAST_BUDGET = 1_024

/**
 * Renders the requested reasoning as far as the model supports it. `isBarred` says that something
 * else in the request rules out thinking.
 */
export function thinkingOf(
  call: TextCall,
  endpoint: Endpoint,
  conversation: Conversation,
  isBarred: boolean,
): Thinking {
  const { reasoning, verbosity, max_tokens } = call.params
  const can = capabilitiesOf(endpoint)
  const bound = outputBound(max_tokens, endpoint)
  const plain = { max_tokens: bound, ...fittingEffort(verbosity, can) }
  const effort = reasoning && effortOf(reasoning, bound)
  if (!reasoning || effort === undefined || can.thinking === 'none') return plain
  if (effort === 'none' || reasoning.max_tokens === 0)
    return { ...plain, ...withoutThinking(can, plain.effort) }
  if (isBudgeted(can, reasoning))
    return isBarred || lostItsThinking(conversation)
      ? plain
      : { ...plain, ...withBudget(budgetOf(reasoning, bound) ?? 0, bound, endpoint) }
  const told = { ...plain, ...(isDefault(call) ? {} : fittingEffort(effort, can)) }
  return isBarred ? told : { ...told, thinking: { type: 'adaptive', ...shown(call) } }
}

// A client of this dialect that names no effort means the model's default.
function isDefault(call: TextCall): boolean {
  const { effort, max_tokens } = call.params.reasoning ?? {}
  return isNative(call, NATIVE) && effort === undefined && max_tokens === undefined
}

// A client of this dialect that names no display means the model's default. All others want to see
// the thinking.
function shown(call: TextCall): Json {
  const { reasoning } = call.params
  if (reasoning?.exclude) return { display: 'omitted' }
  const isLeftToTheModel = isNative(call, NATIVE) && reasoning?.summary === undefined
  return isLeftToTheModel ? {} : { display: 'summarized' }
}

const isBudgeted = ({ thinking }: Capabilities, { max_tokens }: Reasoning): boolean =>
  thinking === 'budget' || (thinking === 'either' && max_tokens !== undefined)

// Picks the lower of two efforts: a caller must not pay for more than they asked for.
function fittingEffort(wish: string | undefined, { efforts }: Capabilities): { effort?: string } {
  if (wish === undefined || efforts.length === 0) return {}
  if (efforts.includes(wish)) return { effort: wish }
  if (wish === 'minimal') return { effort: 'low' }
  return wish === 'xhigh' || wish === 'max' ? { effort: 'high' } : {}
}

function withoutThinking(
  { off }: Capabilities,
  effort: string | undefined,
): { thinking?: Json; effort?: string } {
  switch (off) {
    case 'omit':
      return {}
    case 'least':
      return { effort: 'low' }
    default:
      // Above `high`, the model insists on thinking.
      return {
        thinking: { type: off },
        ...(effort === 'xhigh' || effort === 'max' ? { effort: 'high' } : {}),
      }
  }
}

/**
 * Renders the thinking budget, which must be less than `max_tokens`. If it is not, the caller's
 * bound is taken as the room for the text, and the thinking gets its own room in addition, up to
 * the model's maximum.
 */
function withBudget(
  wish: number,
  bound: number,
  endpoint: Endpoint,
): Pick<Thinking, 'thinking' | 'max_tokens'> {
  const budget = Math.max(wish, LEAST_BUDGET)
  if (budget < bound)
    return { thinking: { type: 'enabled', budget_tokens: budget }, max_tokens: bound }
  const max_tokens = Math.max(
    Math.min(budget + bound, ceilingOf(endpoint) ?? Number.POSITIVE_INFINITY),
    LEAST_BUDGET + 1,
  )
  return {
    thinking: {
      type: 'enabled',
      budget_tokens: Math.max(Math.min(budget, max_tokens - bound), LEAST_BUDGET),
    },
    max_tokens,
  }
}

/**
 * Tells whether a tool loop is in progress whose thinking did not come back. Models with a thinking
 * budget then refuse to continue with thinking ("Extended thinking with tool use").
 */
function lostItsThinking({ messages }: Conversation): boolean {
  const last = messages.at(-1)
  if (last?.role !== 'user' || !isResults(last)) return false
  const begun = messages.findLastIndex(message => message.role === 'user' && !isResults(message))
  const first = messages.slice(begun + 1).find(message => message.role === 'assistant')
  const [block] = first?.blocks ?? []
  return block?.type !== 'reasoning' || thinkingBlocks(block.details).length === 0
}

const isResults = ({ blocks }: Message): boolean =>
  blocks.every(block => block.type === 'tool-result')

/**
 * Returns the most output tokens in one answer: the catalogue's number, else the model's own.
 * Undefined for an unknown model.
 */
function ceilingOf(endpoint: Endpoint): number | undefined {
  const capabilities = capabilitiesOf(endpoint)
  return (
    endpoint.max_completion_tokens ??
    (capabilities === STRANGER ? undefined : capabilities.maxOutput)
  )
}

/**
 * Returns the value for `max_tokens`, which this API requires: the caller's bound, else the model's
 * maximum.
 */
const outputBound = (max_tokens: number | undefined, endpoint: Endpoint): number =>
  max_tokens ?? endpoint.max_completion_tokens ?? capabilitiesOf(endpoint).maxOutput

/**
 * Renders the sampling parameters that the model accepts. A thinking model accepts none, and the
 * highest temperature is 1.
 */
export function samplingOf(
  { temperature, top_p, top_k }: Params,
  { sampling }: Capabilities,
  { thinking }: Thinking,
): Json {
  if (sampling === 'none' || (thinking && thinking.type !== 'disabled')) return {}
  const said: Json = {}
  if (temperature !== undefined) said.temperature = Math.min(Math.max(temperature, 0), 1)
  if (top_p !== undefined && !(sampling === 'either' && temperature !== undefined))
    said.top_p = top_p
  if (top_k !== undefined) said.top_k = top_k
  return said
}
