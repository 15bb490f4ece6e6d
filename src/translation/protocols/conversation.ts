import type { TextCall } from '../../language/call.ts'
import type { Block, CacheControl, Message } from '../../language/message.ts'
import { isNative } from './native.ts'

/** The result of a tool call. */
export interface ToolResult {
  type: 'tool-result'
  /** The id of the call that this answers, and the name of the tool that was called. */
  id: string
  name: string
  blocks: Block[]
  is_error?: boolean
  cache_control?: CacheControl
}

/** Everything that one side says before the other side speaks. */
export interface ConversationMessage {
  role: 'user' | 'assistant'
  blocks: (Block | ToolResult)[]
  /** The system message that stands after what the user says. */
  instructions?: Instructions
}

/** A system message within a conversation, with fields that only its own dialect knows. */
export interface Instructions {
  blocks: Block[]
  extra: Record<string, unknown>
}

/**
 * Where a system message goes that comes after the conversation has begun: among the instructions
 * before it, into what the user says where it stands, or behind that as a message of its own. One
 * that moves to the front changes the beginning of every later prompt, so that none is cached.
 */
export type LaterInstructions = 'first' | 'said' | 'apart'

/**
 * Tells where later system messages go at providers that have none within a conversation. Agents send
 * them for what holds from there on, many in a conversation; those of the chat API are few, and keep
 * their weight in front.
 */
export const placeInstructions = (call: TextCall): LaterInstructions =>
  isNative(call, 'chat') ? 'first' : 'said'

/**
 * A conversation as most providers want it: the instructions apart, two sides that alternate, and
 * every tool call answered.
 */
export interface Conversation {
  /** The content of the system and developer messages before it, in order. */
  system: Block[]
  messages: ConversationMessage[]
}

/**
 * Converts messages for providers that require alternating sides. Consecutive messages of one side
 * are merged. The results of tool calls come first in the message that follows, in the order of the
 * calls. What such providers refuse is repaired rather than lost: a call without a result gets one
 * that says so, and a result without a call becomes text. Empty texts and messages with nothing but
 * reasoning are left out. Does not change the messages that it is given.
 */
export function toConversation(
  messages: Message[],
  later: LaterInstructions = 'first',
): Conversation {
  const system: Block[] = []
  const merged: ConversationMessage[] = []
  for (const message of messages)
    if (!isInstruction(message)) appendMessage(merged, message)
    else if (later === 'first' || merged.length === 0)
      for (const block of message.blocks.filter(isNonEmpty)) system.push(block)
    else if (later === 'said') appendSaid(merged, message.blocks.filter(isNonEmpty))
    else appendInstructions(merged, message)
  return { system, messages: pairToolCalls(settleInstructions(merged).filter(hasContent)) }
}

/** Has the user say instructions, marked as clients of Anthropic's models mark theirs. */
function appendSaid(merged: ConversationMessage[], blocks: Block[]): void {
  if (blocks.length > 0)
    appendMessage(merged, { role: 'user', blocks: blocks.map(markInstruction) })
}

const markInstruction = (block: Block): Block =>
  block.type === 'text' && !block.text.includes(MARK)
    ? { ...block, text: `${MARK}\n${block.text}\n</system-reminder>` }
    : block

const MARK = '<system-reminder>'

/** Adds instructions to the last message: they go on to the next one of the user (`settleInstructions`). */
function appendInstructions(merged: ConversationMessage[], { blocks, extra }: Message): void {
  const last = merged.at(-1)
  if (last) addInstructions(last, { blocks: blocks.filter(isNonEmpty), extra: extra ?? {} })
}

// In place: to copy what came before for each of very many would take the square of their number.
function addInstructions(message: ConversationMessage, { blocks, extra }: Instructions): void {
  message.instructions ??= { blocks: [], extra: {} }
  const { instructions } = message
  for (const block of blocks) instructions.blocks.push(block)
  Object.assign(instructions.extra, extra)
}

/** Moves instructions behind the user's next words, or has the user say them if there are none. */
function settleInstructions(merged: ConversationMessage[]): ConversationMessage[] {
  let waiting: Instructions | undefined
  for (const message of merged) {
    const { role, instructions } = message
    if (role === 'assistant') {
      waiting = instructions
      delete message.instructions
    } else {
      if (waiting) {
        message.instructions = waiting
        if (instructions) addInstructions(message, instructions)
      }
      waiting = undefined
      if (message.instructions && !hasContent(message)) {
        appendSaid([message], message.instructions.blocks)
        delete message.instructions
      }
    }
  }
  if (waiting) appendSaid(merged, waiting.blocks)
  return merged
}

/**
 * Returns the conversation with a user message first, for providers that require that. If there are
 * only instructions, the user says them.
 */
export function startWithUser({ system, messages }: Conversation): Conversation {
  if (messages.length === 0) return { system: [], messages: [{ role: 'user', blocks: system }] }
  if (messages[0]?.role === 'user') return { system, messages }
  return {
    system,
    messages: [{ role: 'user', blocks: [{ type: 'text', text: '.' }] }, ...messages],
  }
}

/**
 * Lists the messages that decide whether a model may think as the call asks: from what the user said
 * last. Empty if the call does not ask for reasoning.
 */
export function listLastTurn({ messages, params }: TextCall): Message[] {
  if (!params.reasoning) return []
  const at = messages.findLastIndex(({ role }) => role === 'user')
  return messages.slice(Math.max(at, 0))
}

const isInstruction = ({ role }: Message) => role === 'system' || role === 'developer'

function appendMessage(merged: ConversationMessage[], message: Message): void {
  const role = message.role === 'assistant' ? 'assistant' : 'user'
  const blocks =
    message.role === 'tool' ? [toToolResult(message)] : message.blocks.filter(isNonEmpty)
  const last = merged.at(-1)
  if (last?.role === role) appendBlocks(last, blocks)
  else merged.push({ role, blocks: [...blocks] })
}

// One at a time: as arguments of one call, a hundred thousand overflow the stack.
function appendBlocks({ blocks }: ConversationMessage, more: (Block | ToolResult)[]): void {
  for (const block of more) blocks.push(block)
}

const toToolResult = ({
  tool_call_id = '',
  blocks,
  is_error,
  cache_control,
}: Message): ToolResult => ({
  type: 'tool-result',
  id: tool_call_id,
  name: '',
  blocks: blocks.filter(isNonEmpty),
  ...(is_error ? { is_error } : {}),
  ...(cache_control ? { cache_control } : {}),
})

// Providers refuse an empty text, though some of them send one.
const isNonEmpty = (block: Block | ToolResult) => block.type !== 'text' || block.text.trim() !== ''

const hasContent = ({ blocks }: ConversationMessage) =>
  blocks.some(block => block.type !== 'reasoning')

/** Puts the result of every call into the next message, and keeps no result without its call. */
function pairToolCalls(messages: ConversationMessage[]): ConversationMessage[] {
  const paired: ConversationMessage[] = []
  let openCalls: ToolCallBlock[] = []
  for (const message of messages) {
    // If a message was left out, two of one side may follow each other.
    const last = paired.at(-1)
    if (message.role === 'assistant') {
      if (last?.role === 'assistant') appendBlocks(last, message.blocks)
      else paired.push(message)
      for (const call of listToolCalls(message)) openCalls.push(call)
    } else {
      const { instructions } = message
      const blocks = putResultsFirst(message.blocks, openCalls)
      if (last?.role === 'user') appendBlocks(last, blocks)
      else paired.push({ role: 'user', blocks })
      const added = paired.at(-1)
      if (instructions && added) addInstructions(added, instructions)
      openCalls = []
    }
  }
  if (openCalls.length > 0) paired.push({ role: 'user', blocks: putResultsFirst([], openCalls) })
  return paired
}

type ToolCallBlock = Extract<Block, { type: 'tool-call' }>

const listToolCalls = ({ blocks }: ConversationMessage): ToolCallBlock[] =>
  blocks.filter(block => block.type === 'tool-call')

function putResultsFirst(
  blocks: (Block | ToolResult)[],
  calls: ToolCallBlock[],
): (Block | ToolResult)[] {
  const [only] = blocks
  const [call] = calls
  // One call and its result, as in most turns of an agent.
  if (calls.length === 1 && blocks.length === 1 && only?.type === 'tool-result' && call)
    if (only.id === call.id) return [{ ...only, name: call.name }]
  const results = blocks.filter(block => block.type === 'tool-result').toReversed()
  // If a call has two results, the first one counts.
  const byCall = new Map(results.map(result => [result.id, result]))
  const orderedResults = calls.map(({ id, name }) => ({
    ...(byCall.get(id) ?? buildMissingResult(id)),
    name,
  }))
  const callIds = new Set(calls.map(call => call.id))
  const otherBlocks = blocks.flatMap(block =>
    block.type !== 'tool-result' ? [block] : callIds.has(block.id) ? [] : block.blocks,
  )
  return [...orderedResults, ...otherBlocks]
}

const buildMissingResult = (id: string): ToolResult => ({
  type: 'tool-result',
  id,
  name: '',
  blocks: [{ type: 'text', text: 'The tool gave no result.' }],
  is_error: true,
})
