import type { Quirks } from '../../config/quirks.ts'
import { plainTextIn } from '../../kernel/data-url.ts'
import type { TextCall } from '../../language/call.ts'
import { type Block, type CacheControl, namesInText, type Turn } from '../../language/message.ts'
import type { Tool } from '../../language/tool.ts'
import { foreignContent, isNative } from '../native.ts'
import { nineLetters } from '../tools.ts'

/**
 * The client dialect that matches this API. Its own fields pass through unchanged in both
 * directions.
 */
export const NATIVE = 'chat'

type Message = Record<string, unknown> & { role: string }

/**
 * Returns the messages in the form that this server accepts. The gateway's `instruction` comes
 * first.
 */
export function messagesOf(turns: Turn[], instruction: string | null, quirks: Quirks): Message[] {
  const named = quirks.names ? turns : namesInText(turns)
  const told: Turn[] =
    instruction === null
      ? named
      : [{ role: 'system', blocks: [{ type: 'text', text: instruction }] }, ...named]
  const spread = told.some(showsMore) ? withShown(told) : told
  const sides = quirks.alternating ? alternating(spread) : spread
  const messages = sides.map(turn => message(turn, quirks))
  markPrefill(messages, quirks)
  return messages
}

const isPlain = ({ type }: Block) => type === 'text' || type === 'other'
const showsMore = ({ role, blocks }: Turn) => role === 'tool' && !blocks.every(isPlain)

// Tool results are text there. The user sends the images and files of results, after the last of
// these.
function withShown(turns: Turn[]): Turn[] {
  const spread: Turn[] = []
  let shown: Block[] = []
  for (const turn of turns) {
    if (turn.role !== 'tool' && shown.length > 0) {
      spread.push({ role: 'user', blocks: shown })
      shown = []
    }
    spread.push(showsMore(turn) ? { ...turn, blocks: turn.blocks.filter(isPlain) } : turn)
    if (showsMore(turn)) shown = [...shown, ...turn.blocks.filter(block => !isPlain(block))]
  }
  return shown.length > 0 ? [...spread, { role: 'user', blocks: shown }] : spread
}

/** Merges consecutive messages of one role. Every tool result stays a message of its own. */
function alternating(turns: Turn[]): Turn[] {
  const sides: Turn[] = []
  for (const turn of turns) {
    const last = sides.at(-1)
    if (last && last.role === turn.role && turn.role !== 'tool')
      sides[sides.length - 1] = { ...last, ...turn, blocks: [...last.blocks, ...turn.blocks] }
    else sides.push(turn)
  }
  return sides
}

// A conversation that ends with an assistant message is to be continued. Some servers need a flag
// for that.
function markPrefill(messages: Message[], { prefill }: Quirks): void {
  const last = messages.at(-1)
  if (prefill !== 'plain' && last?.role === 'assistant' && last.tool_calls === undefined)
    last[prefill] = true
}

function message(turn: Turn, quirks: Quirks): Message {
  const said: Message = {
    ...turn.extra,
    role: turn.role === 'developer' && !quirks.developer_role ? 'system' : turn.role,
    content: content(
      turn.role === 'assistant' ? turn.blocks.filter(isNoImage) : turn.blocks,
      quirks,
    ),
    ...special(turn, quirks),
  }
  if (turn.name !== undefined) said.name = turn.name
  if (turn.tool_call_id !== undefined) said.tool_call_id = idOf(turn.tool_call_id, quirks)
  return said
}

// The model's own images stand in `images`, not in the content.
const isNoImage = ({ type }: Block) => type !== 'image'

// A single plain text is sent as a string, the only form that every server reads.
function content(blocks: Block[], quirks: Quirks): unknown {
  const shown = blocks.filter(block => isShown(block, quirks))
  if (shown.length === 0) return blocks.length === 0 ? '' : null
  const [only] = shown
  if (
    shown.length === 1 &&
    only?.type === 'text' &&
    !only.extra &&
    !(only.cache_control && quirks.cache_markers)
  )
    return only.text
  return shown.map(block => part(block, quirks))
}

function isShown(block: Block, { reasoning_back }: Quirks): boolean {
  if (block.type === 'reasoning') return reasoning_back === 'content' && Boolean(block.text)
  if (block.type === 'other') return isNative(block, NATIVE)
  return block.type !== 'tool-call' && block.type !== 'refusal'
}

function part(block: Block, quirks: Quirks): unknown {
  switch (block.type) {
    case 'text':
      return {
        ...block.extra,
        type: 'text',
        text: block.text,
        ...marker(block.cache_control, quirks),
      }
    case 'image':
      return {
        ...block.extra,
        type: 'image_url',
        image_url: {
          url: block.url,
          ...(block.detail === undefined ? {} : { detail: block.detail }),
        },
        ...marker(block.cache_control, quirks),
      }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: block.data, format: block.format } }
    case 'file':
      return { type: 'file', file: block.file, ...marker(block.cache_control, quirks) }
    case 'video':
      return { type: 'video_url', video_url: { ...block.extra, url: block.url } }
    case 'reasoning':
      return { type: 'thinking', thinking: [{ type: 'text', text: block.text ?? '' }] }
    case 'other':
      return block.value
    default:
      return undefined
  }
}

/** Returns the fields of a message beside its content. */
function special({ role, blocks }: Turn, quirks: Quirks): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  const calls = blocks.filter(block => block.type === 'tool-call')
  if (calls.length > 0)
    fields.tool_calls = calls.map(({ id, name, input }) => ({
      id: idOf(id, quirks),
      type: 'function',
      function: { name, arguments: input },
    }))
  const images = role === 'assistant' ? blocks.filter(block => block.type === 'image') : []
  if (images.length > 0) fields.images = images.map(image => part(image, quirks))
  for (const block of blocks) {
    if (block.type === 'refusal') fields.refusal = block.text
    if (block.type === 'reasoning') Object.assign(fields, thought(block, quirks))
  }
  return fields
}

function thought(
  { text, details }: Extract<Block, { type: 'reasoning' }>,
  { reasoning_back }: Quirks,
): Record<string, unknown> {
  if (reasoning_back === 'none' || reasoning_back === 'content') return {}
  const said =
    text === null ? {} : { [reasoning_back === 'details' ? 'reasoning' : reasoning_back]: text }
  return reasoning_back === 'details' && details !== null
    ? { ...said, reasoning_details: details }
    : said
}

/**
 * Returns the id as this server accepts it. It is always the same for the same id, so a call and
 * its result stay together.
 */
const idOf = (id: string, { tool_call_ids }: Quirks): string =>
  tool_call_ids === 'any' ? id : nineLetters(id)

/**
 * Returns the marker up to which the server caches the conversation, for servers that support it.
 */
export const marker = (cache_control: CacheControl | undefined, { cache_markers }: Quirks) =>
  cache_control && cache_markers ? { cache_control } : {}

/**
 * Converts a call of another dialect to the call that a chat client would have made. Fields of the
 * other dialect are removed, a plain-text document becomes text, and all reasoning of a message is
 * merged. Results of another provider's own tools are left out of the model's messages. What a user
 * said is never left out. Throws 400 for content that chat has no form for.
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
  return {
    type: 'text',
    text: [...heading, text].join('\n\n'),
    ...(cache_control ? { cache_control } : {}),
  }
}

// In chat a message has one piece of reasoning, before its content.
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
