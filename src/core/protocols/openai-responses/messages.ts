import type { Endpoint } from '../../catalog/models.ts'
import { isDataUrl, plainTextIn } from '../../kernel/data-url.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import { foreignContent, isNative } from '../native.ts'
import { fittedId, inputJson, type NameRules, ToolNames } from '../tools.ts'
import { capabilitiesOf } from './capabilities.data.ts'
import { reasoningItems } from './reasoning.ts'

/** The clients' dialect that this API speaks too: what it has of its own goes both ways as it came. */
export const NATIVE = 'responses'

/**
 * The conversation as input items, in its order, instructions included: an instruction in the middle was meant for there. What
 * OpenAI refuses is mended: a call without a result gets one that says so, a result without a call becomes the user's text, and
 * a turn that holds nothing but reasoning is left out. Throws 400 for content of another dialect.
 */
export const inputOf = (call: TextCall, endpoint: Endpoint, names: ToolNames): Json[] => {
  const conversation = { call, endpoint, names, called: calledIn(call), answered: answeredIn(call) }
  return call.turns.flatMap(turn => itemsOf(turn, conversation))
}

interface Conversation {
  call: TextCall
  endpoint: Endpoint
  names: ToolNames
  /** The ids of the calls that were made, and of those that have a result. */
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

/** What is said in one go is one message; items of the client's own dialect stand between as they came. */
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

/** The model's turn in the order in which it was given: what it thought, said and called. What another's own tools did is left out. */
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

/** The blocks, those that are said one after the other together. */
function runsOf(blocks: Block[]): Block[][] {
  const runs: Block[][] = []
  for (const block of blocks) {
    const last = runs.at(-1)
    if (isContent(block) && last?.every(isContent)) last.push(block)
    else runs.push([block])
  }
  return runs
}

// Some models say beforehand what they are about to do, and want to know which of their words were that.
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

// A single text goes as a string: the one form that every server reads. Pictures have a place here (translation trap 17).
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

/** The kinds of content that stand in a message or in a result; whatever else a client of this dialect sends is an item. */
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

/** Whether the block is said, and not a call or a thought. */
const isContent = ({ type }: Block): boolean => type !== 'tool-call' && type !== 'reasoning'

/** The block as content of a message of this role; nothing for an empty text of the model's own, which says nothing. */
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

// A document of plain text is a text. OpenAI wants a name for every other file that comes with its data.
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

/** What a client of this dialect sent, as it came. Throws 400 for another dialect's. */
function ownOf(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return block.value
  throw foreignContent(block)
}

/** What OpenAI takes as a function's name. */
const NAMES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** What it takes as a call's id. */
const IDS: NameRules = { forbidden: /[^\x21-\x7e]/g, longest: 64 }

/** The names of the call's tools, there and back. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, NAMES)

/** A call's id as OpenAI takes it. */
const callId = (id: string): string => fittedId(id, IDS)
