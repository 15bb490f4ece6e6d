import { isDataUrl, type Media, parseDataUrl } from '../../../base/data-url.ts'
import { GatewayError, invalid } from '../../../base/errors.ts'
import { getOwn, type Json, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, CacheControl } from '../../../language/message.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import type { Conversation, ConversationMessage, ToolResult } from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { filterOwnDetails } from '../reasoning.ts'
import { fitId, type NameRules, parseInputObject, ToolNames, toMistralCallId } from '../tools.ts'
import {
  AUDIO_FORMATS,
  DOCUMENT_FORMATS,
  getModelFamily,
  IMAGE_FORMATS,
  type ModelFamily,
  VIDEO_FORMATS,
} from './capabilities.data.ts'

/** Renders tools, system and messages, with their cache points. */
export function renderMessages(
  { call, endpoint, conversation: { system, messages }, format }: RequestInputs,
  { toolConfig }: ToolFields,
): Json {
  const family = getModelFamily(endpoint)
  const content = new ContentRenderer(createToolNames(call), family)
  const contents = messages.map(message => renderContent(message, content))
  if (messages.at(-1)?.role === 'assistant') trimLastText(contents.at(-1))
  const lists = [toolConfig?.tools ?? [], renderSystem(system, format, family), ...contents]
  if (hasRoomForCachePoint(lists))
    lists.at(-1)?.push(...renderCachePoint(call.params.cache_control, family))
  const [tools = [], instructions = [], ...contentLists] = limitCachePoints(lists)
  return {
    ...(instructions.length > 0 ? { system: instructions } : {}),
    messages: messages.map(({ role }, i) => ({ role, content: contentLists[i] ?? [] })),
    ...(toolConfig ? { toolConfig: { ...toolConfig, tools } } : {}),
  }
}

// A document without any text beside it is refused.
function renderContent({ blocks }: ConversationMessage, content: ContentRenderer): Json[] {
  const rendered = content.renderBlocks(blocks)
  const isSilent =
    rendered.some(block => 'document' in block) && !rendered.some(block => 'text' in block)
  return isSilent ? [{ text: 'This is the document.' }, ...rendered] : rendered
}

// Converse refuses a prefill that ends in white space.
function trimLastText(content: Json[] | undefined): void {
  const last = content?.at(-1)
  if (typeof last?.text === 'string') last.text = last.text.trimEnd()
}

function renderSystem(system: Block[], format: AnswerFormat, family: ModelFamily): Json[] {
  const blocks = system.flatMap(block => renderInstruction(block, family))
  const words = format.by === 'words' || format.by === 'tool' ? format.words : null
  return words === null ? blocks : [...blocks, { text: words }]
}

function renderInstruction(block: Block, family: ModelFamily): Json[] {
  if (block.type !== 'text')
    throw invalid('messages: the provider takes text instructions only', 'messages')
  return [{ text: block.text }, ...renderCachePoint(block.cache_control, family)]
}

/**
 * Renders blocks of the conversation as Converse's content blocks. Throws 400 for blocks that
 * Converse has no form for. Each request needs its own renderer.
 */
class ContentRenderer {
  readonly #names: ToolNames
  readonly #family: ModelFamily
  readonly #documentNames = new DocumentNames()

  constructor(names: ToolNames, family: ModelFamily) {
    this.#names = names
    this.#family = family
  }

  /** Returns the content blocks for the blocks, each followed by its cache point. */
  renderBlocks(blocks: (Block | ToolResult)[]): Json[] {
    return blocks.flatMap(block => [
      ...this.#renderBlock(block),
      ...renderCachePoint(findCacheControl(block), this.#family),
    ])
  }

  #renderBlock(block: Block | ToolResult): Json[] {
    switch (block.type) {
      case 'text':
      case 'refusal':
        return block.text.trim() === '' ? [] : [{ text: block.text }]
      case 'image':
        return [renderImage(readMedia(block.url))]
      case 'video':
        return [renderVideo(readMedia(block.url))]
      case 'audio':
        return [renderAudio(block.format, block.data)]
      case 'file':
        return [this.#renderFile(block)]
      case 'tool-call':
        return [this.#renderToolCall(block)]
      case 'tool-result':
        return [this.#renderToolResult(block)]
      case 'reasoning':
        return renderThoughts(block.details, this.#family)
      case 'other':
        throw foreignContent(block)
    }
  }

  // Images and videos may come as files too.
  #renderFile({
    file: { filename, file_data },
    citations,
  }: Extract<Block, { type: 'file' }>): Json {
    if (file_data === undefined)
      throw invalid('messages: the provider takes files as inline data only, not by id', 'messages')
    const media = readMedia(file_data)
    if (Object.hasOwn(IMAGE_FORMATS, media.media_type)) return renderImage(media)
    if (Object.hasOwn(VIDEO_FORMATS, media.media_type)) return renderVideo(media)
    return {
      document: {
        format: getDocumentFormat(media.media_type, filename),
        name: this.#documentNames.assign(filename),
        source: { bytes: media.data },
        ...(citations ? { citations: { enabled: true } } : {}),
      },
    }
  }

  #renderToolCall({ id, name, input }: Extract<Block, { type: 'tool-call' }>): Json {
    return {
      toolUse: {
        toolUseId: this.#fitId(id),
        name: this.#names.toWire(name),
        input: parseInputObject(input),
      },
    }
  }

  #renderToolResult({ id, blocks, is_error }: ToolResult): Json {
    const content = blocks.flatMap(block => this.#renderBlock(block))
    return {
      toolResult: {
        toolUseId: this.#fitId(id),
        content,
        ...(is_error && this.#family.supportsResultStatus ? { status: 'error' } : {}),
      },
    }
  }

  #fitId(id: string): string {
    return this.#family.toolCallIds === 'nine' ? toMistralCallId(id) : fitCallId(id)
  }
}

// A tool result cannot contain cache points. A marker inside one becomes a cache point after it.
function findCacheControl(block: Block | ToolResult): CacheControl | undefined {
  if (block.type === 'tool-result')
    return (
      block.cache_control ?? block.blocks.map(findCacheControl).find(mark => mark !== undefined)
    )
  return 'cache_control' in block ? block.cache_control : undefined
}

function readMedia(url: string): Media {
  if (!isDataUrl(url))
    throw invalid('messages: the provider takes media as inline data only, not by URL', 'messages')
  return parseDataUrl(url, 'messages')
}

function renderImage({ media_type, data }: Media): Json {
  const format = getOwn(IMAGE_FORMATS, media_type)
  if (format === undefined)
    throw new GatewayError(
      'unsupported_image_format',
      'The provider takes JPEG, PNG, GIF and WebP images only',
    )
  return { image: { format, source: { bytes: data } } }
}

function renderVideo({ media_type, data }: Media): Json {
  const format = getOwn(VIDEO_FORMATS, media_type)
  if (format === undefined)
    throw invalid('messages: the provider does not take videos of this format', 'messages')
  return { video: { format, source: { bytes: data } } }
}

function renderAudio(format: string, data: string): Json {
  if (!AUDIO_FORMATS.has(format))
    throw invalid('messages: the provider does not take audio of this format', 'messages')
  return { audio: { format, source: { bytes: data } } }
}

// Where the media type is inconclusive, the file extension decides. Any other kind of text is sent
// as plain text.
function getDocumentFormat(media_type: string, filename = ''): string {
  const ending = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()
  const known =
    getOwn(DOCUMENT_FORMATS, media_type) ??
    Object.values(DOCUMENT_FORMATS).find(format => format === ending)
  if (known !== undefined) return known
  if (/^text\/|[/+](json|xml|yaml)$/.test(media_type)) return 'txt'
  throw invalid('messages: the provider does not take files of this format', 'messages')
}

/**
 * Renders thinking unchanged, because Bedrock verifies its signatures. Thinking of other models is
 * left out.
 */
const renderThoughts = (
  details: ReasoningDetail[] | null,
  { reasoning_format }: ModelFamily,
): Json[] =>
  reasoning_format === 'unknown'
    ? []
    : filterOwnDetails(details, [reasoning_format]).flatMap(renderThought)

// A signature without text is valid, but the `text` field must be present (translation traps 94,
// 95).
function renderThought(detail: ReasoningDetail): Json[] {
  if (detail.type === 'reasoning.encrypted')
    return readString(detail.data) ? [{ reasoningContent: { redactedContent: detail.data } }] : []
  if (detail.type !== 'reasoning.text' || !readString(detail.signature)) return []
  return [
    {
      reasoningContent: {
        reasoningText: { text: readString(detail.text) ?? '', signature: detail.signature },
      },
    },
  ]
}

const LONGEST_NAME = 200

/**
 * Assigns names to the documents of one request. Bedrock allows letters, digits, single spaces,
 * hyphens, parentheses and brackets, at most 200 in all (API reference, DocumentBlock), and each
 * name only once.
 */
class DocumentNames {
  readonly #assigned = new Set<string>()

  /** Returns a name for the next document, similar to its filename. */
  assign(filename = ''): string {
    const fitting = fitName(filename) || 'document'
    let name = fitting
    for (let i = 2; this.#assigned.has(name); i++)
      name = `${fitting.slice(0, LONGEST_NAME - 8)} (${i})`
    this.#assigned.add(name)
    return name
  }
}

// Bedrock gets the format separately, so the file extension is left out.
const fitName = (filename: string): string =>
  filename
    .slice(0, 1024)
    .replace(/\.[a-zA-Z0-9]{1,8}$/, '')
    .replace(/[^a-zA-Z0-9\s()[\]-]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, LONGEST_NAME)
    .trim()

/** The names and ids that Converse accepts (API reference, ToolSpecification and ToolUseBlock). */
const NAME_RULES: NameRules = { forbidden: /[^a-zA-Z0-9_-]/g, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const createToolNames = (call: TextCall): ToolNames => new ToolNames(call, NAME_RULES)

/** Returns a tool call's id in the form that Converse accepts. */
const fitCallId = (id: string): string => fitId(id, NAME_RULES)

/** A request may contain this many cache points ("Prompt caching"). */
const MAX_POINTS = 4

/**
 * Renders the cache point that follows a marked block, for models that accept cache points. An hour
 * is requested only of models that support it.
 */
export function renderCachePoint(
  cacheControl: CacheControl | undefined,
  { cachePoints, supportsHourCache }: ModelFamily,
): Json[] {
  if (!cacheControl || cachePoints === 'nowhere') return []
  return [
    {
      cachePoint: {
        type: 'default',
        ...(cacheControl.ttl === '1h' && supportsHourCache ? { ttl: '1h' } : {}),
      },
    },
  ]
}

/**
 * The block lists of a request: its tools, its system prompt and the content of each message. This
 * is the order in which Bedrock caches them.
 */
type BlockLists = Json[][]

/**
 * Leaves at most four cache points. The earliest go, because later ones cover what precedes them.
 */
function limitCachePoints(lists: BlockLists): BlockLists {
  let surplus = countCachePoints(lists) - MAX_POINTS
  if (surplus <= 0) return lists
  return lists.map(list => list.filter(block => !isCachePoint(block) || surplus-- <= 0))
}

/** Tells whether one more cache point fits. */
const hasRoomForCachePoint = (lists: BlockLists): boolean => countCachePoints(lists) < MAX_POINTS

const isCachePoint = (block: Json): boolean => 'cachePoint' in block

const countCachePoints = (lists: BlockLists): number => lists.flat().filter(isCachePoint).length

/**
 * The fields that concern tools: `toolConfig`, and Claude's own `tool_choice` where Converse has no
 * equivalent.
 */
export interface ToolFields {
  toolConfig?: { tools: Json[]; toolChoice?: Json }
  tool_choice?: Json
}

/** What a request is built from. */
export interface RequestInputs {
  call: TextCall
  endpoint: Endpoint
  conversation: Conversation
  format: AnswerFormat
}

/** How the model is held to the required format of the answer. */
export type AnswerFormat =
  /** Not at all: any text will do. */
  | { by: 'nothing' }
  /** Natively, by `outputConfig.textFormat`. */
  | { by: 'schema'; textFormat: Json }
  /**
   * By a tool whose input is the answer. A model that cannot be forced to call it is instructed to.
   */
  | { by: 'tool'; name: string; description: string; schema: Json; words: string | null }
  /** By an instruction. */
  | { by: 'words'; words: string }
