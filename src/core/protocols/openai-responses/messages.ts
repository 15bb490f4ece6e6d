import type { Endpoint } from '../../catalog/models.ts'
import { isDataUrl, plainTextIn } from '../../kernel/data-url.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import { foreignContent, isNative } from '../native.ts'
import { fittedId, inputJson, type NameRules, ToolNames } from '../tools.ts'
import { capabilitiesOf } from './capabilities.data.ts'
import { reasoningItems } from './reasoning.ts'

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
export const inputOf = (call: TextCall, endpoint: Endpoint, names: ToolNames): Json[] => {
  const conversation = { call, endpoint, names, called: calledIn(call), answered: answeredIn(call) }
  return call.turns.flatMap(turn => itemsOf(turn, conversation))
}

interface Conversation {
  call: TextCall
  endpoint: Endpoint
  names: ToolNames
  /** The ids of all calls, and of those that have a result. */
  called: Set<string>
  answered: Set<string>
}

type Call = Extract<Block, { type: 'tool-call' }>

const callsOf = ({ blocks }: Turn): Call[] => blocks.filter(block => block.type === 'tool-call')
const calledIn = ({ turns }: TextCall) =>
  new Set(turns.flatMap(turn => callsOf(turn).map(({ id }) => id)))
const answeredIn = ({ turns }: TextCall) =>
  new Set(turns.flatMap(({ role, tool_call_id = '' }) => (role === 'tool' ? [tool_call_id] : [])))

function itemsOf(turn: Turn, conversation: Conversation): Json[] {
  switch (turn.role) {
    case 'assistant':
      return assistantItems(turn, conversation)
    case 'tool':
      return conversation.called.has(turn.tool_call_id ?? '')
        ? [resultItem(turn)]
        : messageItems('user', turn.blocks)
    case 'developer':
      return messageItems(
        capabilitiesOf(conversation.endpoint).developer ? 'developer' : 'system',
        turn.blocks,
      )
    default:
      return messageItems(turn.role, turn.blocks)
  }
}

/**
 * Renders consecutive content as one message. Items of the client's own dialect go between,
 * unchanged.
 */
function messageItems(role: string, blocks: Block[], more: Json = {}): Json[] {
  const items: Json[] = []
  let said: Json[] | null = null
  for (const block of blocks) {
    if (isItem(block)) {
      items.push(ownOf(block))
      said = null
      continue
    }
    const content = contentOf(block, role)
    if (said) said.push(...content)
    else if (content.length > 0) {
      said = content
      items.push({ type: 'message', role, content, ...more })
    }
  }
  return items
}

/**
 * Renders the model's reasoning, content and calls in their order. Results of another provider's
 * own tools are left out.
 */
function assistantItems(turn: Turn, conversation: Conversation): Json[] {
  const known = turn.blocks.filter(block => block.type !== 'other' || isNative(block, NATIVE))
  const items = runsOf(known).flatMap(([first, ...rest]) => {
    if (first?.type === 'reasoning') return reasoningItems(first, conversation.endpoint)
    if (first?.type === 'tool-call') return [callItem(first, conversation)]
    return first ? messageItems('assistant', [first, ...rest], phaseOf(turn)) : []
  })
  if (items.every(item => item.type === 'reasoning')) return []
  return [
    ...items,
    ...callsOf(turn).flatMap(({ id }) => (conversation.answered.has(id) ? [] : [unanswered(id)])),
  ]
}

/** Groups the blocks: consecutive content together, every other block alone. */
function runsOf(blocks: Block[]): Block[][] {
  const runs: Block[][] = []
  for (const block of blocks) {
    const last = runs.at(-1)
    if (isContent(block) && last?.every(isContent)) last.push(block)
    else runs.push([block])
  }
  return runs
}

// Some models announce what they are about to do, and need to know which messages did so.
function phaseOf({ extra }: Turn): Json {
  const phase = text(extra?.phase)
  return phase === null ? {} : { phase }
}

function callItem({ id, name, input, extra }: Call, { call, names }: Conversation): Json {
  const own = isNative(call, NATIVE) ? extra : {}
  return {
    ...own,
    type: 'function_call',
    call_id: callId(id),
    name: names.sent(name),
    arguments: inputJson(input),
  }
}

// A single text is sent as a string, the only form that every server reads. Results may contain
// images (translation trap 17).
function resultItem({ tool_call_id = '', blocks }: Turn): Json {
  const [only] = blocks
  const isText = blocks.length === 1 && only?.type === 'text'
  const output = isText
    ? only.text
    : blocks.length === 0
      ? ''
      : blocks.flatMap(block => contentOf(block, 'tool'))
  return { type: 'function_call_output', call_id: callId(tool_call_id), output }
}

const unanswered = (id: string): Json => ({
  type: 'function_call_output',
  call_id: callId(id),
  output: 'The tool gave no result.',
})

/**
 * The kinds of content of messages and results. Anything else from a client of this dialect is an
 * item.
 */
const CONTENT = new Set([
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

const isContentValue = (value: unknown) => isObject(value) && CONTENT.has(text(value.type) ?? '')

/** Whether the block is content, rather than a call or reasoning. */
const isContent = ({ type }: Block): boolean => type !== 'tool-call' && type !== 'reasoning'

/**
 * Renders the block as content of a message of this role. Returns nothing for an empty text of the
 * model.
 */
function contentOf(block: Block, role: string): Json[] {
  switch (block.type) {
    case 'text':
      return textOf(block, role)
    case 'refusal':
      return [{ type: 'refusal', refusal: block.text }]
    case 'image':
      return [{ type: 'input_image', image_url: block.url, detail: block.detail ?? 'auto' }]
    case 'audio':
      return [{ type: 'input_audio', input_audio: { data: block.data, format: block.format } }]
    case 'file':
      return [fileOf(block.file)]
    case 'video':
      return [{ type: 'input_video', video_url: block.url }]
    case 'other':
      return [ownOf(block)]
    default:
      return []
  }
}

function textOf({ text: said, extra }: Extract<Block, { type: 'text' }>, role: string): Json[] {
  if (role === 'assistant') return said === '' ? [] : [{ type: 'output_text', text: said }]
  const mark = extra?.prompt_cache_breakpoint
  return [
    {
      type: 'input_text',
      text: said,
      ...(mark === undefined ? {} : { prompt_cache_breakpoint: mark }),
    },
  ]
}

// A plain-text document becomes text. OpenAI requires a name for every other file sent with its
// data.
function fileOf({ file_data, file_id, filename }: Extract<Block, { type: 'file' }>['file']): Json {
  if (file_id !== undefined) return { type: 'input_file', file_id }
  if (file_data !== undefined && /^https?:/i.test(file_data))
    return { type: 'input_file', file_url: file_data }
  const said = plainTextIn(file_data ?? '', 'messages')
  if (said !== undefined)
    return { type: 'input_text', text: filename === undefined ? said : `${filename}\n\n${said}` }
  return { type: 'input_file', filename: filename ?? nameFor(file_data), file_data }
}

const nameFor = (url = '') =>
  isDataUrl(url) && !/^data:application\/pdf[;,]/i.test(url) ? 'document' : 'document.pdf'

/** Returns what a client of this dialect sent, unchanged. Throws 400 for another dialect's. */
function ownOf(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return block.value
  throw foreignContent(block)
}

/** The function names that OpenAI accepts. */
const NAMES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** The call ids that OpenAI accepts. */
const IDS: NameRules = { forbidden: /[^\x21-\x7e]/g, longest: 64 }

/** Returns the translation of the call's tool names. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, NAMES)

/** Returns a call's id as OpenAI accepts it. */
const callId = (id: string): string => fittedId(id, IDS)
