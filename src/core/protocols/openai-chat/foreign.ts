import { plainTextIn } from '../../kernel/data-url.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import type { Tool } from '../../language/tool.ts'
import { foreignContent } from '../foreign.ts'
import { isNative } from '../native.ts'
import { NATIVE } from './native.ts'

/**
 * A call of another dialect as a chat client would have made it: without the fields that mean nothing here, a document of
 * plain text as text, and all that a turn has thought as one. What its provider's own tools did is left out of what the
 * model said; what a user said is never left out. Throws 400 for content that chat has no word for.
 */
export function inChatWords(call: TextCall): TextCall {
  if (isNative(call, NATIVE)) return call
  return { ...call, turns: call.turns.map(turnOf), tools: call.tools.map(toolOf) }
}

function turnOf({ extra: _, ...turn }: Turn): Turn {
  const isKnown = (block: Block) => block.type !== 'other' || isNative(block, NATIVE)
  const said = turn.role === 'assistant' ? turn.blocks.filter(isKnown) : turn.blocks
  return { ...turn, blocks: asOneThought(said.map(blockOf)) }
}

function blockOf(block: Block): Block {
  if (block.type === 'other' && !isNative(block, NATIVE)) throw foreignContent(block)
  if (block.type === 'file') return documentOf(block)
  if (!('extra' in block)) return block
  const { extra: _, ...known } = block
  return known
}

function documentOf(block: Extract<Block, { type: 'file' }>): Block {
  const { file, extra, cache_control } = block
  const text = plainTextIn(file.file_data ?? '', 'messages')
  if (text === undefined) return block
  const heading = [file.filename, extra?.context].filter(line => typeof line === 'string')
  return { type: 'text', text: [...heading, text].join('\n\n'), ...(cache_control ? { cache_control } : {}) }
}

// There a turn has thought once, before it said anything.
function asOneThought(blocks: Block[]): Block[] {
  const thoughts = blocks.filter(block => block.type === 'reasoning')
  if (thoughts.length < 2) return blocks
  const texts = thoughts.flatMap(({ text }) => text ?? [])
  const details = thoughts.flatMap(thought => thought.details ?? [])
  const thought: Block = {
    type: 'reasoning',
    text: texts.length > 0 ? texts.join('\n\n') : null,
    details: details.length > 0 ? details : null,
  }
  return [thought, ...blocks.filter(block => block.type !== 'reasoning')]
}

function toolOf(tool: Tool): Tool {
  if (tool.type === 'other') return tool
  const { extra: _, ...known } = tool
  return known
}
