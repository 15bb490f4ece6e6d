import { decodeMediaText, isDataUrl, parseDataUrl, readCharset } from '../../../base/data-url.ts'
import { invalid } from '../../../base/errors.ts'
import { parseObject } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block } from '../../../language/message.ts'
import { placeInstructions, type ToolResult, toConversation } from '../conversation.ts'
import { foreignContent, leaveOutToolWork } from '../native.ts'
import { type NameRules, renderInputJson, ToolNames } from '../tools.ts'

type CohereMessage = Record<string, unknown> & { role: string }
type CoherePart = Record<string, unknown>

/**
 * Renders the messages. The gateway's own `instruction`, if any, becomes part of the system prompt.
 */
export function renderMessages(
  call: TextCall,
  instruction: string | null,
  names: ToolNames,
): CohereMessage[] {
  const messages = leaveOutToolWork(call.messages, null)
  const { system, messages: merged } = toConversation(messages, placeInstructions(call))
  const instructions = [...(instruction === null ? [] : [instruction]), ...listTexts(system)].join(
    '\n\n',
  )
  const rendered = merged.flatMap(({ role, blocks }) =>
    role === 'assistant' ? [renderAssistantMessage(blocks, names)] : renderUserMessages(blocks),
  )
  return instructions === '' ? rendered : [{ role: 'system', content: instructions }, ...rendered]
}

const listTexts = (blocks: (Block | ToolResult)[]): string[] =>
  blocks.flatMap(block => (block.type === 'text' ? [block.text] : []))

/**
 * Renders tool results, each as a message of its own, then the media of the results and the user's
 * own blocks.
 */
function renderUserMessages(blocks: (Block | ToolResult)[]): CohereMessage[] {
  const results = blocks.filter(block => block.type === 'tool-result')
  const media = results.flatMap(result => result.blocks.filter(block => block.type !== 'text'))
  const ownBlocks = blocks.filter(block => block.type !== 'tool-result')
  const content = renderContent([...media, ...ownBlocks])
  return [
    ...results.map(renderToolMessage),
    ...(content === null ? [] : [{ role: 'user', content }]),
  ]
}

// Text alone is sent as a string, the one form that every model accepts.
function renderContent(blocks: Block[]): string | CoherePart[] | null {
  const parts = blocks.flatMap(renderPart)
  if (parts.length === 0) return blocks.length === 0 ? null : 'See the documents.'
  return parts.every(({ type }) => type === 'text')
    ? parts.map(({ text }) => text).join('\n\n')
    : parts
}

function renderPart(block: Block): CoherePart[] {
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
function renderToolMessage({ id, blocks }: ToolResult): CohereMessage {
  const content = listTexts(blocks).map(text => {
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
function renderAssistantMessage(blocks: (Block | ToolResult)[], names: ToolNames): CohereMessage {
  const calls = blocks.filter(block => block.type === 'tool-call')
  const text = blocks.flatMap(listSpokenTexts).join('')
  if (calls.length === 0) return { role: 'assistant', content: text }
  return {
    role: 'assistant',
    ...(text === '' ? {} : { tool_plan: text }),
    tool_calls: calls.map(({ id, name, input }) => ({
      id,
      type: 'function',
      function: { name: names.toWire(name), arguments: renderInputJson(input) },
    })),
  }
}

function listSpokenTexts(block: Block | ToolResult): string[] {
  if (block.type === 'text' || block.type === 'refusal') return [block.text]
  if (block.type === 'tool-call' || block.type === 'reasoning') return []
  throw foreignContent(block)
}

type File = Extract<Block, { type: 'file' }>['file']

/**
 * Renders the documents that the answer may cite: those the caller named, and the text files of the
 * conversation.
 */
export function renderDocuments({ messages, extra: { documents } }: TextCall): unknown[] {
  const files = messages.flatMap(({ blocks }) => blocks).filter(block => block.type === 'file')
  return [
    ...(Array.isArray(documents) ? documents : []),
    ...files.map(({ file }) => renderDocument(file)),
  ]
}

// Cohere reads text only. It cannot know what a scanned page says.
function renderDocument({ filename, file_data }: File) {
  const file =
    file_data !== undefined && isDataUrl(file_data)
      ? parseDataUrl(file_data, 'file_data')
      : undefined
  if (!file || !TEXT_TYPE.test(file.media_type))
    throw invalid('file: expected a text file for this model’s provider', 'file')
  return {
    data: {
      ...(filename === undefined ? {} : { title: filename }),
      text: decodeMediaText(file, readCharset(file_data ?? ''), 'file'),
    },
  }
}

const TEXT_TYPE = /^text\/|[/+](json|xml|yaml)$/

/**
 * Letters, digits and `_`, no digit first (https://docs.cohere.com/v1/reference/chat,
 * `tools.name`).
 */
const NAME_RULES: NameRules = { forbidden: /[^a-zA-Z0-9_]/g, badStart: /^[0-9]/, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const createToolNames = (call: TextCall): ToolNames => new ToolNames(call, NAME_RULES)
