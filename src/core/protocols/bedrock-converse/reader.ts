import type { Endpoint } from '../../catalog/models.ts'
import { joinedBase64 } from '../../kernel/data-url.ts'
import {
  count,
  isObject,
  type Json,
  member,
  objects,
  own,
  parseObject,
  text,
} from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { FinishReason, TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { unreadable } from '../failure.ts'
import { answeredBy } from '../json-answer.ts'
import type { Frame, Reader } from '../protocol.ts'
import { MOST_CALLS, MOST_HELD, MOST_OPEN } from '../reader.ts'
import { ownId, type ToolNames } from '../tools.ts'
import { familyOf } from './capabilities.data.ts'
import { annotationOf, citationOf, type Place } from './citations.ts'
import { failureInside, isFailure } from './failure.ts'
import { namesOf } from './messages.ts'
import { answerToolOf } from './request.ts'
import { usageOf } from './usage.ts'

/** Returns the parts of a whole `Converse` answer. Throws the error if the body is one. */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadable()
  if (!isAnswer(body))
    throw typeof body.__type === 'string'
      ? failureInside(body.__type, { message: text(body.message) })
      : unreadable()
  return answeredBy(answerToolOf(call, endpoint), new ConverseReader(call, endpoint).message(body))
}

const isAnswer = (body: Json): boolean =>
  Array.isArray(member(member(body, 'output'), 'message').content)

/** A content block with state: a tool call, or data that is emitted only once it is complete. */
type Open =
  | { type: 'call'; index: number; told: boolean }
  | { type: 'redacted'; data: string }
  | { type: 'image'; format: string; data: string }

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
export class ConverseReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  readonly #format: string
  readonly #open = new Map<number, Open>()
  #parts: TextPart[] = []
  #calls = 0
  /** The length of the text emitted so far, in characters. */
  #said = 0
  #started = false
  #stopped = false
  #counted = false

  constructor(call: TextCall, endpoint: Endpoint) {
    this.#call = call
    this.#names = namesOf(call)
    this.#format = familyOf(endpoint).reasoning_format
  }

  read({ event, data }: Frame): TextPart[] {
    if (this.complete || event === null) return []
    if (isFailure(event)) throw failureInside(event, parseObject(data))
    // Unknown event types are ignored.
    if (!EVENTS.has(event)) return []
    const told = parseObject(data)
    if (told === undefined) throw unreadable()
    this.#start(null)
    this.#event(event, told)
    this.complete = this.#stopped && this.#counted
    return this.#taken()
  }

  end(): TextPart[] {
    this.complete = this.#stopped
    return []
  }

  /** Returns the parts of a whole answer. */
  message(body: Json): TextPart[] {
    this.#start(text(member(body, 'serviceTier').type))
    for (const [at, block] of objects(member(member(body, 'output'), 'message').content).entries())
      this.#block(at, block)
    this.#stop(body)
    this.#count(body.usage)
    return this.#taken()
  }

  #taken(): TextPart[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  // An answer has its id only in a header.
  #start(service_tier: string | null): void {
    if (this.#started) return
    this.#started = true
    this.#parts.push({ type: 'start', upstream_id: null, system_fingerprint: null, service_tier })
  }

  #event(event: string, told: Json): void {
    if (event === 'metadata') this.#count(told.usage)
    else if (!this.#stopped) this.#content(event, count(told.contentBlockIndex) ?? 0, told)
  }

  #content(event: string, at: number, told: Json): void {
    switch (event) {
      case 'contentBlockStart':
        this.#openBlock(at, member(told, 'start'))
        break
      case 'contentBlockDelta':
        this.#delta(at, member(told, 'delta'))
        break
      case 'contentBlockStop':
        this.#closeBlock(at)
        break
      case 'messageStop':
        this.#stop(told)
        break
    }
  }

  #openBlock(at: number, { toolUse, image }: Json): void {
    this.#closeBlock(at)
    if (isObject(toolUse)) this.#openCall(at, toolUse)
    if (isObject(image))
      this.#hold(at, { type: 'image', format: text(image.format) ?? 'png', data: '' })
  }

  // The client could not answer a tool that the provider runs itself.
  #openCall(at: number, { toolUseId, name, type }: Json): void {
    if (this.#calls >= MOST_CALLS || type === 'server_tool_use') return
    const index = this.#calls++
    const id = text(toolUseId) || ownId(this.#call, index, 'tooluse')
    this.#parts.push({
      type: 'tool-call-start',
      choice,
      index,
      id,
      name: this.#names.given(text(name) ?? ''),
    })
    this.#hold(at, { type: 'call', index, told: false })
  }

  #hold(at: number, open: Open): void {
    if (this.#open.size >= MOST_OPEN) throw unreadable()
    this.#open.set(at, open)
  }

  #delta(at: number, { text: said, toolUse, reasoningContent, citation, image }: Json): void {
    if (typeof said === 'string') this.#say(at, said)
    if (isObject(toolUse))
      this.#input(at, typeof toolUse.input === 'string' ? toolUse.input : wholeInput(toolUse.input))
    if (isObject(reasoningContent)) this.#reasoning(at, reasoningContent)
    if (isObject(citation)) this.#cite(at, citation, null)
    if (isObject(image)) this.#image(at, image)
  }

  /** Reads a block of a whole answer, in which text may also stand beside its citations. */
  #block(
    at: number,
    { text: said, citationsContent, toolUse, reasoningContent, image }: Json,
  ): void {
    if (typeof said === 'string') this.#say(at, said)
    if (isObject(citationsContent)) this.#cited(at, citationsContent)
    if (isObject(reasoningContent))
      this.#reasoning(at, { ...member(reasoningContent, 'reasoningText'), ...reasoningContent })
    if (isObject(toolUse)) this.#wholeCall(at, toolUse)
    if (isObject(image)) this.#wholeImage(at, image)
    this.#closeBlock(at)
  }

  #wholeCall(at: number, toolUse: Json): void {
    this.#openCall(at, toolUse)
    this.#input(at, wholeInput(toolUse.input))
  }

  #wholeImage(at: number, image: Json): void {
    this.#hold(at, { type: 'image', format: text(image.format) ?? 'png', data: '' })
    this.#image(at, image)
  }

  #say(block: number, said: string): void {
    if (said === '') return
    this.#said += said.length
    this.#parts.push({ type: 'text-delta', choice, text: said, block })
  }

  #cited(at: number, { content, citations }: Json): void {
    const start = this.#said
    for (const one of objects(content)) this.#say(at, text(one.text) ?? '')
    for (const citation of objects(citations)) this.#cite(at, citation, { start, end: this.#said })
  }

  #cite(block: number, given: Json, place: Place | null): void {
    const annotation = annotationOf(given, place)
    const citation = citationOf(given)
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
  #reasoning(at: number, given: Json): void {
    const said = text(given.text) ?? ''
    const signature = text(given.signature) ?? ''
    const redacted =
      text(given.redactedContent) ??
      text(given.data) ??
      text(member(given, 'redactedReasoning').data) ??
      ''
    if (said !== '' || signature !== '') this.#thought(at, said, signature)
    if (redacted !== '') this.#redacted(at, redacted)
  }

  // A signature may arrive alone: thinking that is not shown is signed all the same.
  #thought(index: number, said: string, signature: string): void {
    const signed = signature === '' ? {} : { signature }
    const detail: ReasoningDetail = {
      type: 'reasoning.text',
      text: said,
      ...signed,
      format: this.#format,
      index,
    }
    this.#parts.push({ type: 'reasoning-delta', choice, text: said, details: [detail] })
  }

  #redacted(at: number, data: string): void {
    if (this.#open.get(at)?.type !== 'redacted') this.#hold(at, { type: 'redacted', data: '' })
    this.#more(at, data)
  }

  #image(at: number, image: Json): void {
    if (this.#open.get(at)?.type === 'image')
      this.#more(at, text(member(image, 'source').bytes) ?? '')
  }

  #more(at: number, data: string): void {
    const open = this.#open.get(at)
    if (open?.type !== 'redacted' && open?.type !== 'image') return
    if (open.data.length + data.length > MOST_HELD) throw unreadable()
    open.data = joinedBase64(open.data, data)
  }

  #input(at: number, input: string): void {
    const open = this.#open.get(at)
    if (open?.type !== 'call' || input === '') return
    open.told = true
    this.#parts.push({ type: 'tool-call-delta', choice, index: open.index, input })
  }

  #closeBlock(at: number): void {
    const open = this.#open.get(at)
    if (!open) return
    // A tool call without arguments has none in the stream either.
    if (open.type === 'call' && !open.told) this.#input(at, '{}')
    if (open.type === 'redacted') this.#encrypted(at, open.data)
    if (open.type === 'image' && open.data !== '')
      this.#parts.push({
        type: 'image',
        choice,
        url: `data:image/${open.format};base64,${open.data}`,
      })
    this.#open.delete(at)
  }

  #encrypted(index: number, data: string): void {
    const detail = { type: 'reasoning.encrypted', data, format: this.#format, index }
    this.#parts.push({ type: 'reasoning-delta', choice, text: '', details: [detail] })
  }

  #stop(told: Json): void {
    for (const at of [...this.#open.keys()]) this.#closeBlock(at)
    const native = text(told.stopReason)
    const sequence = sequenceOf(member(told, 'additionalModelResponseFields'))
    this.#parts.push({
      type: 'finish',
      choice,
      reason: finishReason(native),
      native,
      ...(sequence === null ? {} : { sequence }),
    })
    this.#stopped = true
  }

  #count(told: unknown): void {
    const usage = usageOf(told)
    if (!usage) return
    this.#counted = true
    this.#parts.push({ type: 'usage', usage })
  }
}

// Claude's stop sequence, which the request asked for: in a whole answer, or in the last event of a
// stream.
const sequenceOf = (fields: Json): string | null =>
  text(fields.stop_sequence) ?? text(member(fields, 'delta').stop_sequence)

// Serialized as a stream would send it, whatever JSON it is: a model may well emit a quoted object.
const wholeInput = (given: unknown): string =>
  given == null || given === '' ? '' : JSON.stringify(given)

const REASONS: Record<string, FinishReason> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  content_filtered: 'content_filter',
  guardrail_intervened: 'content_filter',
  malformed_model_output: 'error',
  malformed_tool_use: 'error',
}

/**
 * Returns the finish reason for a `stopReason`. An unknown one counts as a stop; the native reason
 * stays beside it.
 */
export const finishReason = (native: string | null): FinishReason => own(REASONS, native) ?? 'stop'
