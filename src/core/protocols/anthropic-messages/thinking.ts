import type { Endpoint } from '../../catalog/models.ts'
import type { Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, Reasoning } from '../../language/params.ts'
import type { Conversation, Message } from '../conversation.ts'
import { isNative } from '../native.ts'
import { budgetOf, effortOf } from '../reasoning.ts'
import { type Capabilities, capabilitiesOf, STRANGER } from './capabilities.data.ts'
import { NATIVE, thinkingBlocks } from './messages.ts'

/** How the model is to think, as the request says it. */
export interface Thinking {
  thinking?: Json
  effort?: string
  /** With room for the thinking, where it takes any. */
  max_tokens: number
}

const LEAST_BUDGET = 1_024

/** What the caller wishes, as far as this model can do it. `isBarred` says that something else in the request forbids it to think. */
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

// Who speaks this API and names no effort means the model's own.
function isDefault(call: TextCall): boolean {
  const { effort, max_tokens } = call.params.reasoning ?? {}
  return isNative(call, NATIVE) && effort === undefined && max_tokens === undefined
}

// And who names no display there means the model's own. Everybody else wants to see what was thought.
function shown(call: TextCall): Json {
  const { reasoning } = call.params
  if (reasoning?.exclude) return { display: 'omitted' }
  const isLeftToTheModel = isNative(call, NATIVE) && reasoning?.summary === undefined
  return isLeftToTheModel ? {} : { display: 'summarized' }
}

const isBudgeted = ({ thinking }: Capabilities, { max_tokens }: Reasoning): boolean =>
  thinking === 'budget' || (thinking === 'either' && max_tokens !== undefined)

// Of two efforts the lesser: nobody shall pay for more than was asked.
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
      // Above `high` a model insists on thinking.
      return {
        thinking: { type: off },
        ...(effort === 'xhigh' || effort === 'max' ? { effort: 'high' } : {}),
      }
  }
}

/**
 * The budget, which must be less than `max_tokens`. Where it is not, the caller's bound is taken for the room that the words
 * need, and the thinking gets its own beside it, as far as the model goes.
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
 * Whether a tool loop is going on whose thinking did not come back. Models that think by budget refuse to go on thinking then
 * ("Extended thinking with tool use").
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

/** The most output tokens of one answer there: the catalogue's number, else the model's own. Undefined for a model that nobody knows. */
function ceilingOf(endpoint: Endpoint): number | undefined {
  const capabilities = capabilitiesOf(endpoint)
  return (
    endpoint.max_completion_tokens ??
    (capabilities === STRANGER ? undefined : capabilities.maxOutput)
  )
}

/** What is sent as `max_tokens`, which this API insists on: the caller's bound, else as much as the model gives. */
const outputBound = (max_tokens: number | undefined, endpoint: Endpoint): number =>
  max_tokens ?? endpoint.max_completion_tokens ?? capabilitiesOf(endpoint).maxOutput

/** How the words are chosen, as far as the model leaves that to the caller: not at all while it thinks, and 1 is the hottest. */
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
