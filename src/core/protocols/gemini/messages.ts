import type { Endpoint } from '../../catalog/models.ts'
import { invalid } from '../../errors.ts'
import { dataUrl, isDataUrl } from '../../kernel/data-url.ts'
import { type Json, own, parseObject, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { conversationOf, type Message, type ToolResult } from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { ownDetails } from '../reasoning.ts'
import { inputObject, type NameRules, ToolNames } from '../tools.ts'
import { type Capabilities, capabilitiesOf, isVertex } from './capabilities.data.ts'

/** What the rendering of a conversation depends on. */
interface Manner {
  names: ToolNames
  capabilities: Capabilities
  /** Whether tool calls have ids. Vertex goes by names and order instead. */
  takesIds: boolean
}

/**
 * Renders the conversation as `contents`, and its instructions as `systemInstruction` where the
 * model accepts that.
 */
export function contentsOf(call: TextCall, endpoint: Endpoint, names: ToolNames): Json {
  const { system, messages } = conversationOf(call.turns)
  const manner = { names, capabilities: capabilitiesOf(endpoint), takesIds: !isVertex(endpoint) }
  const contents = messages
    .map(message => content(message, manner))
    .filter(({ parts }) => parts.length > 0)
  const said = system.flatMap(block => (block.type === 'text' ? [{ text: block.text }] : []))
  if (said.length === 0) return { contents }
  if (manner.capabilities.systemInstruction && contents.length > 0)
    return { systemInstruction: { parts: said }, contents }
  return { contents: opened(contents, said) }
}

interface Content {
  role: 'user' | 'model'
  parts: Json[]
}

// Without a system instruction, or without any other content, instructions become the first user
// content.
function opened(contents: Content[], said: Json[]): Content[] {
  const [first, ...rest] = contents
  if (first?.role !== 'user') return [{ role: 'user', parts: said }, ...contents]
  return [{ role: 'user', parts: [...said, ...first.parts] }, ...rest]
}

const content = ({ role, blocks }: Message, manner: Manner): Content =>
  role === 'user'
    ? { role, parts: userParts(blocks, manner) }
    : { role: 'model', parts: modelParts(blocks, manner) }

// The results come first, together. Their media follow if the model does not accept them inside.
function userParts(blocks: (Block | ToolResult)[], manner: Manner): Json[] {
  const results = blocks.filter(block => block.type === 'tool-result')
  const shown = manner.capabilities.mediaInResults
    ? []
    : results.flatMap(({ blocks: inner }) => inner.filter(isMedia).map(mediaPart))
  const said = blocks.flatMap(block => (block.type === 'tool-result' ? [] : saidPart(block)))
  return [...results.map(result => functionResponse(result, manner)), ...shown, ...said]
}

function saidPart(block: Block): Json[] {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return [{ text: block.text }]
    case 'image':
    case 'audio':
    case 'video':
    case 'file':
      return [mediaPart(block)]
    case 'other':
      throw foreignContent(block)
    default:
      return []
  }
}

const isMedia = (block: Block): block is MediaBlock =>
  ['image', 'audio', 'video', 'file'].includes(block.type)

function functionResponse(
  { id, name, blocks, is_error }: ToolResult,
  { names, capabilities, takesIds }: Manner,
): Json {
  const foreign = blocks.find(block => block.type === 'other')
  if (foreign) throw foreignContent(foreign)
  const said = blocks
    .flatMap(block => (block.type === 'text' || block.type === 'refusal' ? [block.text] : []))
    .join('\n')
  const media = capabilities.mediaInResults ? blocks.filter(isMedia).map(mediaPart) : []
  return {
    functionResponse: {
      ...(takesIds ? { id } : {}),
      name: names.sent(name),
      response: is_error ? { error: said } : responseOf(said),
      ...(media.length > 0 ? { parts: media } : {}),
    },
  }
}

// An object is sent as it is, any other answer under the key that Google documents. `$ref` would
// refer to an image.
const responseOf = (said: string): Json =>
  (said.includes('"$ref"') ? undefined : parseObject(said)) ?? { output: said }

function modelParts(given: (Block | ToolResult)[], manner: Manner): Json[] {
  // Content of another provider's own tools is of no use to Google.
  const blocks = given.filter(block => block.type !== 'tool-result' && block.type !== 'other')
  const signatures = new Signatures(blocks)
  const media = blocks.filter(isMedia)
  const said = blocks.flatMap(block =>
    isMedia(block) ? [signedMedia(block, media.indexOf(block), signatures)] : saidPart(block),
  )
  const calls = blocks.filter(block => block.type === 'tool-call')
  return [
    ...signatures.opening,
    ...signedTexts(said, signatures.ofTexts),
    ...calls.map((call, i) => functionCall(call, i, signatures, manner)),
  ]
}

function signedMedia(block: MediaBlock, at: number, signatures: Signatures): Json {
  const thoughtSignature = signatures.of(mediaId(at))
  return { ...mediaPart(block), ...(thoughtSignature === undefined ? {} : { thoughtSignature }) }
}

// The signature of a text belongs on its last part. A signature without a text gets a part of its
// own.
function signedTexts(said: Json[], signatures: readonly string[]): Json[] {
  const last = signatures.at(-1)
  if (last === undefined) return said
  const alone = signatures.slice(0, -1).map(thoughtSignature => ({ text: '', thoughtSignature }))
  const at = said.findLastIndex(part => 'text' in part)
  if (at === -1) return [...alone, { text: '', thoughtSignature: last }, ...said]
  return [
    ...alone,
    ...said.map((part, i) => (i === at ? { ...part, thoughtSignature: last } : part)),
  ]
}

type Call = Extract<Block, { type: 'tool-call' }>

// The first call of a message must have a signature. Parallel calls need none.
function functionCall(
  { id, name, input }: Call,
  at: number,
  signatures: Signatures,
  { names, capabilities, takesIds }: Manner,
): Json {
  const thoughtSignature =
    signatures.of(id) ?? (at === 0 && capabilities.signedCalls ? LOST_SIGNATURE : undefined)
  return {
    functionCall: {
      ...(takesIds ? { id } : {}),
      name: names.sent(name),
      args: inputObject(input, 'arguments'),
    },
    ...(thoughtSignature === undefined ? {} : { thoughtSignature }),
  }
}

type MediaBlock = Extract<Block, { type: 'image' | 'audio' | 'video' | 'file' }>

/**
 * Renders an image, audio, video or document as a part: inline data, or a URL that Google fetches.
 */
function mediaPart(block: MediaBlock): Json {
  switch (block.type) {
    case 'image':
      return fromUrl(block.url, 'image/jpeg')
    case 'video':
      return fromUrl(block.url, 'video/mp4')
    case 'audio':
      return inline(soundType(block.format.toLowerCase()), block.data)
    case 'file':
      return filePart(block.file)
  }
}

/** Google's names of the chat API's audio formats. */
const AUDIO: Record<string, string> = {
  pcm16: 'audio/pcm',
  pcm24: 'audio/pcm',
  mpeg: 'audio/mp3',
  mpga: 'audio/mp3',
}

const soundType = (format: string): string => own(AUDIO, format) ?? `audio/${format}`

/** The media type by file extension, if nothing else states it. */
const BY_ENDING: Record<string, string> = {
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

const UNKNOWN = 'application/octet-stream'

function filePart({
  filename = '',
  file_data,
  file_id,
}: Extract<Block, { type: 'file' }>['file']): Json {
  if (file_data === undefined && file_id === undefined)
    throw invalid('file: expected file_data or file_id, found neither', 'file')
  return fromUrl(file_data ?? file_id ?? '', byEnding(filename) ?? 'application/pdf')
}

// YouTube videos and files of the Files API or Cloud Storage. Google fetches everything that is not
// a data URL by now.
function fromUrl(url: string, otherwise: string): Json {
  if (!isDataUrl(url))
    return { fileData: { mimeType: byEnding(pathOf(url)) ?? otherwise, fileUri: url } }
  const { media_type, data } = dataUrl(url)
  return inline(media_type === UNKNOWN ? otherwise : media_type, data)
}

const inline = (mimeType: string, data: string): Json => ({ inlineData: { mimeType, data } })

const pathOf = (url: string): string => (URL.canParse(url) ? new URL(url).pathname : url)

const byEnding = (name: string): string | undefined =>
  own(BY_ENDING, name.slice(name.lastIndexOf('.') + 1).toLowerCase())

/** Marks reasoning entries that only Google accepts back. */
export const FORMAT = 'google-gemini-v1'

/**
 * Returns the id that ties a signature to an image or audio of a message, since those have no ids.
 * The first is 0.
 */
export const mediaId = (at: number): string => `media_${at}`

/**
 * What Google sent with an earlier answer and requires back on the same part: signatures, signed
 * thoughts, and tools that it ran itself. See ai.google.dev/gemini-api/docs/thought-signatures.
 */
class Signatures {
  /**
   * The parts at the start of the message: signed thoughts, and tools that Google ran itself with
   * their results.
   */
  readonly opening: Json[] = []
  readonly #byId = new Map<string, string>()
  readonly #ofTexts: string[] = []

  constructor(blocks: Block[]) {
    const details = blocks.flatMap(block =>
      block.type === 'reasoning' ? ownDetails(block.details, [FORMAT]) : [],
    )
    for (const detail of details)
      if (detail.type === 'reasoning.encrypted') this.#addSignature(detail)
    for (const detail of details) this.#addOpening(detail)
  }

  /** Returns the signature of the call, image or audio with this id. */
  of(id: string): string | undefined {
    return this.#byId.get(id)
  }

  /** The signatures of texts, in order. */
  get ofTexts(): readonly string[] {
    return this.#ofTexts
  }

  #addSignature({ id, data }: ReasoningDetail): void {
    if (typeof data !== 'string' || data === '') return
    if (typeof id === 'string' && id !== '') this.#byId.set(id, data)
    else this.#ofTexts.push(data)
  }

  // Thoughts without a signature are for people. Google does not require them.
  #addOpening(detail: ReasoningDetail): void {
    const { type, signature } = detail
    if (type === 'reasoning.text' && typeof signature === 'string' && signature !== '')
      this.opening.push({
        text: text(detail.text) ?? '',
        thought: true,
        thoughtSignature: signature,
      })
    if (type === 'reasoning.server_tool_call') this.opening.push(...this.#serverCall(detail))
  }

  #serverCall({ tool_name, tool_call_id, arguments: input, result }: ReasoningDetail): Json[] {
    const given = parseObject(text(input) ?? '') ?? {}
    const outcome = parseObject(text(result) ?? '')
    const id = text(tool_call_id) ?? ''
    const signature = this.#byId.get(id)
    const signed = signature === undefined ? {} : { thoughtSignature: signature }
    if (tool_name === 'code_execution')
      return [
        { executableCode: given, ...signed },
        ...(outcome ? [{ codeExecutionResult: outcome }] : []),
      ]
    const call = { toolCall: { toolType: tool_name, args: given, id }, ...signed }
    return outcome ? [call, { toolResponse: { toolType: tool_name, response: outcome, id } }] : []
  }
}

/** Google's documented placeholder for a signature that the client has lost. */
const LOST_SIGNATURE = 'skip_thought_signature_validator'

/** The names that Google accepts for functions (`FunctionDeclaration.name`). */
const RULES: NameRules = { forbidden: /[^A-Za-z0-9_.-]/g, badStart: /^[^A-Za-z_]/, longest: 64 }

/** Creates the mapping between the call's tool names and the names sent upstream. */
export const namesOf = (call: TextCall): ToolNames => new ToolNames(call, RULES)
