import { invalid } from '../../errors.ts'
import { dataUrl, textOf } from '../../kernel/data-url.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, CacheControl } from '../../language/message.ts'
import type { Conversation, ToolResult } from '../conversation.ts'
import { foreignContent, isNative } from '../native.ts'
import { ownDetails } from '../reasoning.ts'
import { fittedId, inputObject, type NameRules, ToolNames } from '../tools.ts'
import type { Format } from './request.ts'

/**
 * The client dialect that this API speaks too. Fields that only this API knows pass through
 * unchanged in both directions.
 */
export const NATIVE = 'messages'

export function systemOf({ system }: Conversation, content: Content, format: Format): Json {
  const blocks = content.of(system)
  if (format.by === 'words') blocks.push({ type: 'text', text: format.words })
  return blocks.length > 0 ? { system: plainly(blocks) } : {}
}

export function messagesOf(
  { messages }: Conversation,
  content: Content,
  isPrefilled: boolean,
): Json[] {
  const said = messages
    .map(({ role, blocks }) => ({ role, content: content.of(blocks) }))
    .filter(({ content }) => content.length > 0)
  const last = said.at(-1)?.content.at(-1)
  // The API refuses a prefill that ends in white space.
  if (isPrefilled && typeof last?.text === 'string') last.text = last.text.trimEnd()
  return said.map(({ role, content }) => ({ role, content: plainly(content) }))
}

// A single plain text block is sent as a string, as people write it.
function plainly(blocks: Json[]): string | Json[] {
  const [only] = blocks
  return blocks.length === 1 &&
    only?.type === 'text' &&
    typeof only.text === 'string' &&
    Object.keys(only).length === 2
    ? only.text
    : blocks
}

/**
 * Renders blocks of the conversation as this API's content blocks. Throws 400 for blocks that the
 * API has no form for.
 */
export class Content {
  readonly #names: ToolNames
  /** Whether unknown fields of a block are this API's own. */
  readonly #isNative: boolean

  constructor(call: TextCall, names: ToolNames) {
    this.#names = names
    this.#isNative = isNative(call, NATIVE)
  }

  /** Returns newly created content blocks for the blocks. */
  of(blocks: (Block | ToolResult)[]): Json[] {
    return blocks.flatMap(block => this.#of(block))
  }

  #of(block: Block | ToolResult): Json[] {
    switch (block.type) {
      case 'text':
        return [
          {
            ...this.#own(block.extra),
            type: 'text',
            text: block.text,
            ...marker(block.cache_control),
          },
        ]
      case 'refusal':
        return [{ type: 'text', text: block.text }]
      case 'image':
        return [
          {
            ...this.#own(block.extra),
            type: 'image',
            source: sourceOf(block.url),
            ...marker(block.cache_control),
          },
        ]
      case 'file':
        return [this.#file(block)]
      case 'tool-call':
        return [this.#toolCall(block)]
      case 'tool-result':
        return [this.#toolResult(block)]
      case 'reasoning':
        return thinkingBlocks(block.details)
      case 'other':
        return [otherOf(block)]
      default:
        throw foreignContent(block)
    }
  }

  #file({ file, citations, cache_control, extra }: Extract<Block, { type: 'file' }>): Json {
    const source =
      file.file_id === undefined
        ? sourceOf(file.file_data ?? '')
        : { type: 'file', file_id: file.file_id }
    if (isPicture(source)) return { type: 'image', source, ...marker(cache_control) }
    return {
      ...this.#own(extra),
      type: 'document',
      source: documentSource(source),
      ...(file.filename ? { title: file.filename } : {}),
      ...(citations === undefined ? {} : { citations: { enabled: citations } }),
      ...marker(cache_control),
    }
  }

  #toolCall({
    id,
    name,
    input,
    cache_control,
    extra,
  }: Extract<Block, { type: 'tool-call' }>): Json {
    return {
      ...this.#own(extra),
      type: 'tool_use',
      id: callId(id),
      name: this.#names.sent(name),
      input: inputObject(input),
      ...marker(cache_control),
    }
  }

  #toolResult({ id, blocks, is_error, cache_control }: ToolResult): Json {
    const content = this.of(blocks)
    return {
      type: 'tool_result',
      tool_use_id: callId(id),
      ...(content.length > 0 ? { content } : {}),
      ...(is_error ? { is_error } : {}),
      ...marker(cache_control),
    }
  }

  #own(extra: Record<string, unknown> | undefined): Record<string, unknown> {
    return this.#isNative && extra ? extra : {}
  }
}

const marker = (cache_control: CacheControl | undefined): Json =>
  cache_control ? { cache_control } : {}

function otherOf(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return { ...block.value }
  throw foreignContent(block)
}

function sourceOf(url: string): Json {
  if (/^https?:\/\//i.test(url)) return { type: 'url', url }
  return { type: 'base64', ...dataUrl(url, 'messages') }
}

const isPicture = ({ media_type }: Json): boolean =>
  typeof media_type === 'string' && media_type.startsWith('image/')

// PDF goes as base64, plain text as text.
function documentSource(source: Json): Json {
  const { type, media_type, data } = source
  if (type !== 'base64' || media_type === 'application/pdf') return source
  if (!isText(text(media_type) ?? ''))
    throw invalid('messages: the provider reads PDF and plain text files only', 'messages')
  return { type: 'text', media_type: 'text/plain', data: textOf({ data: text(data) ?? '' }) }
}

const isText = (media_type: string): boolean =>
  /^(text\/|application\/(json|xml|x-yaml|yaml|javascript)$)/.test(media_type)

/**
 * The origin of thinking in `reasoning_details`. Claude accepts what Claude has signed, whichever
 * host runs it.
 */
export const REASONING_FORMAT = 'anthropic-claude-v1'
const FORMATS = [REASONING_FORMAT]

/**
 * Renders thinking unchanged, because the API verifies its signatures. Thinking of other models is
 * left out.
 */
export const thinkingBlocks = (details: Parameters<typeof ownDetails>[0]): Json[] =>
  ownDetails(details, FORMATS).flatMap(thinkingBlock)

function thinkingBlock(detail: Json): Json[] {
  if (detail.type === 'reasoning.encrypted' && typeof detail.data === 'string')
    return [{ type: 'redacted_thinking', data: detail.data }]
  if (
    detail.type !== 'reasoning.text' ||
    typeof detail.signature !== 'string' ||
    detail.signature === ''
  )
    return []
  return [{ type: 'thinking', thinking: text(detail.text) ?? '', signature: detail.signature }]
}

/** The names and ids that this API accepts: `^[a-zA-Z0-9_-]{1,64}$`. */
const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)

/** Returns a tool call's id in the form that this API accepts. */
const callId = (id: string): string => fittedId(id, RULES)
