import { openSummary } from '../../inference/kinds/text/compaction.ts'
import type { Json } from '../../kernel/json.ts'
import { renameThoughts } from '../../language/call-ids.ts'
import type { Block, Message } from '../../language/message.ts'
import { toBlocks } from './content.ts'
import {
  type CheckedItem,
  checkItems,
  type FunctionCallItem,
  type FunctionCallOutputItem,
  type MessageItem,
} from './items.ts'
import { type ReasoningItem, toReasoningBlock } from './reasoning.ts'

/**
 * Converts a request's input into messages. What the model said, thought and called in one turn is
 * one message. Throws 400 naming an item that is invalid by its index.
 */
export function toMessages(input: string | Json[] | null | undefined): Message[] {
  if (typeof input === 'string') return [{ role: 'user', blocks: [{ type: 'text', text: input }] }]
  const messages: Message[] = []
  for (const item of checkItems(input ?? [])) if (item.isForProviders) addItem(messages, item)
  return messages
}

function addItem(messages: Message[], item: CheckedItem): void {
  const { type, side } = item
  const summary = COMPACTIONS.has(type) ? openSummary(item.value.encrypted_content) : undefined
  if (type === 'message') addMessage(messages, item)
  else if (summary !== undefined) messages.push(toSummaryMessage(summary))
  else if (type === 'function_call_output') messages.push(toToolMessage(item))
  else if (side === 'assistant') addOutput(messages, toBlock(item), item.given)
  else messages.push({ role: side, blocks: [toBlock(item)] })
}

const COMPACTIONS = new Set(['compaction', 'context_compaction', 'compaction_summary'])

// Whatever provider the conversation goes on at, it did not make this one.
const toSummaryMessage = (summary: string): Message => ({
  role: 'user',
  blocks: [{ type: 'text', text: `The conversation up to here, as a summary:\n\n${summary}` }],
})

function toBlock({ type, value, field }: CheckedItem): Block {
  if (type === 'reasoning') return toReasoningBlock(value as ReasoningItem, field)
  if (type === 'function_call') return toToolCall(value as FunctionCallItem)
  return { type: 'other', dialect: 'responses', value, field }
}

function addMessage(messages: Message[], { value, field }: CheckedItem): void {
  const { role, content, phase } = value as MessageItem
  const blocks = toBlocks(content, `${field}.content`)
  const message: Message = { role, blocks, ...(phase == null ? {} : { extra: { phase } }) }
  const last = messages.at(-1)
  if (role === 'assistant' && last?.role === 'assistant' && continues(last, message)) {
    for (const block of blocks) last.blocks.push(block)
    if (message.extra) last.extra = message.extra
  } else messages.push(message)
}

// A message of another phase is another message: the model announces in one what it does next.
const continues = (last: Message, { extra }: Message): boolean =>
  last.extra?.phase === extra?.phase || !last.blocks.some(isSaid)

const isSaid = ({ type }: Block) => type === 'text' || type === 'refusal'

/** Adds a block to the model's turn, or begins a turn with it. */
function addOutput(messages: Message[], block: Block, given: string | undefined): void {
  const last = messages.at(-1)
  if (last?.role !== 'assistant') messages.push({ role: 'assistant', blocks: [block] })
  else last.blocks.push(block)
  const message = messages.at(-1)
  if (given !== undefined && message) renameThoughts(message, given, block)
}

/** The fields of a call that only providers of this API know and want back. */
const KEPT_FIELDS = ['namespace', 'caller', 'async']

function toToolCall(item: FunctionCallItem): Block {
  const kept = Object.entries(item).filter(
    ([name, value]) => KEPT_FIELDS.includes(name) && value != null,
  )
  return {
    type: 'tool-call',
    id: item.call_id,
    name: item.name,
    input: item.arguments,
    ...(kept.length > 0 ? { extra: Object.fromEntries(kept) } : {}),
  }
}

function toToolMessage({ value, field }: CheckedItem): Message {
  const { call_id, output } = value as FunctionCallOutputItem
  return { role: 'tool', tool_call_id: call_id, blocks: toBlocks(output, `${field}.output`) }
}
