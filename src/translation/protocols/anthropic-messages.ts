import type { GatewayError } from '../../base/errors.ts'
import {
  getOwn,
  isObject,
  type Json,
  parseCount,
  parseObject,
  parsePartCount,
  readObject,
  readObjects,
  readString,
} from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { readUnits, type Usage } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import {
  createToolNames,
  getReasoningFormat,
  NATIVE,
  VENDORS,
} from './anthropic-messages/messages.ts'
import {
  buildRequest,
  buildVertexRequest,
  findAnswerTool,
  LACKS,
  pickExtra,
} from './anthropic-messages/request.ts'
import { supportsWebSearch } from './anthropic-messages/tools.ts'
import { checkCalls } from './calls.ts'
import { readOwnStatus, readProviderError, translateFailure, unreadableAnswer } from './failure.ts'
import { createJsonAnswerReader, readJsonAnswer } from './json-answer.ts'
import { isNative } from './native.ts'
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
  UnreadableEvents,
} from './reader.ts'
import { buildCallId, type ToolNames } from './tools.ts'

/** Anthropic messages: `POST {base_url}/messages`, at Anthropic and compatible providers. */
export const anthropicMessages: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  urlMedia: ['image', 'file'],
  nativeDialect: 'messages',
  hasFunctionsAlone: ({ provider: { slug } }) => VENDORS.has(slug),
  supportsWebSearch,
  lacks: LACKS,
  pickExtra,
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) =>
    createJsonAnswerReader(findAnswerTool(call, endpoint), new MessageReader(call, endpoint)),
  readFailure,
})

/** The same on Google's Vertex AI, which does not fetch media by URL. */
export const anthropicVertex: Protocol<'text'> = {
  ...anthropicMessages,
  urlMedia: [],
  buildRequest: buildVertexRequest,
}

/** The most sources of one answer: all of a whole answer are read in one turn. */
const MAX_CITATIONS = 16 * 1024

/**
 * Returns the parts of a whole message. It is read like a stream whose first event contains
 * everything.
 */
export function parseAnswer(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (isObject(body.error)) throw readStreamFailure(body.error)
  if (!Array.isArray(body.content)) throw unreadableAnswer()
  const reader = new MessageReader(call, endpoint)
  return readJsonAnswer(findAnswerTool(call, endpoint), reader.readMessage(body))
}

/** A content block that has started. `block` numbers the blocks over the whole answer. */
type OpenBlock = { block: number } & (
  | { type: 'text'; start: number }
  | { type: 'thinking' }
  /** `initialInput` is the input in the start event, for a call whose input is not streamed. */
  | { type: 'tool'; index: number; initialInput: string; hasInput: boolean }
  | { type: 'other'; value: Json; input: string; content: string | null }
  | { type: 'ignored' }
)

type OpenBlockOf<Type> = Extract<OpenBlock, { type: Type }>

/** Fields of a message besides its content, passed on to clients that speak this dialect. */
const MESSAGE_EXTRAS = [
  'container',
  'context_management',
  'stop_details',
  'safeguard_results',
  'input_transformations',
]

const choice = 0

/**
 * Reads the events of a message stream (Anthropic, "Streaming messages"), with one small method for
 * each kind of event and block.
 */
class MessageReader implements Reader<TextPart> {
  #citations = 0
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  /** The format of its thinking. */
  readonly #format: string
  readonly #ownEnds: OwnEnds | undefined
  #openBlocks = new Map<number, OpenBlock>()
  #parts: TextPart[] = []
  #blocks = 0
  #calls = 0
  /** The length of the text emitted so far, in characters. */
  #textLength = 0
  #usage: Json = {}
  #stop: { reason: string | null; sequence: string | null } = { reason: null, sequence: null }
  #extras: Record<string, unknown> = {}
  #started = false
  #id: string | null = null
  readonly #garbage = new UnreadableEvents()

  constructor(call: TextCall, endpoint: Endpoint) {
    this.#call = call
    this.#format = getReasoningFormat(endpoint)
    this.#ownEnds = endpoint.provider.finish_reasons
    this.#names = createToolNames(call)
  }

  read({ data, json }: Frame): TextPart[] {
    if (this.complete) return []
    const event = json === undefined ? parseObject(data) : json
    if (event == null) this.#garbage.skip()
    else this.#readEvent(event)
    return this.#takeParts()
  }

  /** Returns the parts of a whole message. */
  readMessage(message: Json): TextPart[] {
    this.#startAnswer(message)
    this.#readUsage(message.usage)
    this.#finish()
    return this.#takeParts()
  }

  #takeParts(): TextPart[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  // Unknown event types are to be ignored ("Versioning").
  #readEvent(event: Json): void {
    switch (event.type) {
      case 'message_start':
        this.#readMessageStart(readObject(event, 'message'))
        break
      case 'content_block_start':
        this.#openBlock(readBlockIndex(event), readObject(event, 'content_block'))
        break
      case 'content_block_delta':
        this.#readBlockDelta(readBlockIndex(event), readObject(event, 'delta'))
        break
      case 'content_block_stop':
        this.#closeBlock(readBlockIndex(event))
        break
      case 'message_delta':
        this.#readMessageDelta(event)
        break
      case 'message_stop':
        this.#finish()
        break
      case 'error':
        throw readStreamFailure(event.error)
    }
  }

  // The start event reports the input tokens; the answer's counts follow later. `iterations` is
  // known only at the end.
  #readMessageStart(message: Json): void {
    if (this.#isOtherMessage(message)) throw unreadableAnswer()
    if (this.#started) return
    this.#startAnswer(message)
    this.#readUsage({ ...readObject(message, 'usage'), iterations: null })
  }

  // A relay may repeat the start event. Events of another message do not belong to this answer, and
  // its end does not end it.
  #isOtherMessage({ id }: Json): boolean {
    const value = readString(id)
    return value !== null && this.#id !== null && value !== this.#id
  }

  #startAnswer(message: Json): void {
    this.#started = true
    this.#id = readString(message.id)
    const usage = readObject(message, 'usage')
    this.#parts.push({
      type: 'start',
      upstream_id: this.#id,
      system_fingerprint: null,
      service_tier: readString(usage.service_tier) ?? readString(message.service_tier),
    })
    this.#readStop(message)
    this.#readExtras(message)
    // Deferred calls arrive with the start of the message that continues them.
    for (const block of readObjects(message.content)) {
      this.#openBlock(WHOLE_BLOCK, block)
      this.#closeBlock(WHOLE_BLOCK)
    }
  }

  #openBlock(index: number, value: Json): void {
    this.#closeBlock(index)
    if (this.#openBlocks.size >= MAX_OPEN) throw unreadableAnswer()
    const block = this.#blocks++
    this.#openBlocks.set(index, this.#createBlock(block, value))
  }

  #createBlock(block: number, value: Json): OpenBlock {
    switch (value.type) {
      case 'text':
        return this.#openText(block, value)
      case 'thinking':
        return this.#openThinking(block, value)
      case 'redacted_thinking':
        return this.#openRedacted(block, value)
      case 'tool_use':
        return this.#openTool(block, value)
      default:
        return { block, type: 'other', value, input: '', content: null }
    }
  }

  #openText(block: number, value: Json): OpenBlock {
    const open: OpenBlockOf<'text'> = { block, type: 'text', start: this.#textLength }
    this.#emitText(block, readString(value.text) ?? '')
    for (const citation of readObjects(value.citations)) this.#emitCitation(open, citation)
    return open
  }

  #openThinking(block: number, value: Json): OpenBlock {
    const thought = readString(value.thinking) ?? ''
    const signature = readString(value.signature) ?? ''
    if (thought || signature) this.#emitThought(block, thought, signature ? { signature } : {})
    return { block, type: 'thinking' }
  }

  #openRedacted(block: number, { data }: Json): OpenBlock {
    const detail = {
      type: 'reasoning.encrypted',
      data: readString(data) ?? '',
      format: this.#format,
      index: block,
    }
    this.#parts.push({ type: 'reasoning-delta', choice, text: '', details: [detail] })
    return { block, type: 'ignored' }
  }

  #openTool(block: number, { type: _, id, name, input, ...extra }: Json): OpenBlock {
    // Serialized as a stream would send it, whatever JSON it is: a model may well emit a quoted
    // object.
    const initialInput = JSON.stringify(input == null || input === '' ? {} : input)
    if (this.#calls >= MAX_CALLS) return { block, type: 'ignored' }
    const index = this.#calls++
    this.#parts.push({
      type: 'tool-call-start',
      choice,
      index,
      id: readString(id) || buildCallId(this.#call, index, 'toolu'),
      name: this.#names.toClient(readString(name) ?? ''),
      ...(Object.keys(extra).length > 0 ? { extra } : {}),
    })
    return { block, type: 'tool', index, initialInput, hasInput: false }
  }

  // A relay may leave out the start of a block. A call without its start has no name.
  #readBlockDelta(index: number, delta: Json): void {
    if (!this.#openBlocks.has(index)) {
      const value = getOwn(LOST_STARTS, delta.type)
      if (!value) {
        if (delta.type === 'input_json_delta') throw unreadableAnswer()
        return
      }
      this.#openBlock(index, value)
    }
    this.#readDelta(this.#openBlocks.get(index), delta)
  }

  #readDelta(open: OpenBlock | undefined, delta: Json): void {
    switch (open?.type) {
      case 'text':
        this.#readTextDelta(open, delta)
        break
      case 'thinking':
        this.#readThinkingDelta(open, delta)
        break
      case 'other':
        this.#readOtherDelta(open, delta)
        break
      case 'tool':
        if (delta.type === 'input_json_delta')
          this.#emitInput(open, readString(delta.partial_json) ?? '')
        break
    }
  }

  #readTextDelta(open: OpenBlockOf<'text'>, delta: Json): void {
    if (delta.type === 'text_delta') this.#emitText(open.block, readString(delta.text) ?? '')
    if (delta.type === 'citations_delta') this.#emitCitation(open, readObject(delta, 'citation'))
  }

  // A signature may arrive alone: thinking that is not shown is signed all the same.
  #readThinkingDelta({ block }: OpenBlockOf<'thinking'>, delta: Json): void {
    const thought = delta.type === 'thinking_delta' ? readString(delta.thinking) : null
    const signature = delta.type === 'signature_delta' ? readString(delta.signature) : null
    if (thought) this.#emitThought(block, thought, {})
    if (signature) this.#emitThought(block, '', { signature })
  }

  #readOtherDelta(
    open: OpenBlockOf<'other'>,
    { type, partial_json, content, encrypted_content }: Json,
  ): void {
    if (type === 'input_json_delta')
      open.input = this.#append(open.input, readString(partial_json) ?? '')
    if (type !== 'compaction_delta') return
    if (typeof content === 'string') open.content = this.#append(open.content ?? '', content)
    if (typeof encrypted_content === 'string') open.value = { ...open.value, encrypted_content }
  }

  #emitText(block: number, content: string): void {
    if (content === '') return
    this.#textLength += content.length
    this.#parts.push({ type: 'text-delta', choice, text: content, block })
  }

  #emitCitation({ block, start }: OpenBlockOf<'text'>, citation: Json): void {
    if (++this.#citations > MAX_CITATIONS) throw unreadableAnswer()
    const range = { start, end: this.#textLength > start ? this.#textLength : null }
    this.#parts.push({
      type: 'annotation',
      choice,
      annotation: toAnnotation(citation, range),
      citation,
      block,
    })
  }

  #emitThought(index: number, content: string, signed: { signature?: string }): void {
    const detail: ReasoningDetail = {
      type: 'reasoning.text',
      text: content,
      ...signed,
      format: this.#format,
      index,
    }
    this.#parts.push({ type: 'reasoning-delta', choice, text: content, details: [detail] })
  }

  #emitInput(open: OpenBlockOf<'tool'>, input: string): void {
    if (input === '') return
    open.hasInput = true
    this.#parts.push({ type: 'tool-call-delta', choice, index: open.index, input })
  }

  #append(known: string, more: string): string {
    if (known.length + more.length > MAX_HELD) throw unreadableAnswer()
    return known + more
  }

  #closeBlock(index: number): void {
    const open = this.#openBlocks.get(index)
    if (!open) return
    this.#openBlocks.delete(index)
    // A block may start with its whole input. If deltas follow, the input at the start was a
    // placeholder.
    if (open.type === 'tool' && !open.hasInput) this.#emitInput(open, open.initialInput)
    if (open.type === 'other') this.#emitOther(open)
  }

  #emitOther({ block, value, input, content }: OpenBlockOf<'other'>): void {
    const whole: Json = { ...value }
    if (input !== '') whole.input = parseObject(input) ?? {}
    if (content !== null) whole.content = content
    // Other dialects have no form for a summary of the conversation, but the model continues from
    // it. It is emitted as text.
    if (whole.type === 'compaction' && !isNative(this.#call, NATIVE))
      this.#emitText(block, readString(whole.content) ?? '')
    else this.#parts.push({ type: 'other', choice, dialect: NATIVE, value: whole })
  }

  #readMessageDelta(event: Json): void {
    const delta = readObject(event, 'delta')
    this.#readStop(delta)
    this.#readExtras(delta)
    this.#readExtras(event)
    this.#readUsage(event.usage)
  }

  #readStop({ stop_reason, stop_sequence }: Json): void {
    if (typeof stop_reason === 'string')
      this.#stop = { reason: stop_reason, sequence: readString(stop_sequence) }
  }

  #readExtras(value: Json): void {
    for (const name of MESSAGE_EXTRAS) if (value[name] != null) this.#extras[name] = value[name]
  }

  #readUsage(report: unknown): void {
    if (!isObject(report)) return
    this.#usage = mergeUsage(this.#usage, report)
    const usage = readUsage(this.#usage)
    if (usage) this.#parts.push({ type: 'usage', usage })
  }

  #finish(): void {
    for (const index of [...this.#openBlocks.keys()]) this.#closeBlock(index)
    const { reason, sequence } = this.#stop
    this.#parts.push({
      type: 'finish',
      choice,
      ...(readEnd(reason, this.#ownEnds) ?? { reason: 'stop' }),
      native: reason,
      ...(sequence === null ? {} : { sequence }),
      ...(Object.keys(this.#extras).length > 0 ? { extra: this.#extras } : {}),
    })
    this.complete = true
  }
}

/** The blocks that deltas of each kind belong to, where their start never came. */
const LOST_STARTS: Record<string, Json> = {
  text_delta: { type: 'text', text: '' },
  citations_delta: { type: 'text', text: '' },
  thinking_delta: { type: 'thinking', thinking: '' },
  signature_delta: { type: 'thinking', thinking: '' },
}

/** The index of a block that arrives whole. */
const WHOLE_BLOCK = -1

const readBlockIndex = ({ index }: Json): number => (typeof index === 'number' ? index : 0)

/**
 * The range of the cited text within the answer, in characters. The end is null while the text is
 * still being written.
 */
interface TextRange {
  start: number
  end: number | null
}

/** Returns a citation as the chat API shows it, or null for a citation of a document. */
function toAnnotation(citation: Json, { start, end }: TextRange): unknown {
  const url = readString(
    citation.type === 'search_result_location' ? citation.source : citation.url,
  )
  if (url === null || !isWebAddress(url)) return null
  const range = end === null ? {} : { start_index: start, end_index: end }
  return toUrlCitation(url, {
    title: readString(citation.title),
    content: readString(citation.cited_text),
    ...range,
  })
}

/**
 * Returns an Anthropic usage object in disjoint classes. `input_tokens` includes neither cache
 * reads nor cache writes, and `output_tokens` includes thinking. Undefined if nothing was counted,
 * as relays report it, or if the counts are impossible.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json): Usage | undefined {
  const input = readInput(usage)
  const total = parseCount(readOutputTotal(usage))
  if (total === undefined || (total === 0 && Object.values(input).every(tokens => tokens === 0)))
    return undefined
  const reasoning = parsePartCount(
    total,
    readObject(usage, 'output_tokens_details').thinking_tokens,
  )
  return {
    input,
    output: { text: total - reasoning, reasoning, audio: 0, image: 0 },
    prediction: null,
    ...readUnits({ search: readObject(usage, 'server_tool_use').web_search_requests }),
  }
}

function readInput(usage: Json): Usage['input'] {
  const written = parseCount(usage.cache_creation_input_tokens) ?? 0
  // The one-hour share is reported once, at the start. The sum may still grow.
  const cache_write_1h = parsePartCount(
    written,
    readObject(usage, 'cache_creation').ephemeral_1h_input_tokens,
  )
  return {
    text: readInputTotal(usage),
    cache_read: parseCount(usage.cache_read_input_tokens) ?? 0,
    cache_write: written - cache_write_1h,
    cache_write_1h,
    audio: 0,
    video: 0,
  }
}

const readInputTotal = (usage: Json): number =>
  parseCount(sumRuns(listRuns(usage), 'input_tokens')) ?? parseCount(usage.input_tokens) ?? 0
const readOutputTotal = (usage: Json): number | undefined =>
  parseCount(sumRuns(listRuns(usage), 'output_tokens')) ?? parseCount(usage.output_tokens)

/**
 * Returns the model runs that the totals leave out. After a compaction, the totals describe only
 * the last run. An advisor model is billed apart, and after a fallback to another model, the totals
 * are that model's.
 */
function listRuns({ iterations }: Json): Json[] {
  const runs = readObjects(iterations)
  if (runs.some(run => run.type === 'fallback_message')) return []
  return runs.filter(run => run.type === 'message' || run.type === 'compaction')
}

const sumRuns = (runs: Json[], name: string): number | undefined =>
  runs.length === 0 ? undefined : runs.reduce((sum, run) => sum + (parseCount(run[name]) ?? 0), 0)

/**
 * Merges a later report into the counts so far. Counts are cumulative, and one that is left out has
 * not changed.
 */
export function mergeUsage(known: Json, update: unknown): Json {
  if (!isObject(update)) return known
  return {
    ...known,
    ...Object.fromEntries(
      Object.entries(update).filter(([name, value]) => value != null && USAGE_FIELDS.has(name)),
    ),
  }
}

const USAGE_FIELDS = new Set([
  'input_tokens',
  'output_tokens',
  'output_tokens_details',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'cache_creation',
  'server_tool_use',
  'iterations',
])

/** Returns the error for an HTTP failure. For Vertex, Google answers in its own format. */
export function readFailure(status: number, body: unknown): GatewayError {
  return translateFailure(status, readProviderError(body))
}

/** Returns the error for an `error` event inside a stream, which rarely has a status. */
export function readStreamFailure(error: unknown): GatewayError {
  return translateFailure(readOwnStatus(error), readProviderError(error))
}
