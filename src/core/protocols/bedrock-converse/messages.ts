import { GatewayError, invalid } from '../../errors.ts'
import { dataUrl, isDataUrl, type Media } from '../../kernel/data-url.ts'
import { type Json, own, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, CacheControl } from '../../language/message.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import type { Message, ToolResult } from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { ownDetails } from '../reasoning.ts'
import { fittedId, inputObject, type NameRules, nineLetters, ToolNames } from '../tools.ts'
import { AUDIO, DOCUMENTS, type Family, familyOf, IMAGES, VIDEOS } from './capabilities.data.ts'
import type { Format, RequestInputs } from './request.ts'
import type { Tooling } from './tools.ts'

/** What is said, with its cache points: tools, system and messages. */
export function saidOf(
  { call, endpoint, conversation: { system, messages }, format }: RequestInputs,
  { toolConfig }: Tooling,
): Json {
  const family = familyOf(endpoint)
  const content = new Content(namesOf(call), family)
  const contents = messages.map(message => contentOf(message, content))
  if (messages.at(-1)?.role === 'assistant') trimmed(contents.at(-1))
  const lists = [toolConfig?.tools ?? [], systemOf(system, format, family), ...contents]
  if (hasRoom(lists)) lists.at(-1)?.push(...cachePoint(call.params.cache_control, family))
  const [tools = [], instructions = [], ...said] = withinFour(lists)
  return {
    ...(instructions.length > 0 ? { system: instructions } : {}),
    messages: messages.map(({ role }, i) => ({ role, content: said[i] ?? [] })),
    ...(toolConfig ? { toolConfig: { ...toolConfig, tools } } : {}),
  }
}

// A document alone is refused: something must be said of it.
function contentOf({ blocks }: Message, content: Content): Json[] {
  const said = content.of(blocks)
  const isSilent = said.some(block => 'document' in block) && !said.some(block => 'text' in block)
  return isSilent ? [{ text: 'This is the document.' }, ...said] : said
}

// What ends in white space is refused as the beginning of an answer.
function trimmed(content: Json[] | undefined): void {
  const last = content?.at(-1)
  if (typeof last?.text === 'string') last.text = last.text.trimEnd()
}

function systemOf(system: Block[], format: Format, family: Family): Json[] {
  const blocks = system.flatMap(block => instructionOf(block, family))
  const words = format.by === 'words' || format.by === 'tool' ? format.words : null
  return words === null ? blocks : [...blocks, { text: words }]
}

function instructionOf(block: Block, family: Family): Json[] {
  if (block.type !== 'text')
    throw invalid('messages: the provider takes instructions in words only', 'messages')
  return [{ text: block.text }, ...cachePoint(block.cache_control, family)]
}

/** Says blocks of the conversation as Converse's content blocks. Throws 400 for what it has no word for. One for each request. */
class Content {
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
    if (file_data === undefined)
      throw invalid(
        'messages: the provider takes files by what they hold only, not by an id',
        'messages',
      )
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
    return {
      toolUse: { toolUseId: this.#id(id), name: this.#names.sent(name), input: inputObject(input) },
    }
  }

  #toolResult({ id, blocks, is_error }: ToolResult): Json {
    const content = blocks.flatMap(block => this.#of(block))
    return {
      toolResult: {
        toolUseId: this.#id(id),
        content,
        ...(is_error && this.#family.statuses ? { status: 'error' } : {}),
      },
    }
  }

  #id(id: string): string {
    return this.#family.ids === 'nine' ? nineLetters(id) : callId(id)
  }
}

// What is marked within a tool's answer is marked after it: there are no points inside.
function markOf(block: Block | ToolResult): CacheControl | undefined {
  if (block.type === 'tool-result')
    return block.cache_control ?? block.blocks.map(markOf).find(mark => mark !== undefined)
  return 'cache_control' in block ? block.cache_control : undefined
}

function mediaOf(url: string): Media {
  if (!isDataUrl(url))
    throw invalid(
      'messages: the provider takes media by what they hold only, not by URL',
      'messages',
    )
  return dataUrl(url, 'messages')
}

function imageOf({ media_type, data }: Media): Json {
  const format = own(IMAGES, media_type)
  if (format === undefined)
    throw new GatewayError(
      'unsupported_image_format',
      'The provider takes JPEG, PNG, GIF and WebP pictures only',
    )
  return { image: { format, source: { bytes: data } } }
}

function videoOf({ media_type, data }: Media): Json {
  const format = own(VIDEOS, media_type)
  if (format === undefined)
    throw invalid('messages: the provider does not take videos of this format', 'messages')
  return { video: { format, source: { bytes: data } } }
}

function audioOf(format: string, data: string): Json {
  if (!AUDIO.has(format))
    throw invalid('messages: the provider does not take sound of this format', 'messages')
  return { audio: { format, source: { bytes: data } } }
}

// A name's ending tells what a file is where its type does not; any other kind of text is one all the same.
function documentFormat(media_type: string, filename = ''): string {
  const ending = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()
  const known =
    own(DOCUMENTS, media_type) ?? Object.values(DOCUMENTS).find(format => format === ending)
  if (known !== undefined) return known
  if (/^text\/|[/+](json|xml|yaml)$/.test(media_type)) return 'txt'
  throw invalid('messages: the provider does not take files of this format', 'messages')
}

/** The thinking as it was given, for the model that gave it: its signatures are checked. Others' thinking is left out. */
const thoughtsOf = (details: ReasoningDetail[] | null, { reasoning_format }: Family): Json[] =>
  reasoning_format === 'unknown' ? [] : ownDetails(details, [reasoning_format]).flatMap(thoughtOf)

// A signature without words is valid, but the words may not be missing (translation traps 94, 95).
function thoughtOf(detail: ReasoningDetail): Json[] {
  if (detail.type === 'reasoning.encrypted')
    return text(detail.data) ? [{ reasoningContent: { redactedContent: detail.data } }] : []
  if (detail.type !== 'reasoning.text' || !text(detail.signature)) return []
  return [
    {
      reasoningContent: {
        reasoningText: { text: text(detail.text) ?? '', signature: detail.signature },
      },
    },
  ]
}

const LONGEST = 200

/**
 * Names for the documents of one request. Bedrock takes letters, digits, single spaces, hyphens, parentheses and brackets, up to
 * 200 of them (API reference, DocumentBlock), and no name twice.
 */
class DocumentNames {
  readonly #given = new Set<string>()

  /** A name for the next document, like that of its file. */
  name(filename = ''): string {
    const fitting = fitted(filename) || 'document'
    let name = fitting
    for (let i = 2; this.#given.has(name); i++) name = `${fitting.slice(0, LONGEST - 8)} (${i})`
    this.#given.add(name)
    return name
  }
}

// Bedrock tells the kind of a document apart, so its ending is left out.
const fitted = (filename: string): string =>
  filename
    .slice(0, 1024)
    .replace(/\.[a-zA-Z0-9]{1,8}$/, '')
    .replace(/[^a-zA-Z0-9\s()[\]-]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, LONGEST)
    .trim()

/** Which names and ids Converse takes (API reference, ToolSpecification and ToolUseBlock). */
const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** The names of the call's tools, there and back. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)

/** A call's id as Converse takes it. */
const callId = (id: string): string => fittedId(id, RULES)

/** A request may have this many ("Prompt caching"). */
const MOST_POINTS = 4

/** The point that is set after what is marked, for models that take one. An hour is asked only of those that know it. */
export function cachePoint(mark: CacheControl | undefined, { cache, hour }: Family): Json[] {
  if (!mark || cache === 'nowhere') return []
  return [{ cachePoint: { type: 'default', ...(mark.ttl === '1h' && hour ? { ttl: '1h' } : {}) } }]
}

/** A request's lists of blocks: its tools, its system, the content of each message; in this order, which is that of the cache. */
type Lists = Json[][]

/** The lists with four points at most. The earliest go: the later ones cover what stands before them. */
function withinFour(lists: Lists): Lists {
  let surplus = pointsIn(lists) - MOST_POINTS
  if (surplus <= 0) return lists
  return lists.map(list => list.filter(block => !isPoint(block) || surplus-- <= 0))
}

/** Whether one more fits. */
const hasRoom = (lists: Lists): boolean => pointsIn(lists) < MOST_POINTS

const isPoint = (block: Json): boolean => 'cachePoint' in block

const pointsIn = (lists: Lists): number => lists.flat().filter(isPoint).length
