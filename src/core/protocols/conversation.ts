import type { Block, CacheControl, Turn } from '../language/message.ts'

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
export interface Message {
  role: 'user' | 'assistant'
  blocks: (Block | ToolResult)[]
}

/**
 * A conversation as most providers want it: the instructions apart, two sides that alternate, and
 * every tool call answered.
 */
export interface Conversation {
  /** The content of all system and developer messages, in order, wherever they stood. */
  system: Block[]
  messages: Message[]
}

/**
 * Converts messages for providers that require alternating sides. Consecutive messages of one side
 * are merged. The results of tool calls come first in the message that follows, in the order of the
 * calls. What such providers refuse is repaired rather than lost: a call without a result gets one
 * that says so, and a result without a call becomes text. Empty texts and messages with nothing but
 * reasoning are left out. Does not change the messages that it is given.
 */
export function conversationOf(turns: Turn[]): Conversation {
  const system = turns.filter(isInstruction).flatMap(turn => turn.blocks.filter(isSaid))
  const messages: Message[] = []
  for (const turn of turns) if (!isInstruction(turn)) add(messages, turn)
  return { system, messages: answered(messages.filter(holdsSomething)) }
}

/**
 * Returns the conversation with a user message first, for providers that require that. If there are
 * only instructions, the user says them.
 */
export function begunByUser({ system, messages }: Conversation): Conversation {
  if (messages.length === 0) return { system: [], messages: [{ role: 'user', blocks: system }] }
  if (messages[0]?.role === 'user') return { system, messages }
  return {
    system,
    messages: [{ role: 'user', blocks: [{ type: 'text', text: '.' }] }, ...messages],
  }
}

const isInstruction = ({ role }: Turn) => role === 'system' || role === 'developer'

function add(messages: Message[], turn: Turn): void {
  const role = turn.role === 'assistant' ? 'assistant' : 'user'
  const blocks = turn.role === 'tool' ? [resultOf(turn)] : turn.blocks.filter(isSaid)
  const last = messages.at(-1)
  if (last?.role === role) last.blocks.push(...blocks)
  else messages.push({ role, blocks: [...blocks] })
}

const resultOf = ({ tool_call_id = '', blocks, is_error, cache_control }: Turn): ToolResult => ({
  type: 'tool-result',
  id: tool_call_id,
  name: '',
  blocks: blocks.filter(isSaid),
  ...(is_error ? { is_error } : {}),
  ...(cache_control ? { cache_control } : {}),
})

// Providers refuse an empty text, though some of them send one.
const isSaid = (block: Block | ToolResult) => block.type !== 'text' || block.text.trim() !== ''

const holdsSomething = ({ blocks }: Message) => blocks.some(block => block.type !== 'reasoning')

/** Puts the result of every call into the next message, and keeps no result without its call. */
function answered(messages: Message[]): Message[] {
  const whole: Message[] = []
  let open: Call[] = []
  for (const message of messages) {
    // If a message was left out, two of one side may follow each other.
    const last = whole.at(-1)
    if (message.role === 'assistant') {
      if (last?.role === 'assistant') last.blocks.push(...message.blocks)
      else whole.push(message)
      open.push(...callsOf(message))
    } else {
      const blocks = withResults(message.blocks, open)
      if (last?.role === 'user') last.blocks.push(...blocks)
      else whole.push({ role: 'user', blocks })
      open = []
    }
  }
  if (open.length > 0) whole.push({ role: 'user', blocks: withResults([], open) })
  return whole
}

type Call = Extract<Block, { type: 'tool-call' }>

const callsOf = ({ blocks }: Message): Call[] => blocks.filter(block => block.type === 'tool-call')

function withResults(blocks: (Block | ToolResult)[], calls: Call[]): (Block | ToolResult)[] {
  const results = blocks.filter(block => block.type === 'tool-result').toReversed()
  // If a call has two results, the first one counts.
  const byCall = new Map(results.map(result => [result.id, result]))
  const answers = calls.map(({ id, name }) => ({ ...(byCall.get(id) ?? unanswered(id)), name }))
  const known = new Set(calls.map(call => call.id))
  const rest = blocks.flatMap(block =>
    block.type !== 'tool-result' ? [block] : known.has(block.id) ? [] : block.blocks,
  )
  return [...answers, ...rest]
}

const unanswered = (id: string): ToolResult => ({
  type: 'tool-result',
  id,
  name: '',
  blocks: [{ type: 'text', text: 'The tool gave no result.' }],
  is_error: true,
})
