import { isDataUrl, readPlainText } from '../../../base/data-url.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { foreignContent, isNative } from '../native.ts'
import { fitId, type NameRules, renderInputJson, ToolNames } from '../tools.ts'
import { getCapabilities } from './capabilities.data.ts'
import { renderReasoningItems } from './reasoning.ts'

/**
 * The client dialect that matches this API. Its own fields pass through unchanged in both
 * directions.
 */
export const NATIVE = 'responses'

/**
 * Returns the conversation as input items, in order. Instructions keep their position too: one in
 * the middle belongs there. What OpenAI refuses is repaired: a call without a result gets one that
 * says so, a result without a call becomes the user's text, and a message with nothing but
 * reasoning is left out. Throws 400 for content of another dialect.
 */
export const renderMessages = (call: TextCall, endpoint: Endpoint, names: ToolNames): Json[] => {
  const context = {
    call,
    endpoint,
    names,
    calledIds: collectCalledIds(call),
    answeredIds: collectAnsweredIds(call),
  }
  return call.messages.flatMap(message => renderMessage(message, context))
}

interface RenderContext {
  call: TextCall
  endpoint: Endpoint
  names: ToolNames
  /** The ids of all calls, and of those that have a result. */
  calledIds: Set<string>
  answeredIds: Set<string>
}

type ToolCallBlock = Extract<Block, { type: 'tool-call' }>

const listToolCalls = ({ blocks }: Message): ToolCallBlock[] =>
  blocks.filter(block => block.type === 'tool-call')
const collectCalledIds = ({ messages }: TextCall) =>
  new Set(messages.flatMap(message => listToolCalls(message).map(({ id }) => id)))
const collectAnsweredIds = ({ messages }: TextCall) =>
  new Set(
    messages.flatMap(({ role, tool_call_id = '' }) => (role === 'tool' ? [tool_call_id] : [])),
  )

function renderMessage(message: Message, context: RenderContext): Json[] {
  switch (message.role) {
    case 'assistant':
      return renderAssistantMessage(message, context)
    case 'tool':
      return context.calledIds.has(message.tool_call_id ?? '')
        ? [renderToolResult(message)]
        : renderContentItems('user', message.blocks)
    case 'developer':
      return renderContentItems(
        getCapabilities(context.endpoint).developer ? 'developer' : 'system',
        message.blocks,
      )
    default:
      return renderContentItems(message.role, message.blocks)
  }
}

/**
 * Renders consecutive content as one message. Items of the client's own dialect go between,
 * unchanged.
 */
function renderContentItems(role: string, blocks: Block[], fields: Json = {}): Json[] {
  const items: Json[] = []
  let content: Json[] | null = null
  for (const block of blocks) {
    if (isItem(block)) {
      items.push(requireNativeItem(block))
      content = null
      continue
    }
    const parts = renderContent(block, role)
    if (content) for (const part of parts) content.push(part)
    else if (parts.length > 0) {
      content = parts
      items.push({ type: 'message', role, content: parts, ...fields })
    }
  }
  return items
}

/**
 * Renders the model's reasoning, content and calls in their order. Results of another provider's
 * own tools are left out.
 */
function renderAssistantMessage(message: Message, context: RenderContext): Json[] {
  const known = message.blocks.filter(block => block.type !== 'other' || isNative(block, NATIVE))
  const items = groupContent(known).flatMap(([first, ...rest]) => {
    if (first?.type === 'reasoning') return renderReasoningItems(first, context.endpoint)
    if (first?.type === 'tool-call') return [renderToolCall(first, context)]
    return first ? renderContentItems('assistant', [first, ...rest], readPhase(message)) : []
  })
  if (items.every(item => item.type === 'reasoning')) return []
  return [
    ...items,
    ...listToolCalls(message).flatMap(({ id }) =>
      context.answeredIds.has(id) ? [] : [renderMissingResult(id)],
    ),
  ]
}

/** Groups the blocks: consecutive content together, every other block alone. */
function groupContent(blocks: Block[]): Block[][] {
  const groups: Block[][] = []
  for (const block of blocks) {
    const last = groups.at(-1)
    // Whatever is not content is alone in its group, so the first block tells.
    if (isContent(block) && last?.[0] && isContent(last[0])) last.push(block)
    else groups.push([block])
  }
  return groups
}

// Some models announce what they are about to do, and need to know which messages did so.
function readPhase({ extra }: Message): Json {
  const phase = readString(extra?.phase)
  return phase === null ? {} : { phase }
}

function renderToolCall(
  { id, name, input, extra }: ToolCallBlock,
  { call, names }: RenderContext,
): Json {
  const extraFields = isNative(call, NATIVE) ? extra : {}
  return {
    ...extraFields,
    type: 'function_call',
    call_id: fitCallId(id),
    name: names.toWire(name),
    arguments: renderInputJson(input),
  }
}

// A single text is sent as a string, the only form that every server reads. Results may contain
// images (translation trap 17).
function renderToolResult({ tool_call_id = '', blocks }: Message): Json {
  const [only] = blocks
  const isText = blocks.length === 1 && only?.type === 'text'
  const output = isText
    ? only.text
    : blocks.length === 0
      ? ''
      : blocks.flatMap(block => renderContent(block, 'tool'))
  return { type: 'function_call_output', call_id: fitCallId(tool_call_id), output }
}

const renderMissingResult = (id: string): Json => ({
  type: 'function_call_output',
  call_id: fitCallId(id),
  output: 'The tool gave no result.',
})

/**
 * The kinds of content of messages and results. Anything else from a client of this dialect is an
 * item.
 */
const CONTENT_TYPES = new Set([
  'input_text',
  'input_image',
  'input_file',
  'input_audio',
  'input_video',
  'output_text',
  'refusal',
])

/** Whether the block is an item of the input rather than content of a message. */
const isItem = (block: Block): block is Extract<Block, { type: 'other' }> =>
  block.type === 'other' && !(isNative(block, NATIVE) && isContentValue(block.value))

const isContentValue = (value: unknown) =>
  isObject(value) && CONTENT_TYPES.has(readString(value.type) ?? '')

/** Whether the block is content, rather than a call or reasoning. */
const isContent = ({ type }: Block): boolean => type !== 'tool-call' && type !== 'reasoning'

/**
 * Renders the block as content of a message of this role. Returns nothing for an empty text of the
 * model.
 */
function renderContent(block: Block, role: string): Json[] {
  switch (block.type) {
    case 'text':
      return renderText(block, role)
    case 'refusal':
      return [{ type: 'refusal', refusal: block.text }]
    case 'image':
      return [{ type: 'input_image', image_url: block.url, detail: block.detail ?? 'auto' }]
    case 'audio':
      return [{ type: 'input_audio', input_audio: { data: block.data, format: block.format } }]
    case 'file':
      return [renderFile(block.file)]
    case 'video':
      return [{ type: 'input_video', video_url: block.url }]
    case 'other':
      return [requireNativeItem(block)]
    default:
      return []
  }
}

function renderText(
  { text: value, extra }: Extract<Block, { type: 'text' }>,
  role: string,
): Json[] {
  if (role === 'assistant') return value === '' ? [] : [{ type: 'output_text', text: value }]
  const mark = extra?.prompt_cache_breakpoint
  return [
    {
      type: 'input_text',
      text: value,
      ...(mark === undefined ? {} : { prompt_cache_breakpoint: mark }),
    },
  ]
}

// A plain-text document becomes text. OpenAI requires a name for every other file sent with its
// data.
function renderFile({
  file_data,
  file_id,
  filename,
}: Extract<Block, { type: 'file' }>['file']): Json {
  if (file_id !== undefined) return { type: 'input_file', file_id }
  if (file_data !== undefined && /^https?:/i.test(file_data))
    return { type: 'input_file', file_url: file_data }
  const plainText = readPlainText(file_data ?? '', 'messages')
  if (plainText !== undefined)
    return {
      type: 'input_text',
      text: filename === undefined ? plainText : `${filename}\n\n${plainText}`,
    }
  return { type: 'input_file', filename: filename ?? pickFilename(file_data), file_data }
}

const pickFilename = (url = '') =>
  isDataUrl(url) && !/^data:application\/pdf[;,]/i.test(url) ? 'document' : 'document.pdf'

/** Returns what a client of this dialect sent, unchanged. Throws 400 for another dialect's. */
function requireNativeItem(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return block.value
  throw foreignContent(block)
}

/** The function names that OpenAI accepts. */
const NAME_RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** The call ids that OpenAI accepts. */
const ID_RULES: NameRules = { forbidden: /[^\x21-\x7e]/g, longest: 64 }

/** Returns the translation of the call's tool names. */
export const createToolNames = (call: TextCall): ToolNames => new ToolNames(call, NAME_RULES)

/** Returns a call's id as OpenAI accepts it. */
const fitCallId = (id: string): string => fitId(id, ID_RULES)
