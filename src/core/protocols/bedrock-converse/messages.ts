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

/** Renders tools, system and messages, with their cache points. */
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

// A document without any text beside it is refused.
function contentOf({ blocks }: Message, content: Content): Json[] {
  const said = content.of(blocks)
  const isSilent = said.some(block => 'document' in block) && !said.some(block => 'text' in block)
  return isSilent ? [{ text: 'This is the document.' }, ...said] : said
}

// Converse refuses a prefill that ends in white space.
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
    throw invalid('messages: the provider takes text instructions only', 'messages')
  return [{ text: block.text }, ...cachePoint(block.cache_control, family)]
}

/**
 * Renders blocks of the conversation as Converse's content blocks. Throws 400 for blocks that
 * Converse has no form for. Each request needs its own renderer.
 */
class Content {
  readonly #names: ToolNames
  readonly #family: Family
  readonly #documents = new DocumentNames()

  constructor(names: ToolNames, family: Family) {
    this.#names = names
    this.#family = family
  }

  /** Returns the content blocks for the blocks, each followed by its cache point. */
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

  // Images and videos may come as files too.
  #file({ file: { filename, file_data }, citations }: Extract<Block, { type: 'file' }>): Json {
    if (file_data === undefined)
      throw invalid('messages: the provider takes files as inline data only, not by id', 'messages')
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

// A tool result cannot contain cache points. A marker inside one becomes a cache point after it.
function markOf(block: Block | ToolResult): CacheControl | undefined {
  if (block.type === 'tool-result')
    return block.cache_control ?? block.blocks.map(markOf).find(mark => mark !== undefined)
  return 'cache_control' in block ? block.cache_control : undefined
}

function mediaOf(url: string): Media {
  if (!isDataUrl(url))
    throw invalid('messages: the provider takes media as inline data only, not by URL', 'messages')
  return dataUrl(url, 'messages')
}

function imageOf({ media_type, data }: Media): Json {
  const format = own(IMAGES, media_type)
  if (format === undefined)
    throw new GatewayError(
      'unsupported_image_format',
      'The provider takes JPEG, PNG, GIF and WebP images only',
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
    throw invalid('messages: the provider does not take audio of this format', 'messages')
  return { audio: { format, source: { bytes: data } } }
}

// Where the media type is inconclusive, the file extension decides. Any other kind of text is sent
// as plain text.
function documentFormat(media_type: string, filename = ''): string {
  const ending = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()
  const known =
    own(DOCUMENTS, media_type) ?? Object.values(DOCUMENTS).find(format => format === ending)
  if (known !== undefined) return known
  if (/^text\/|[/+](json|xml|yaml)$/.test(media_type)) return 'txt'
  throw invalid('messages: the provider does not take files of this format', 'messages')
}

/**
 * Renders thinking unchanged, because Bedrock verifies its signatures. Thinking of other models is
 * left out.
 */
const thoughtsOf = (details: ReasoningDetail[] | null, { reasoning_format }: Family): Json[] =>
  reasoning_format === 'unknown' ? [] : ownDetails(details, [reasoning_format]).flatMap(thoughtOf)

// A signature without text is valid, but the `text` field must be present (translation traps 94,
// 95).
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
 * Assigns names to the documents of one request. Bedrock allows letters, digits, single spaces,
 * hyphens, parentheses and brackets, at most 200 in all (API reference, DocumentBlock), and each
 * name only once.
 */
class DocumentNames {
  readonly #given = new Set<string>()

  /** Returns a name for the next document, similar to its filename. */
  name(filename = ''): string {
    const fitting = fitted(filename) || 'document'
    let name = fitting
    for (let i = 2; this.#given.has(name); i++) name = `${fitting.slice(0, LONGEST - 8)} (${i})`
    this.#given.add(name)
    return name
  }
}

// Bedrock gets the format separately, so the file extension is left out.
const fitted = (filename: string): string =>
  filename
    .slice(0, 1024)
    .replace(/\.[a-zA-Z0-9]{1,8}$/, '')
    .replace(/[^a-zA-Z0-9\s()[\]-]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, LONGEST)
    .trim()

/** The names and ids that Converse accepts (API reference, ToolSpecification and ToolUseBlock). */
const RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)

/** Returns a tool call's id in the form that Converse accepts. */
const callId = (id: string): string => fittedId(id, RULES)

/** A request may contain this many cache points ("Prompt caching"). */
const MOST_POINTS = 4

/**
 * Renders the cache point that follows a marked block, for models that accept cache points. An hour
 * is requested only of models that support it.
 */
export function cachePoint(mark: CacheControl | undefined, { cache, hour }: Family): Json[] {
  if (!mark || cache === 'nowhere') return []
  return [{ cachePoint: { type: 'default', ...(mark.ttl === '1h' && hour ? { ttl: '1h' } : {}) } }]
}

/**
 * The block lists of a request: its tools, its system prompt and the content of each message. This
 * is the order in which Bedrock caches them.
 */
type Lists = Json[][]

/**
 * Leaves at most four cache points. The earliest go, because later ones cover what precedes them.
 */
function withinFour(lists: Lists): Lists {
  let surplus = pointsIn(lists) - MOST_POINTS
  if (surplus <= 0) return lists
  return lists.map(list => list.filter(block => !isPoint(block) || surplus-- <= 0))
}

/** Tells whether one more cache point fits. */
const hasRoom = (lists: Lists): boolean => pointsIn(lists) < MOST_POINTS

const isPoint = (block: Json): boolean => 'cachePoint' in block

const pointsIn = (lists: Lists): number => lists.flat().filter(isPoint).length
