import { kinds } from '../../engine/kinds.ts'
import type { Block, Message } from '../../language/message.ts'
import type { Kind, Work } from '../../language/work.ts'

/** The most characters that are kept of what was asked: receivers would cut what is longer. */
const LONGEST = 10_000_000

/**
 * Renders what a call asks as a chat request's `messages`, without media: a word stands for each.
 * Kinds without a conversation have one message of the user for each input.
 */
export function renderInput<K extends Kind>(kind: K, call: Work[K]['call']): unknown[] {
  const budget = { left: LONGEST }
  const messages = (call as { messages?: Message[] }).messages
  if (messages) return messages.map(message => renderMessage(message, budget))
  return kinds[kind].understanding
    .readContents(call)
    .map(blocks => ({ role: 'user', content: renderContent(blocks, budget) }))
}

interface Budget {
  left: number
}

interface RenderedMessage {
  role: string
  content: unknown
  name?: string
  tool_call_id?: string
  reasoning?: string
  tool_calls?: unknown[]
}

// Field by field: each call with a destination has all its messages rendered.
function renderMessage({ role, blocks, name, tool_call_id }: Message, budget: Budget) {
  const message: RenderedMessage = { role, content: renderContent(blocks, budget) }
  if (name !== undefined) message.name = name
  if (tool_call_id !== undefined) message.tool_call_id = tool_call_id
  const reasoning = blocks.find(block => block.type === 'reasoning')?.text
  if (reasoning) message.reasoning = cut(reasoning, budget)
  for (const block of blocks)
    if (block.type === 'tool-call') {
      message.tool_calls ??= []
      message.tool_calls.push(renderToolCall(block, budget))
    }
  return message
}

const renderToolCall = (
  { id, name, input }: Extract<Block, { type: 'tool-call' }>,
  budget: Budget,
) => ({ id, type: 'function', function: { name, arguments: cut(input, budget) } })

function renderContent(blocks: Block[], budget: Budget): unknown {
  const texts: string[] = []
  for (const block of blocks) {
    const text = readText(block)
    if (text !== null) texts.push(cut(text, budget))
  }
  if (texts.length <= 1) return texts[0] ?? null
  return texts.map(text => ({ type: 'text', text }))
}

function readText(block: Block): string | null {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return block.text
    case 'tool-call':
    case 'reasoning':
      return null
    default:
      return `[${block.type}]`
  }
}

function cut(text: string, budget: Budget): string {
  const kept = text.length <= budget.left ? text : text.slice(0, budget.left)
  budget.left -= kept.length
  return kept
}
