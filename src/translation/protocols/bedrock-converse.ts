import { Base64Pieces } from '../../base/data-url.ts'
import {
  isObject,
  type Json,
  parseCount,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import type { Usage } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { getModelFamily } from './bedrock-converse/capabilities.data.ts'
import { isFailureEvent, readFailure, readStreamFailure } from './bedrock-converse/failure.ts'
import { createToolNames } from './bedrock-converse/messages.ts'
import { buildRequest, findAnswerTool, LACKS } from './bedrock-converse/request.ts'
import { checkCalls } from './calls.ts'
import { unreadableAnswer } from './failure.ts'
import { createJsonAnswerReader, readJsonAnswer } from './json-answer.ts'
import { readExtra } from './native.ts'
import type { Frame, Protocol, Reader } from './protocol.ts'
import {
  isWebAddress,
  MAX_CALLS,
  MAX_HELD,
  MAX_OPEN,
  type OwnEnds,
  readEnd,
  refuseImpossibleCounts,
  toUrlCitation,
} from './reader.ts'
import { buildCallId, type ToolNames } from './tools.ts'

/** Returns the parts of a whole `Converse` answer. Throws the error if the body is one. */
function parseAnswer(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (!isConverseAnswer(body))
    throw typeof body.__type === 'string'
      ? readStreamFailure(body.__type, { message: readString(body.message) })
      : unreadableAnswer()
  return readJsonAnswer(
    findAnswerTool(call, endpoint),
    new ConverseReader(call, endpoint).readMessage(body),
  )
}

const isConverseAnswer = (body: Json): boolean =>
  Array.isArray(readObject(readObject(body, 'output'), 'message').content)

/** A content block with state: a tool call, or data that is emitted only once it is complete. */
type OpenBlock =
  | { type: 'call'; index: number; hasInput: boolean }
  | { type: 'redacted'; data: Base64Pieces }
  | { type: 'image'; format: string; data: Base64Pieces }

const EVENTS = new Set([
  'messageStart',
  'contentBlockStart',
  'contentBlockDelta',
  'contentBlockStop',
  'messageStop',
  'metadata',
])

const choice = 0

/**
 * Reads the events of a `ConverseStream`. Most streams report usage after `messageStop`, some
 * before it, and some never. An answer is complete when both have arrived, or when the connection
 * ends after `messageStop`.
 */
class ConverseReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  readonly #format: string
  readonly #ownEnds: OwnEnds
  readonly #openBlocks = new Map<number, OpenBlock>()
  /** The blocks whose start has come. Those of text have none. */
  readonly #begun = new Set<number>()
  #parts: TextPart[] = []
  #calls = 0
  /** The length of the text emitted so far, in characters. */
  #textLength = 0
  #started = false
  #isStopped = false
  #isCounted = false

  constructor(call: TextCall, endpoint: Endpoint) {
    this.#call = call
    this.#names = createToolNames(call)
    this.#format = getModelFamily(endpoint).reasoning_format
    this.#ownEnds = endpoint.provider.finish_reasons
  }

  read({ event, data, json }: Frame): TextPart[] {
    if (this.complete || event === null) return []
    if (isFailureEvent(event)) throw readStreamFailure(event, parseObject(data))
    // Unknown event types are ignored.
    if (!EVENTS.has(event)) return []
    const payload = json === undefined ? parseObject(data) : json
    if (payload == null) throw unreadableAnswer()
    this.#startAnswer(null)
    this.#readEvent(event, payload)
    this.complete = this.#isStopped && this.#isCounted
    return this.#takeParts()
  }

  end(): TextPart[] {
    this.complete = this.#isStopped
    return []
  }

  /** Returns the parts of a whole answer. */
  readMessage(body: Json): TextPart[] {
    this.#startAnswer(readString(readObject(body, 'serviceTier').type))
    for (const [blockIndex, block] of readObjects(
      readObject(readObject(body, 'output'), 'message').content,
    ).entries())
      this.#readBlock(blockIndex, block)
    this.#finish(body)
    this.#readUsage(body.usage)
    return this.#takeParts()
  }

  #takeParts(): TextPart[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  // An answer has its id only in a header.
  #startAnswer(service_tier: string | null): void {
    if (this.#started) return
    this.#started = true
    this.#parts.push({ type: 'start', upstream_id: null, system_fingerprint: null, service_tier })
  }

  #readEvent(event: string, payload: Json): void {
    if (event === 'metadata') this.#readUsage(payload.usage)
    else if (!this.#isStopped)
      this.#readContentEvent(event, parseCount(payload.contentBlockIndex) ?? 0, payload)
  }

  #readContentEvent(event: string, blockIndex: number, payload: Json): void {
    switch (event) {
      case 'contentBlockStart':
        this.#openBlock(blockIndex, readObject(payload, 'start'))
        break
      case 'contentBlockDelta':
        this.#readDelta(blockIndex, readObject(payload, 'delta'))
        break
      case 'contentBlockStop':
        this.#closeBlock(blockIndex)
        break
      case 'messageStop':
        this.#finish(payload)
        break
    }
  }

  #openBlock(blockIndex: number, { toolUse, image }: Json): void {
    this.#closeBlock(blockIndex)
    this.#begun.add(blockIndex)
    if (isObject(toolUse)) this.#openCall(blockIndex, toolUse)
    if (isObject(image))
      this.#addBlock(blockIndex, {
        type: 'image',
        format: readString(image.format) ?? 'png',
        data: new Base64Pieces(),
      })
  }

  // The client could not answer a tool that the provider runs itself.
  #openCall(blockIndex: number, { toolUseId, name, type }: Json): void {
    if (this.#calls >= MAX_CALLS || type === 'server_tool_use') return
    const index = this.#calls++
    const id = readString(toolUseId) || buildCallId(this.#call, index, 'tooluse')
    this.#parts.push({
      type: 'tool-call-start',
      choice,
      index,
      id,
      name: this.#names.toClient(readString(name) ?? ''),
    })
    this.#addBlock(blockIndex, { type: 'call', index, hasInput: false })
  }

  #addBlock(blockIndex: number, open: OpenBlock): void {
    if (this.#openBlocks.size >= MAX_OPEN) throw unreadableAnswer()
    this.#openBlocks.set(blockIndex, open)
  }

  #readDelta(
    blockIndex: number,
    { text: content, toolUse, reasoningContent, citation, image }: Json,
  ): void {
    if (typeof content === 'string') this.#emitText(blockIndex, content)
    // A call whose start never came has no name.
    if (isObject(toolUse) && !this.#begun.has(blockIndex)) throw unreadableAnswer()
    if (isObject(toolUse))
      this.#emitInput(
        blockIndex,
        typeof toolUse.input === 'string' ? toolUse.input : renderInput(toolUse.input),
      )
    if (isObject(reasoningContent)) this.#readReasoning(blockIndex, reasoningContent)
    if (isObject(citation)) this.#emitCitation(blockIndex, citation, null)
    if (isObject(image)) this.#appendImage(blockIndex, image)
  }

  /** Reads a block of a whole answer, in which text may also stand beside its citations. */
  #readBlock(
    blockIndex: number,
    { text: content, citationsContent, toolUse, reasoningContent, image }: Json,
  ): void {
    if (typeof content === 'string') this.#emitText(blockIndex, content)
    if (isObject(citationsContent)) this.#readCitations(blockIndex, citationsContent)
    if (isObject(reasoningContent))
      this.#readReasoning(blockIndex, {
        ...readObject(reasoningContent, 'reasoningText'),
        ...reasoningContent,
      })
    if (isObject(toolUse)) this.#readToolUse(blockIndex, toolUse)
    if (isObject(image)) this.#readImage(blockIndex, image)
    this.#closeBlock(blockIndex)
  }

  #readToolUse(blockIndex: number, toolUse: Json): void {
    this.#openCall(blockIndex, toolUse)
    this.#emitInput(blockIndex, renderInput(toolUse.input))
  }

  #readImage(blockIndex: number, image: Json): void {
    this.#addBlock(blockIndex, {
      type: 'image',
      format: readString(image.format) ?? 'png',
      data: new Base64Pieces(),
    })
    this.#appendImage(blockIndex, image)
  }

  #emitText(block: number, content: string): void {
    if (content === '') return
    this.#textLength += content.length
    this.#parts.push({ type: 'text-delta', choice, text: content, block })
  }

  #readCitations(blockIndex: number, { content, citations }: Json): void {
    const start = this.#textLength
    for (const piece of readObjects(content))
      this.#emitText(blockIndex, readString(piece.text) ?? '')
    for (const citation of readObjects(citations))
      this.#emitCitation(blockIndex, citation, { start, end: this.#textLength })
  }

  #emitCitation(block: number, value: Json, range: TextRange | null): void {
    const annotation = toAnnotation(value, range)
    const citation = toAnthropicCitation(value)
    if (annotation === null && citation === undefined) return
    this.#parts.push({
      type: 'annotation',
      choice,
      annotation,
      ...(citation ? { citation } : {}),
      block,
    })
  }

  // `redactedReasoning` and `data` are the names in earlier versions of the API.
  #readReasoning(blockIndex: number, value: Json): void {
    const content = readString(value.text) ?? ''
    const signature = readString(value.signature) ?? ''
    const redacted =
      readString(value.redactedContent) ??
      readString(value.data) ??
      readString(readObject(value, 'redactedReasoning').data) ??
      ''
    if (content !== '' || signature !== '') this.#emitThought(blockIndex, content, signature)
    if (redacted !== '') this.#appendRedacted(blockIndex, redacted)
  }

  // A signature may arrive alone: thinking that is not shown is signed all the same.
  #emitThought(index: number, content: string, signature: string): void {
    const signed = signature === '' ? {} : { signature }
    const detail: ReasoningDetail = {
      type: 'reasoning.text',
      text: content,
      ...signed,
      format: this.#format,
      index,
    }
    this.#parts.push({ type: 'reasoning-delta', choice, text: content, details: [detail] })
  }

  #appendRedacted(blockIndex: number, data: string): void {
    if (this.#openBlocks.get(blockIndex)?.type !== 'redacted')
      this.#addBlock(blockIndex, { type: 'redacted', data: new Base64Pieces() })
    this.#appendData(blockIndex, data)
  }

  #appendImage(blockIndex: number, image: Json): void {
    if (this.#openBlocks.get(blockIndex)?.type === 'image')
      this.#appendData(blockIndex, readString(readObject(image, 'source').bytes) ?? '')
  }

  #appendData(blockIndex: number, data: string): void {
    const open = this.#openBlocks.get(blockIndex)
    if (open?.type !== 'redacted' && open?.type !== 'image') return
    if (open.data.length + data.length > MAX_HELD) throw unreadableAnswer()
    open.data.add(data)
  }

  #emitInput(blockIndex: number, input: string): void {
    const open = this.#openBlocks.get(blockIndex)
    if (open?.type !== 'call' || input === '') return
    open.hasInput = true
    this.#parts.push({ type: 'tool-call-delta', choice, index: open.index, input })
  }

  #closeBlock(blockIndex: number): void {
    const open = this.#openBlocks.get(blockIndex)
    if (!open) return
    // A tool call without arguments has none in the stream either.
    if (open.type === 'call' && !open.hasInput) this.#emitInput(blockIndex, '{}')
    if (open.type === 'redacted') this.#emitEncrypted(blockIndex, open.data.join())
    if (open.type === 'image' && open.data.length > 0)
      this.#parts.push({
        type: 'image',
        choice,
        url: `data:image/${open.format};base64,${open.data.join()}`,
      })
    this.#openBlocks.delete(blockIndex)
  }

  #emitEncrypted(index: number, data: string): void {
    const detail = { type: 'reasoning.encrypted', data, format: this.#format, index }
    this.#parts.push({ type: 'reasoning-delta', choice, text: '', details: [detail] })
  }

  #finish(payload: Json): void {
    for (const blockIndex of [...this.#openBlocks.keys()]) this.#closeBlock(blockIndex)
    const native = readString(payload.stopReason)
    const sequence = readStopSequence(readObject(payload, 'additionalModelResponseFields'))
    this.#parts.push({
      type: 'finish',
      choice,
      ...(readEnd(native, this.#ownEnds) ?? { reason: 'stop' }),
      native,
      ...(sequence === null ? {} : { sequence }),
    })
    this.#isStopped = true
  }

  #readUsage(payload: unknown): void {
    const usage = readUsage(payload)
    if (!usage) return
    this.#isCounted = true
    this.#parts.push({ type: 'usage', usage })
  }
}

// Claude's stop sequence, which the request asked for: in a whole answer, or in the last event of a
// stream.
const readStopSequence = (fields: Json): string | null =>
  readString(fields.stop_sequence) ?? readString(readObject(fields, 'delta').stop_sequence)

// Serialized as a stream would send it, whatever JSON it is: a model may well emit a quoted object.
const renderInput = (input: unknown): string =>
  input == null || input === '' ? '' : JSON.stringify(input)

/**
 * Amazon Bedrock's Converse: `POST {base_url}/model/{model}/converse`, one API for the models of
 * many vendors.
 */
export const bedrockConverse: Protocol<'text'> = checkCalls({
  framing: 'aws-event-stream',
  acceptsNames: false,
  urlMedia: [],
  lacks: LACKS,
  pickExtra: call => readExtra(call),
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) =>
    createJsonAnswerReader(findAnswerTool(call, endpoint), new ConverseReader(call, endpoint)),
  readFailure,
})

/**
 * Returns a Converse `TokenUsage` in disjoint classes. `inputTokens` includes neither cache reads
 * nor cache writes. Undefined without counts.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json): Usage | undefined {
  const text = parseCount(usage.inputTokens)
  const output = parseCount(usage.outputTokens)
  if (text === undefined || output === undefined) return undefined
  return {
    input: {
      text,
      cache_read: parseCount(usage.cacheReadInputTokens) ?? 0,
      ...readCacheWrites(usage),
      audio: 0,
      video: 0,
    },
    output: { text: output, reasoning: 0, audio: 0, image: 0 },
    prediction: null,
  }
}

/**
 * Returns the tokens written to the cache. `cacheDetails` breaks them down by time to live (API
 * reference, CacheDetail).
 */
function readCacheWrites({
  cacheWriteInputTokens,
  cacheDetails,
}: Json): Pick<Usage['input'], 'cache_write' | 'cache_write_1h'> {
  const written = parseCount(cacheWriteInputTokens) ?? 0
  const hours = readObjects(cacheDetails).filter(detail => detail.ttl === '1h')
  const hourTokens = hours.reduce((sum, detail) => sum + (parseCount(detail.inputTokens) ?? 0), 0)
  const cache_write_1h = Math.min(hourTokens, written)
  return { cache_write: written - cache_write_1h, cache_write_1h }
}

/** The range of the answer's text that a source supports, in characters. */
interface TextRange {
  start: number
  end: number
}

/**
 * Returns a citation as the chat API shows it, without a range while the text is still being
 * written. Null for a location in a document, which has no address.
 */
function toAnnotation(citation: Json, range: TextRange | null): unknown {
  const url =
    readString(readObject(readObject(citation, 'location'), 'web').url) ??
    readString(citation.source)
  if (url === null || !isWebAddress(url)) return null
  const details = { title: readString(citation.title), content: joinCitedText(citation) || null }
  return toUrlCitation(url, { ...details, start_index: range?.start, end_index: range?.end })
}

/**
 * Bedrock's names of locations in documents, and the types and bounds that Anthropic's citations
 * use for them.
 */
const LOCATION_TYPES: [name: string, type: string, first: string, last: string][] = [
  ['documentChar', 'char_location', 'start_char_index', 'end_char_index'],
  ['documentPage', 'page_location', 'start_page_number', 'end_page_number'],
  ['documentChunk', 'content_block_location', 'start_block_index', 'end_block_index'],
]

/**
 * Returns a citation as Anthropic's API shows it, for clients of that dialect. Undefined for a
 * location that it has no form for.
 */
function toAnthropicCitation(citation: Json): Json | undefined {
  const location = readObject(citation, 'location')
  const cited_text = joinCitedText(citation)
  const locationType = LOCATION_TYPES.find(([name]) => isObject(location[name]))
  if (locationType)
    return toAnthropicLocation(
      readObject(location, locationType[0]),
      locationType,
      cited_text,
      readString(citation.title),
    )
  const url = readString(readObject(location, 'web').url)
  if (url === null) return undefined
  // Bedrock has no proof of it that could go back: an empty index says so.
  const unproven = { type: 'web_search_result_location', encrypted_index: '' }
  return { ...unproven, cited_text, url, title: readString(citation.title) }
}

function toAnthropicLocation(
  { documentIndex, start, end }: Json,
  [, type, first, last]: (typeof LOCATION_TYPES)[number],
  cited_text: string,
  title: string | null,
) {
  return {
    type,
    cited_text,
    document_index: documentIndex,
    document_title: title,
    [first]: start,
    [last]: end,
  }
}

const joinCitedText = ({ sourceContent }: Json): string =>
  readObjects(sourceContent)
    .map(piece => readString(piece.text) ?? '')
    .join('')
