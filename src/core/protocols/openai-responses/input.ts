import type { Endpoint } from '../../catalog/models.ts'
import { type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import { isNative } from '../native.ts'
import { inputJson } from '../tool-input.ts'
import type { ToolNames } from '../tool-names.ts'
import { capabilitiesOf } from './capabilities.ts'
import { contentOf, isContent, isItem, ownOf } from './content.ts'
import { callId } from './names.ts'
import { NATIVE } from './native.ts'
import { reasoningItems } from './reasoning.ts'

/**
 * The conversation as input items, in its order, instructions included: an instruction in the middle was meant for there. What
 * OpenAI refuses is mended: a call without a result gets one that says so, a result without a call becomes the user's text, and
 * a turn that holds nothing but reasoning is left out. Throws 400 for content of another dialect.
 */
export const inputOf = (call: TextCall, endpoint: Endpoint, names: ToolNames): Json[] => {
  const conversation = { call, endpoint, names, called: calledIn(call), answered: answeredIn(call) }
  return call.turns.flatMap(turn => itemsOf(turn, conversation))
}

interface Conversation {
  call: TextCall
  endpoint: Endpoint
  names: ToolNames
  /** The ids of the calls that were made, and of those that have a result. */
  called: Set<string>
  answered: Set<string>
}

type Call = Extract<Block, { type: 'tool-call' }>

const callsOf = ({ blocks }: Turn): Call[] => blocks.filter(block => block.type === 'tool-call')
const calledIn = ({ turns }: TextCall) => new Set(turns.flatMap(turn => callsOf(turn).map(({ id }) => id)))
const answeredIn = ({ turns }: TextCall) => new Set(turns.flatMap(({ role, tool_call_id = '' }) => (role === 'tool' ? [tool_call_id] : [])))

function itemsOf(turn: Turn, conversation: Conversation): Json[] {
  switch (turn.role) {
    case 'assistant':
      return assistantItems(turn, conversation)
    case 'tool':
      return conversation.called.has(turn.tool_call_id ?? '') ? [resultItem(turn)] : messageItems('user', turn.blocks)
    case 'developer':
      return messageItems(capabilitiesOf(conversation.endpoint).developer ? 'developer' : 'system', turn.blocks)
    default:
      return messageItems(turn.role, turn.blocks)
  }
}

/** What is said in one go is one message; items of the client's own dialect stand between as they came. */
function messageItems(role: string, blocks: Block[], more: Json = {}): Json[] {
  const items: Json[] = []
  let said: Json[] | null = null
  for (const block of blocks) {
    if (isItem(block)) {
      items.push(ownOf(block))
      said = null
      continue
    }
    const content = contentOf(block, role)
    if (said) said.push(...content)
    else if (content.length > 0) {
      said = content
      items.push({ type: 'message', role, content, ...more })
    }
  }
  return items
}

/** The model's turn in the order in which it was given: what it thought, said and called. What another's own tools did is left out. */
function assistantItems(turn: Turn, conversation: Conversation): Json[] {
  const known = turn.blocks.filter(block => block.type !== 'other' || isNative(block, NATIVE))
  const items = runsOf(known).flatMap(([first, ...rest]) => {
    if (first?.type === 'reasoning') return reasoningItems(first, conversation.endpoint)
    if (first?.type === 'tool-call') return [callItem(first, conversation)]
    return first ? messageItems('assistant', [first, ...rest], phaseOf(turn)) : []
  })
  if (items.every(item => item.type === 'reasoning')) return []
  return [...items, ...callsOf(turn).flatMap(({ id }) => (conversation.answered.has(id) ? [] : [unanswered(id)]))]
}

/** The blocks, those that are said one after the other together. */
function runsOf(blocks: Block[]): Block[][] {
  const runs: Block[][] = []
  for (const block of blocks) {
    const last = runs.at(-1)
    if (isContent(block) && last?.every(isContent)) last.push(block)
    else runs.push([block])
  }
  return runs
}

// Some models say beforehand what they are about to do, and want to know which of their words were that.
function phaseOf({ extra }: Turn): Json {
  const phase = text(extra?.phase)
  return phase === null ? {} : { phase }
}

function callItem({ id, name, input, extra }: Call, { call, names }: Conversation): Json {
  const own = isNative(call, NATIVE) ? extra : {}
  return { ...own, type: 'function_call', call_id: callId(id), name: names.sent(name), arguments: inputJson(input) }
}

// A single text goes as a string: the one form that every server reads. Pictures have a place here (translation trap 17).
function resultItem({ tool_call_id = '', blocks }: Turn): Json {
  const [only] = blocks
  const isText = blocks.length === 1 && only?.type === 'text'
  const output = isText ? only.text : blocks.length === 0 ? '' : blocks.flatMap(block => contentOf(block, 'tool'))
  return { type: 'function_call_output', call_id: callId(tool_call_id), output }
}

const unanswered = (id: string): Json => ({ type: 'function_call_output', call_id: callId(id), output: 'The tool gave no result.' })
