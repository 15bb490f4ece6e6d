import { GatewayError, invalid } from '../../errors.ts'
import { dataUrl, isDataUrl, type Media } from '../../kernel/data-url.ts'
import { type Json, own, text } from '../../kernel/json.ts'
import type { Block, CacheControl } from '../../language/message.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import type { ToolResult } from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { ownDetails } from '../reasoning.ts'
import { inputObject, nineLetters, type ToolNames } from '../tools.ts'
import { cachePoint } from './cache-points.ts'
import { DocumentNames } from './documents.ts'
import type { Family } from './families.data.ts'
import { AUDIO, DOCUMENTS, IMAGES, VIDEOS } from './formats.data.ts'
import { callId } from './names.ts'

/** Says blocks of the conversation as Converse's content blocks. Throws 400 for what it has no word for. One for each request. */
export class Content {
  readonly #names: ToolNames
  readonly #family: Family
  readonly #documents = new DocumentNames()

  constructor(names: ToolNames, family: Family) {
    this.#names = names
    this.#family = family
  }

  /** The content blocks for these blocks, with the cache points after them. */
  of(blocks: (Block | ToolResult)[]): Json[] {
    return blocks.flatMap(block => [...this.#of(block), ...cachePoint(markOf(block), this.#family)])
  }

  #of(block: Block | ToolResult): Json[] {
    switch (block.type) {
      case 'text':
      case 'refusal':
        return block.text.trim() === '' ? [] : [{ text: block.text }]
      case 'image':
        return [imageOf(mediaOf(block.url))]
      case 'video':
        return [videoOf(mediaOf(block.url))]
      case 'audio':
        return [audioOf(block.format, block.data)]
      case 'file':
        return [this.#file(block)]
      case 'tool-call':
        return [this.#toolCall(block)]
      case 'tool-result':
        return [this.#toolResult(block)]
      case 'reasoning':
        return thoughtsOf(block.details, this.#family)
      case 'other':
        throw foreignContent(block)
    }
  }

  // Pictures and films may come as files too.
  #file({ file: { filename, file_data }, citations }: Extract<Block, { type: 'file' }>): Json {
    if (file_data === undefined) throw invalid('messages: the provider takes files by what they hold only, not by an id', 'messages')
    const media = mediaOf(file_data)
    if (Object.hasOwn(IMAGES, media.media_type)) return imageOf(media)
    if (Object.hasOwn(VIDEOS, media.media_type)) return videoOf(media)
    return {
      document: {
        format: documentFormat(media.media_type, filename),
        name: this.#documents.name(filename),
        source: { bytes: media.data },
        ...(citations ? { citations: { enabled: true } } : {}),
      },
    }
  }

  #toolCall({ id, name, input }: Extract<Block, { type: 'tool-call' }>): Json {
    return { toolUse: { toolUseId: this.#id(id), name: this.#names.sent(name), input: inputObject(input) } }
  }

  #toolResult({ id, blocks, is_error }: ToolResult): Json {
    const content = blocks.flatMap(block => this.#of(block))
    return { toolResult: { toolUseId: this.#id(id), content, ...(is_error && this.#family.statuses ? { status: 'error' } : {}) } }
  }

  #id(id: string): string {
    return this.#family.ids === 'nine' ? nineLetters(id) : callId(id)
  }
}

// What is marked within a tool's answer is marked after it: there are no points inside.
function markOf(block: Block | ToolResult): CacheControl | undefined {
  if (block.type === 'tool-result') return block.cache_control ?? block.blocks.map(markOf).find(mark => mark !== undefined)
  return 'cache_control' in block ? block.cache_control : undefined
}

function mediaOf(url: string): Media {
  if (!isDataUrl(url)) throw invalid('messages: the provider takes media by what they hold only, not by URL', 'messages')
  return dataUrl(url, 'messages')
}

function imageOf({ media_type, data }: Media): Json {
  const format = own(IMAGES, media_type)
  if (format === undefined) throw new GatewayError('unsupported_image_format', 'The provider takes JPEG, PNG, GIF and WebP pictures only')
  return { image: { format, source: { bytes: data } } }
}

function videoOf({ media_type, data }: Media): Json {
  const format = own(VIDEOS, media_type)
  if (format === undefined) throw invalid('messages: the provider does not take videos of this format', 'messages')
  return { video: { format, source: { bytes: data } } }
}

function audioOf(format: string, data: string): Json {
  if (!AUDIO.has(format)) throw invalid('messages: the provider does not take sound of this format', 'messages')
  return { audio: { format, source: { bytes: data } } }
}

// A name's ending tells what a file is where its type does not; any other kind of text is one all the same.
function documentFormat(media_type: string, filename = ''): string {
  const ending = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()
  const known = own(DOCUMENTS, media_type) ?? Object.values(DOCUMENTS).find(format => format === ending)
  if (known !== undefined) return known
  if (/^text\/|[/+](json|xml|yaml)$/.test(media_type)) return 'txt'
  throw invalid('messages: the provider does not take files of this format', 'messages')
}

/** The thinking as it was given, for the model that gave it: its signatures are checked. Others' thinking is left out. */
const thoughtsOf = (details: ReasoningDetail[] | null, { reasoning_format }: Family): Json[] =>
  reasoning_format === 'unknown' ? [] : ownDetails(details, [reasoning_format]).flatMap(thoughtOf)

// A signature without words is valid, but the words may not be missing (translation traps 94, 95).
function thoughtOf(detail: ReasoningDetail): Json[] {
  if (detail.type === 'reasoning.encrypted') return text(detail.data) ? [{ reasoningContent: { redactedContent: detail.data } }] : []
  if (detail.type !== 'reasoning.text' || !text(detail.signature)) return []
  return [{ reasoningContent: { reasoningText: { text: text(detail.text) ?? '', signature: detail.signature } } }]
}
