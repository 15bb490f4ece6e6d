import { invalid } from '../../errors.ts'
import { dataUrl, isDataUrl, textOf } from '../../kernel/data-url.ts'
import { parseObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import { conversationOf, type ToolResult } from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { inputJson, type NameRules, ToolNames } from '../tools.ts'

type Message = Record<string, unknown> & { role: string }
type Part = Record<string, unknown>

/**
 * Renders the messages. The gateway's own `instruction`, if any, becomes part of the system prompt.
 */
export function messagesOf(turns: Turn[], instruction: string | null, names: ToolNames): Message[] {
  const { system, messages } = conversationOf(turns)
  const told = [...(instruction === null ? [] : [instruction]), ...texts(system)].join('\n\n')
  const said = messages.flatMap(({ role, blocks }) =>
    role === 'assistant' ? [assistantMessage(blocks, names)] : userMessages(blocks),
  )
  return told === '' ? said : [{ role: 'system', content: told }, ...said]
}

const texts = (blocks: (Block | ToolResult)[]): string[] =>
  blocks.flatMap(block => (block.type === 'text' ? [block.text] : []))

/**
 * Renders tool results, each as a message of its own, then the media of the results and the user's
 * own blocks.
 */
function userMessages(blocks: (Block | ToolResult)[]): Message[] {
  const results = blocks.filter(block => block.type === 'tool-result')
  const shown = results.flatMap(result => result.blocks.filter(block => block.type !== 'text'))
  const said = blocks.filter(block => block.type !== 'tool-result')
  const content = contentOf([...shown, ...said])
  return [...results.map(toolMessage), ...(content === null ? [] : [{ role: 'user', content }])]
}

// Text alone is sent as a string, the one form that every model accepts.
function contentOf(blocks: Block[]): string | Part[] | null {
  const parts = blocks.flatMap(partsOf)
  if (parts.length === 0) return blocks.length === 0 ? null : 'See the documents.'
  return parts.every(({ type }) => type === 'text')
    ? parts.map(({ text }) => text).join('\n\n')
    : parts
}

function partsOf(block: Block): Part[] {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return [{ type: 'text', text: block.text }]
    case 'image':
      return [
        {
          type: 'image_url',
          image_url: {
            url: block.url,
            ...(block.detail === undefined ? {} : { detail: block.detail }),
          },
        },
      ]
    // Files are sent as documents.
    case 'file':
    case 'reasoning':
      return []
    default:
      throw foreignContent(block)
  }
}

/** Renders a tool result. Cohere can cite objects. It reads anything else as text. */
function toolMessage({ id, blocks }: ToolResult): Message {
  const content = texts(blocks).map(text => {
    const data = parseObject(text)
    return data ? { type: 'document', document: { data } } : { type: 'text', text }
  })
  return {
    role: 'tool',
    tool_call_id: id,
    content: content.length > 0 ? content : [{ type: 'text', text: 'The tool gave no text.' }],
  }
}

/**
 * Renders an assistant message. Text beside a tool call is the plan that led to it. Cohere does not
 * accept thinking back.
 */
function assistantMessage(blocks: (Block | ToolResult)[], names: ToolNames): Message {
  const calls = blocks.filter(block => block.type === 'tool-call')
  const text = blocks.flatMap(spoken).join('')
  if (calls.length === 0) return { role: 'assistant', content: text }
  return {
    role: 'assistant',
    ...(text === '' ? {} : { tool_plan: text }),
    tool_calls: calls.map(({ id, name, input }) => ({
      id,
      type: 'function',
      function: { name: names.sent(name), arguments: inputJson(input) },
    })),
  }
}

function spoken(block: Block | ToolResult): string[] {
  if (block.type === 'text' || block.type === 'refusal') return [block.text]
  if (block.type === 'tool-call' || block.type === 'reasoning') return []
  throw foreignContent(block)
}

type File = Extract<Block, { type: 'file' }>['file']

/**
 * Renders the documents that the answer may cite: those the caller named, and the text files of the
 * conversation.
 */
export function documentsOf({ turns, extra: { documents: given } }: TextCall): unknown[] {
  const files = turns.flatMap(({ blocks }) => blocks).filter(block => block.type === 'file')
  return [...(Array.isArray(given) ? given : []), ...files.map(({ file }) => documentOf(file))]
}

// Cohere reads text only. It cannot know what a scanned page says.
function documentOf({ filename, file_data }: File) {
  const file =
    file_data !== undefined && isDataUrl(file_data) ? dataUrl(file_data, 'file_data') : undefined
  if (!file || !TEXTUAL.test(file.media_type))
    throw invalid('file: expected a text file for this model’s provider', 'file')
  return { data: { ...(filename === undefined ? {} : { title: filename }), text: textOf(file) } }
}

const TEXTUAL = /^text\/|[/+](json|xml|yaml)$/

/**
 * Letters, digits and `_`, no digit first (https://docs.cohere.com/v1/reference/chat,
 * `tools.name`).
 */
const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_]/g, badStart: /^[0-9]/, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)
