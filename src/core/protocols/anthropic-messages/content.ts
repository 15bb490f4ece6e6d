import { invalid } from '../../errors.ts'
import { dataUrl, textOf } from '../../kernel/data-url.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, CacheControl } from '../../language/message.ts'
import type { ToolResult } from '../conversation.ts'
import { foreignContent } from '../foreign.ts'
import { isNative } from '../native.ts'
import { inputObject } from '../tool-input.ts'
import type { ToolNames } from '../tool-names.ts'
import { callId } from './names.ts'
import { NATIVE } from './native.ts'
import { thinkingBlocks } from './thinking.ts'

/** Says blocks of the conversation in this API's words. Throws 400 for what it has none for. */
export class Content {
  readonly #names: ToolNames
  /** Whether what we do not know of a block is this API's own. */
  readonly #isNative: boolean

  constructor(call: TextCall, names: ToolNames) {
    this.#names = names
    this.#isNative = isNative(call, NATIVE)
  }

  /** The content blocks for these blocks, each made anew. */
  of(blocks: (Block | ToolResult)[]): Json[] {
    return blocks.flatMap(block => this.#of(block))
  }

  #of(block: Block | ToolResult): Json[] {
    switch (block.type) {
      case 'text':
        return [{ ...this.#own(block.extra), type: 'text', text: block.text, ...marker(block.cache_control) }]
      case 'refusal':
        return [{ type: 'text', text: block.text }]
      case 'image':
        return [{ ...this.#own(block.extra), type: 'image', source: sourceOf(block.url), ...marker(block.cache_control) }]
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
    const source = file.file_id === undefined ? sourceOf(file.file_data ?? '') : { type: 'file', file_id: file.file_id }
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

  #toolCall({ id, name, input, cache_control, extra }: Extract<Block, { type: 'tool-call' }>): Json {
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

const marker = (cache_control: CacheControl | undefined): Json => (cache_control ? { cache_control } : {})

function otherOf(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return { ...block.value }
  throw foreignContent(block)
}

function sourceOf(url: string): Json {
  if (/^https?:\/\//i.test(url)) return { type: 'url', url }
  return { type: 'base64', ...dataUrl(url, 'messages') }
}

const isPicture = ({ media_type }: Json): boolean => typeof media_type === 'string' && media_type.startsWith('image/')

// Pages are read as such, and plain text as it stands.
function documentSource(source: Json): Json {
  const { type, media_type, data } = source
  if (type !== 'base64' || media_type === 'application/pdf') return source
  if (!isText(text(media_type) ?? '')) throw invalid('messages: the provider reads PDF and plain text files only', 'messages')
  return { type: 'text', media_type: 'text/plain', data: textOf({ data: text(data) ?? '' }) }
}

const isText = (media_type: string): boolean => /^(text\/|application\/(json|xml|x-yaml|yaml|javascript)$)/.test(media_type)
