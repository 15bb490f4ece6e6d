import type { Block, Message } from '../../language/message.ts'
import type { Kind, Work } from '../../language/work.ts'
import { kinds } from '../kinds.ts'

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

function renderMessage({ role, blocks, name, tool_call_id }: Message, budget: Budget): unknown {
  const calls = blocks.filter(block => block.type === 'tool-call')
  const reasoning = blocks.find(block => block.type === 'reasoning')?.text
  return {
    role,
    content: renderContent(blocks, budget),
    ...(name === undefined ? {} : { name }),
    ...(tool_call_id === undefined ? {} : { tool_call_id }),
    ...(reasoning ? { reasoning: cut(reasoning, budget) } : {}),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name: tool, input }) => ({
            id,
            type: 'function',
            function: { name: tool, arguments: cut(input, budget) },
          })),
        }),
  }
}

function renderContent(blocks: Block[], budget: Budget): unknown {
  const texts = blocks.flatMap(block => {
    const text = readText(block)
    return text === null ? [] : [cut(text, budget)]
  })
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
