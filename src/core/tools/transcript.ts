import type { Block, Message } from '../language/message.ts'

/**
 * Returns a conversation as another model may read it, one that has none of its tools: calls and
 * their results become texts. What only the provider of the first model understands is left out,
 * such as its reasoning.
 */
export const toTranscript = (messages: Message[]): Message[] =>
  messages.flatMap(({ role, blocks, name }) => {
    const told = blocks.flatMap(tellBlock)
    if (told.length === 0) return []
    if (role === 'tool') return { role: 'user', blocks: [text('[Result of a tool]'), ...told] }
    return { role, blocks: told, ...(name === undefined ? {} : { name }) }
  })

function tellBlock(block: Block): Block[] {
  switch (block.type) {
    case 'tool-call':
      return [text(`[Called the tool ${block.name} with ${block.input || '{}'}]`)]
    case 'refusal':
      return [text(block.text)]
    case 'reasoning':
    case 'other':
      return []
    default:
      return [block]
  }
}

const text = (words: string): Block => ({ type: 'text', text: words })
