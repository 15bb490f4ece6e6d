import { isDataUrl, parseDataUrl } from '../../../base/data-url.ts'
import { invalid } from '../../../base/errors.ts'
import {
  getOwn,
  isObject,
  type Json,
  parseObject,
  readObject,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block } from '../../../language/message.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import {
  type ConversationMessage,
  placeInstructions,
  type ToolResult,
  toConversation,
} from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { filterOwnDetails } from '../reasoning.ts'
import { type NameRules, parseInputObject, ToolNames } from '../tools.ts'
import { type Capabilities, getCapabilities, isVertex } from './capabilities.data.ts'

/** The dialect of this API’s own clients. */
export const NATIVE = 'gemini'

/** What the rendering of a conversation depends on. */
interface RenderOptions {
  names: ToolNames
  capabilities: Capabilities
  /** Whether tool calls have ids. Vertex goes by names and order instead. */
  takesIds: boolean
}

/**
 * Renders the conversation as `contents`, and its instructions as `systemInstruction` where the
 * model accepts that.
 */
export function renderMessages(call: TextCall, endpoint: Endpoint, names: ToolNames): Json {
  const { system, messages } = toConversation(call.messages, placeInstructions(call))
  const options = { names, capabilities: getCapabilities(endpoint), takesIds: !isVertex(endpoint) }
  const contents = messages
    .map(message => renderContent(message, options))
    .filter(({ parts }) => parts.length > 0)
  const instructions = system.flatMap(block =>
    block.type === 'text' ? [{ text: block.text }] : [],
  )
  if (instructions.length === 0) return { contents }
  if (options.capabilities.supportsSystemInstruction && contents.length > 0)
    return { systemInstruction: { parts: instructions }, contents }
  return { contents: prependInstructions(contents, instructions) }
}

interface GeminiContent {
  role: 'user' | 'model'
  parts: Json[]
}

// Without a system instruction, or without any other content, instructions become the first user
// content.
function prependInstructions(contents: GeminiContent[], instructions: Json[]): GeminiContent[] {
  const [first, ...rest] = contents
  if (first?.role !== 'user') return [{ role: 'user', parts: instructions }, ...contents]
  return [{ role: 'user', parts: [...instructions, ...first.parts] }, ...rest]
}

const renderContent = (
  { role, blocks }: ConversationMessage,
  options: RenderOptions,
): GeminiContent =>
  role === 'user'
    ? { role, parts: renderUserParts(blocks, options) }
    : { role: 'model', parts: renderModelParts(blocks, options) }

// The results come first, together. Their media follow if the model does not accept them inside.
function renderUserParts(blocks: (Block | ToolResult)[], options: RenderOptions): Json[] {
  const results = blocks.filter(block => block.type === 'tool-result')
  const media = options.capabilities.supportsMediaInResults
    ? []
    : results.flatMap(({ blocks: inner }) => inner.filter(isMedia).map(renderMediaPart))
  const ownParts = blocks.flatMap(block => (block.type === 'tool-result' ? [] : renderPart(block)))
  return [...results.map(result => renderFunctionResponse(result, options)), ...media, ...ownParts]
}

function renderPart(block: Block): Json[] {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return [{ text: block.text }]
    case 'image':
    case 'audio':
    case 'video':
    case 'file':
      return [renderMediaPart(block)]
    case 'other':
      throw foreignContent(block)
    default:
      return []
  }
}

const isMedia = (block: Block): block is MediaBlock =>
  ['image', 'audio', 'video', 'file'].includes(block.type)

function renderFunctionResponse(
  { id, name, blocks, is_error }: ToolResult,
  { names, capabilities, takesIds }: RenderOptions,
): Json {
  const foreign = blocks.find(block => block.type === 'other')
  if (foreign) throw foreignContent(foreign)
  const resultText = blocks
    .flatMap(block => (block.type === 'text' || block.type === 'refusal' ? [block.text] : []))
    .join('\n')
  const media = capabilities.supportsMediaInResults
    ? blocks.filter(isMedia).map(renderMediaPart)
    : []
  return {
    functionResponse: {
      ...(takesIds ? { id } : {}),
      name: names.toWire(name),
      response: is_error ? { error: resultText } : toResponse(resultText),
      ...(media.length > 0 ? { parts: media } : {}),
    },
  }
}

// An object is sent as it is, any other answer under the key that Google documents. `$ref` would
// refer to an image.
const toResponse = (resultText: string): Json =>
  (resultText.includes('"$ref"') ? undefined : parseObject(resultText)) ?? { output: resultText }

function renderModelParts(allBlocks: (Block | ToolResult)[], options: RenderOptions): Json[] {
  // Content of another provider's own tools is of no use to Google.
  const blocks = allBlocks.filter(block => block.type !== 'tool-result' && block.type !== 'other')
  const signatures = new Signatures(blocks)
  let mediaCount = 0
  const ownParts = blocks.flatMap(block =>
    isMedia(block) ? [renderSignedMedia(block, mediaCount++, signatures)] : renderPart(block),
  )
  const signed = signTexts(ownParts, signatures.textSignatures)
  const calls = blocks.filter(block => block.type === 'tool-call')
  return [
    ...signatures.leadingParts,
    ...(options.capabilities.requiresSignedCalls && signatures.areLost
      ? signDrawn(signed)
      : signed),
    ...calls.map((call, i) => renderFunctionCall(call, i, signatures, options)),
  ]
}

function renderSignedMedia(block: MediaBlock, at: number, signatures: Signatures): Json {
  const thoughtSignature = signatures.find(buildMediaId(at))
  return {
    ...renderMediaPart(block),
    ...(thoughtSignature === undefined ? {} : { thoughtSignature }),
  }
}

/**
 * Signs what a model has drawn: every picture, and the text before the first, is refused without a
 * signature. Clients lose them, and pictures of other models never had one.
 */
function signDrawn(parts: Json[]): Json[] {
  if (!parts.some(isPicture)) return parts
  return parts.map((part, i) =>
    part.thoughtSignature === undefined && (i === 0 || isPicture(part))
      ? { ...part, thoughtSignature: LOST_SIGNATURE }
      : part,
  )
}

const isPicture = ({ inlineData, fileData }: Json): boolean => {
  const { mimeType } = isObject(inlineData) ? inlineData : isObject(fileData) ? fileData : {}
  return typeof mimeType === 'string' && mimeType.startsWith('image/')
}

// The signature of a text belongs on its last part. A signature without a text gets a part of its
// own.
function signTexts(parts: Json[], signatures: readonly string[]): Json[] {
  const last = signatures.at(-1)
  if (last === undefined) return parts
  const alone = signatures.slice(0, -1).map(thoughtSignature => ({ text: '', thoughtSignature }))
  const at = parts.findLastIndex(part => 'text' in part)
  if (at === -1) return [...alone, { text: '', thoughtSignature: last }, ...parts]
  return [
    ...alone,
    ...parts.map((part, i) => (i === at ? { ...part, thoughtSignature: last } : part)),
  ]
}

type ToolCall = Extract<Block, { type: 'tool-call' }>

// The first call of a message must have a signature. Parallel calls need none.
function renderFunctionCall(
  { id, name, input, extra }: ToolCall,
  at: number,
  signatures: Signatures,
  { names, capabilities, takesIds }: RenderOptions,
): Json {
  const thoughtSignature =
    signatures.find(id) ??
    readSignature(extra) ??
    (at === 0 && capabilities.requiresSignedCalls ? LOST_SIGNATURE : undefined)
  return {
    functionCall: {
      ...(takesIds ? { id } : {}),
      name: names.toWire(name),
      args: parseInputObject(input, 'arguments'),
    },
    ...(thoughtSignature === undefined ? {} : { thoughtSignature }),
  }
}

// As Google's chat API signs a call, which a client may have from there.
function readSignature(extra: Json | undefined): string | undefined {
  const google = readObject(readObject(extra ?? {}, 'extra_content'), 'google')
  return readString(google.thought_signature) ?? undefined
}

type MediaBlock = Extract<Block, { type: 'image' | 'audio' | 'video' | 'file' }>

/**
 * Renders an image, audio, video or document as a part: inline data, or a URL that Google fetches.
 */
function renderMediaPart(block: MediaBlock): Json {
  switch (block.type) {
    case 'image':
      return renderUrlPart(block.url, 'image/jpeg')
    case 'video':
      return renderUrlPart(block.url, 'video/mp4')
    case 'audio':
      return renderInlineData(getAudioType(block.format.toLowerCase()), block.data)
    case 'file':
      return renderFilePart(block.file)
  }
}

/** Google's names of the chat API's audio formats. */
const AUDIO_TYPES: Record<string, string> = {
  pcm16: 'audio/pcm',
  pcm24: 'audio/pcm',
  mpeg: 'audio/mp3',
  mpga: 'audio/mp3',
}

const getAudioType = (format: string): string => getOwn(AUDIO_TYPES, format) ?? `audio/${format}`

/** The media type by file extension, if nothing else states it. */
const TYPE_BY_EXTENSION: Record<string, string> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  xml: 'text/xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
  gif: 'image/gif',
  mp4: 'video/mp4',
  mpeg: 'video/mpeg',
  mpg: 'video/mpeg',
  mov: 'video/mov',
  webm: 'video/webm',
  wmv: 'video/wmv',
  avi: 'video/avi',
  flv: 'video/x-flv',
  '3gp': 'video/3gpp',
  mp3: 'audio/mp3',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  aac: 'audio/aac',
  aiff: 'audio/aiff',
}

const UNKNOWN_TYPE = 'application/octet-stream'

function renderFilePart({
  filename = '',
  file_data,
  file_id,
}: Extract<Block, { type: 'file' }>['file']): Json {
  if (file_data === undefined && file_id === undefined)
    throw invalid('file: expected file_data or file_id, found neither', 'file')
  return renderUrlPart(
    file_data ?? file_id ?? '',
    findTypeByExtension(filename) ?? 'application/pdf',
  )
}

// YouTube videos and files of the Files API or Cloud Storage. Google fetches everything that is not
// a data URL by now.
function renderUrlPart(url: string, otherwise: string): Json {
  if (!isDataUrl(url))
    return { fileData: { mimeType: findTypeByExtension(getPath(url)) ?? otherwise, fileUri: url } }
  const { media_type, data } = parseDataUrl(url)
  return renderInlineData(media_type === UNKNOWN_TYPE ? otherwise : media_type, data)
}

const renderInlineData = (mimeType: string, data: string): Json => ({
  inlineData: { mimeType, data },
})

const getPath = (url: string): string => (URL.canParse(url) ? new URL(url).pathname : url)

const findTypeByExtension = (name: string): string | undefined =>
  getOwn(TYPE_BY_EXTENSION, name.slice(name.lastIndexOf('.') + 1).toLowerCase())

/** Marks reasoning entries that only Google accepts back. */
export const REASONING_FORMAT = 'google-gemini-v1'

/**
 * Returns the id that ties a signature to an image or audio of a message, since those have no ids.
 * The first is 0.
 */
export const buildMediaId = (at: number): string => `media_${at}`

/**
 * What Google sent with an earlier answer and requires back on the same part: signatures, signed
 * thoughts, and tools that it ran itself. See ai.google.dev/gemini-api/docs/thought-signatures.
 */
class Signatures {
  /**
   * The parts at the start of the message: signed thoughts, and tools that Google ran itself with
   * their results.
   */
  readonly leadingParts: Json[] = []
  readonly #byId = new Map<string, string>()
  readonly #textSignatures: string[] = []

  constructor(blocks: Block[]) {
    const details = blocks.flatMap(block =>
      block.type === 'reasoning' ? filterOwnDetails(block.details, [REASONING_FORMAT]) : [],
    )
    for (const detail of details)
      if (detail.type === 'reasoning.encrypted') this.#addSignature(detail)
    for (const detail of details) this.#addLeadingParts(detail)
  }

  /** Whether the client has sent none back: one that keeps any keeps all. */
  get areLost(): boolean {
    return this.#byId.size + this.#textSignatures.length + this.leadingParts.length === 0
  }

  /** Returns the signature of the call, image or audio with this id. */
  find(id: string): string | undefined {
    return this.#byId.get(id)
  }

  /** The signatures of texts, in order. */
  get textSignatures(): readonly string[] {
    return this.#textSignatures
  }

  #addSignature({ id, data }: ReasoningDetail): void {
    if (typeof data !== 'string' || data === '') return
    if (typeof id === 'string' && id !== '') this.#byId.set(id, data)
    else this.#textSignatures.push(data)
  }

  // Thoughts without a signature are for people. Google does not require them.
  #addLeadingParts(detail: ReasoningDetail): void {
    const { type, signature } = detail
    if (type === 'reasoning.text' && typeof signature === 'string' && signature !== '')
      this.leadingParts.push({
        text: readString(detail.text) ?? '',
        thought: true,
        thoughtSignature: signature,
      })
    if (type === 'reasoning.server_tool_call')
      this.leadingParts.push(...this.#renderServerCall(detail))
  }

  #renderServerCall({
    tool_name,
    tool_call_id,
    arguments: input,
    result,
  }: ReasoningDetail): Json[] {
    const callArguments = parseObject(readString(input) ?? '') ?? {}
    const outcome = parseObject(readString(result) ?? '')
    const id = readString(tool_call_id) ?? ''
    const signature = this.#byId.get(id)
    const signed = signature === undefined ? {} : { thoughtSignature: signature }
    if (tool_name === 'code_execution')
      return [
        { executableCode: callArguments, ...signed },
        ...(outcome ? [{ codeExecutionResult: outcome }] : []),
      ]
    const call = { toolCall: { toolType: tool_name, args: callArguments, id }, ...signed }
    return outcome ? [call, { toolResponse: { toolType: tool_name, response: outcome, id } }] : []
  }
}

/** Google's documented placeholder for a signature that the client has lost. */
const LOST_SIGNATURE = 'skip_thought_signature_validator'

/** The names that Google accepts for functions (`FunctionDeclaration.name`). */
const NAME_RULES: NameRules = {
  forbidden: /[^A-Za-z0-9_.-]/g,
  badStart: /^[^A-Za-z_]/,
  longest: 64,
}

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const createToolNames = (call: TextCall): ToolNames => new ToolNames(call, NAME_RULES)
