import { decodeMediaText, parseDataUrl, readCharset } from '../../../base/data-url.ts'
import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, CacheControl } from '../../../language/message.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import type { Conversation, Instructions, ToolResult } from '../conversation.ts'
import { foreignContent, isNative } from '../native.ts'
import { filterOwnDetails } from '../reasoning.ts'
import { fitId, type NameRules, parseInputObject, ToolNames } from '../tools.ts'

/**
 * The client dialect that this API speaks too. Fields that only this API knows pass through
 * unchanged in both directions.
 */
export const NATIVE = 'messages'

export function renderSystem(
  { system }: Conversation,
  content: ContentRenderer,
  format: AnswerFormat,
): Json {
  const blocks = content.renderBlocks(system)
  if (format.by === 'words') blocks.push({ type: 'text', text: format.words })
  return blocks.length > 0 ? { system: simplifyContent(blocks) } : {}
}

export function renderMessages(
  { messages }: Conversation,
  content: ContentRenderer,
  isPrefilled: boolean,
): Json[] {
  const rendered: { role: string; content: Json[] }[] = []
  for (const { role, blocks, instructions } of messages) {
    const said = content.renderBlocks(blocks)
    if (said.length > 0) rendered.push({ role, content: said })
    if (instructions) rendered.push(content.renderInstructions(instructions))
  }
  const last = rendered.at(-1)?.content.at(-1)
  // The API refuses a prefill that ends in white space.
  if (isPrefilled && typeof last?.text === 'string') last.text = last.text.trimEnd()
  return rendered.map(message => ({ ...message, content: simplifyContent(message.content) }))
}

// A single plain text block is sent as a string, as people write it.
function simplifyContent(blocks: Json[]): string | Json[] {
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
export class ContentRenderer {
  readonly #names: ToolNames
  /** The format of the thinking that goes back. */
  readonly #format: string
  /** Whether unknown fields of a block are this API's own. */
  readonly #isNative: boolean

  constructor(call: TextCall, names: ToolNames, format: string) {
    this.#format = format
    this.#names = names
    this.#isNative = isNative(call, NATIVE)
  }

  /** Returns newly created content blocks for the blocks. */
  renderBlocks(blocks: (Block | ToolResult)[]): Json[] {
    return blocks.flatMap(block => this.#renderBlock(block))
  }

  /** Renders a system message within the conversation. */
  renderInstructions({ blocks, extra }: Instructions): { role: string; content: Json[] } {
    return { ...this.#pickOwn(extra), role: 'system', content: this.renderBlocks(blocks) }
  }

  #renderBlock(block: Block | ToolResult): Json[] {
    switch (block.type) {
      case 'text':
        return [
          {
            ...this.#pickOwn(block.extra),
            type: 'text',
            text: block.text,
            ...renderCacheMarker(block.cache_control),
          },
        ]
      case 'refusal':
        return [{ type: 'text', text: block.text }]
      case 'image':
        return [
          {
            ...this.#pickOwn(block.extra),
            type: 'image',
            source: renderSource(block.url),
            ...renderCacheMarker(block.cache_control),
          },
        ]
      case 'file':
        return [this.#renderFile(block)]
      case 'tool-call':
        return [this.#renderToolCall(block)]
      case 'tool-result':
        return [this.#renderToolResult(block)]
      case 'reasoning':
        return renderThinkingBlocks(block.details, this.#format)
      case 'other':
        return [renderNativeBlock(block)]
      default:
        throw foreignContent(block)
    }
  }

  #renderFile({ file, citations, cache_control, extra }: Extract<Block, { type: 'file' }>): Json {
    const source =
      file.file_id === undefined
        ? renderSource(file.file_data ?? '')
        : { type: 'file', file_id: file.file_id }
    if (isImage(source)) return { type: 'image', source, ...renderCacheMarker(cache_control) }
    return {
      ...this.#pickOwn(extra),
      type: 'document',
      source: renderDocumentSource(source, readCharset(file.file_data ?? '')),
      ...(file.filename ? { title: file.filename } : {}),
      ...(citations === undefined ? {} : { citations: { enabled: citations } }),
      ...renderCacheMarker(cache_control),
    }
  }

  #renderToolCall({
    id,
    name,
    input,
    cache_control,
    extra,
  }: Extract<Block, { type: 'tool-call' }>): Json {
    return {
      ...this.#pickOwn(extra),
      type: 'tool_use',
      id: fitCallId(id),
      name: this.#names.toWire(name),
      input: parseInputObject(input),
      ...renderCacheMarker(cache_control),
    }
  }

  #renderToolResult({ id, blocks, is_error, cache_control }: ToolResult): Json {
    const content = this.renderBlocks(blocks)
    return {
      type: 'tool_result',
      tool_use_id: fitCallId(id),
      ...(content.length > 0 ? { content } : {}),
      ...(is_error ? { is_error } : {}),
      ...renderCacheMarker(cache_control),
    }
  }

  #pickOwn(extra: Record<string, unknown> | undefined): Record<string, unknown> {
    return this.#isNative && extra ? extra : {}
  }
}

const renderCacheMarker = (cache_control: CacheControl | undefined): Json =>
  cache_control ? { cache_control } : {}

function renderNativeBlock(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return { ...block.value }
  throw foreignContent(block)
}

function renderSource(url: string): Json {
  if (/^https?:\/\//i.test(url)) return { type: 'url', url }
  return { type: 'base64', ...parseDataUrl(url, 'messages') }
}

const isImage = ({ media_type }: Json): boolean =>
  typeof media_type === 'string' && media_type.startsWith('image/')

// PDF goes as base64, plain text as text.
function renderDocumentSource(source: Json, charset: string): Json {
  const { type, media_type, data } = source
  if (type !== 'base64' || media_type === 'application/pdf') return source
  if (!isTextType(readString(media_type) ?? ''))
    throw invalid('messages: the provider reads PDF and plain text files only', 'messages')
  return {
    type: 'text',
    media_type: 'text/plain',
    data: decodeMediaText({ data: readString(data) ?? '' }, charset, 'messages'),
  }
}

const isTextType = (media_type: string): boolean =>
  /^(text\/|application\/(json|xml|x-yaml|yaml|javascript)$)/.test(media_type)

/**
 * The origin of thinking in `reasoning_details`. Claude accepts what Claude has signed, whichever
 * host runs it.
 */
const REASONING_FORMAT = 'anthropic-claude-v1'

/** Vendors that speak this API beside their own, for models that are not Claude. */
export const VENDORS = new Set(['deepseek', 'moonshotai', 'zai', 'minimax'])

/** Returns the format of an endpoint's thinking: that of vendors other than Claude's is their own. */
export const getReasoningFormat = ({ provider: { slug } }: Endpoint): string =>
  VENDORS.has(slug) ? `${slug}-messages-v1` : REASONING_FORMAT

/**
 * Renders thinking unchanged, because the API verifies its signatures. Thinking of other models is
 * left out.
 */
export const renderThinkingBlocks = (
  details: Parameters<typeof filterOwnDetails>[0],
  format: string,
): Json[] => filterOwnDetails(details, [format]).flatMap(renderThinkingBlock)

function renderThinkingBlock(detail: Json): Json[] {
  if (detail.type === 'reasoning.encrypted' && typeof detail.data === 'string')
    return [{ type: 'redacted_thinking', data: detail.data }]
  if (
    detail.type !== 'reasoning.text' ||
    typeof detail.signature !== 'string' ||
    detail.signature === ''
  )
    return []
  return [
    { type: 'thinking', thinking: readString(detail.text) ?? '', signature: detail.signature },
  ]
}

/** The names and ids that this API accepts: `^[a-zA-Z0-9_-]{1,64}$`. */
const NAME_RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const createToolNames = (call: TextCall): ToolNames => new ToolNames(call, NAME_RULES)

/** Returns a tool call's id in the form that this API accepts. */
const fitCallId = (id: string): string => fitId(id, NAME_RULES)

/** How the model is held to the required format of the answer. */
export type AnswerFormat =
  /** Not at all: any text will do. */
  | { by: 'nothing' }
  /** Natively, by a schema. */
  | { by: 'schema'; schema: Json }
  /** By a forced tool whose input is the answer. */
  | { by: 'tool'; tool: { name: string; description: string; input_schema: Json } }
  /** By an instruction, where neither of the others is possible. */
  | { by: 'words'; words: string }
