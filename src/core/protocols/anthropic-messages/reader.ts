import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, member, objects, own, parseObject, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { FinishReason, TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { unreadable } from '../failure.ts'
import { answeredBy } from '../json-answer.ts'
import { isNative } from '../native.ts'
import type { Frame, Reader } from '../protocol.ts'
import { Garbage, isWebAddress, MOST_CALLS, MOST_HELD, MOST_OPEN, urlCitation } from '../reader.ts'
import { ownId, type ToolNames } from '../tools.ts'
import { failureInside } from './failure.ts'
import { NATIVE, namesOf, REASONING_FORMAT } from './messages.ts'
import { answerToolOf } from './request.ts'
import { merged, usageOf } from './usage.ts'

/**
 * Returns the parts of a whole message. It is read like a stream whose first event contains
 * everything.
 */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadable()
  if (isObject(body.error)) throw failureInside(body.error)
  if (!Array.isArray(body.content)) throw unreadable()
  return answeredBy(answerToolOf(call, endpoint), new MessageReader(call).message(body))
}

/** A content block that has started. `block` numbers the blocks over the whole answer. */
type Open = { block: number } & (
  | { type: 'text'; start: number }
  | { type: 'thinking' }
  /** `initialInput` is the input in the start event, for a call whose input is not streamed. */
  | { type: 'tool'; index: number; whole: string; told: boolean }
  | { type: 'other'; value: Json; input: string; content: string | null }
  | { type: 'ignored' }
)
type OpenOf<Type> = Extract<Open, { type: Type }>

/** Fields of a message besides its content, passed on to clients that speak this dialect. */
const BESIDES = [
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
export class MessageReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  #open = new Map<number, Open>()
  #parts: TextPart[] = []
  #blocks = 0
  #calls = 0
  /** The length of the text emitted so far, in characters. */
  #said = 0
  #usage: Json = {}
  #stop: { reason: string | null; sequence: string | null } = { reason: null, sequence: null }
  #besides: Record<string, unknown> = {}
  #started = false
  #id: string | null = null
  readonly #garbage = new Garbage()

  constructor(call: TextCall) {
    this.#call = call
    this.#names = namesOf(call)
  }

  read({ data }: Frame): TextPart[] {
    if (this.complete) return []
    const event = parseObject(data)
    if (event === undefined) this.#garbage.pass()
    else this.#event(event)
    return this.#taken()
  }

  /** Returns the parts of a whole message. */
  message(message: Json): TextPart[] {
    this.#start(message)
    this.#count(message.usage)
    this.#end()
    return this.#taken()
  }

  #taken(): TextPart[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  // Unknown event types are to be ignored ("Versioning").
  #event(event: Json): void {
    switch (event.type) {
      case 'message_start':
        this.#messageStart(member(event, 'message'))
        break
      case 'content_block_start':
        this.#openBlock(numberOf(event), member(event, 'content_block'))
        break
      case 'content_block_delta':
        this.#delta(this.#open.get(numberOf(event)), member(event, 'delta'))
        break
      case 'content_block_stop':
        this.#closeBlock(numberOf(event))
        break
      case 'message_delta':
        this.#messageDelta(event)
        break
      case 'message_stop':
        this.#end()
        break
      case 'error':
        throw failureInside(event.error)
    }
  }

  // The start event reports the input tokens; the answer's counts follow later. `iterations` is
  // known only at the end.
  #messageStart(message: Json): void {
    if (this.#isAnother(message)) throw unreadable()
    if (this.#started) return
    this.#start(message)
    this.#count({ ...member(message, 'usage'), iterations: null })
  }

  // A relay may repeat the start event. Events of another message do not belong to this answer, and
  // its end does not end it.
  #isAnother({ id }: Json): boolean {
    const given = text(id)
    return given !== null && this.#id !== null && given !== this.#id
  }

  #start(message: Json): void {
    this.#started = true
    this.#id = text(message.id)
    const usage = member(message, 'usage')
    this.#parts.push({
      type: 'start',
      upstream_id: this.#id,
      system_fingerprint: null,
      service_tier: text(usage.service_tier) ?? text(message.service_tier),
    })
    this.#stopped(message)
    this.#beside(message)
    // Deferred calls arrive with the start of the message that continues them.
    for (const block of objects(message.content)) {
      this.#openBlock(WHOLE, block)
      this.#closeBlock(WHOLE)
    }
  }

  #openBlock(at: number, given: Json): void {
    this.#closeBlock(at)
    if (this.#open.size >= MOST_OPEN) throw unreadable()
    const block = this.#blocks++
    this.#open.set(at, this.#opened(block, given))
  }

  #opened(block: number, given: Json): Open {
    switch (given.type) {
      case 'text':
        return this.#openText(block, given)
      case 'thinking':
        return this.#openThinking(block, given)
      case 'redacted_thinking':
        return this.#redacted(block, given)
      case 'tool_use':
        return this.#openTool(block, given)
      default:
        return { block, type: 'other', value: given, input: '', content: null }
    }
  }

  #openText(block: number, given: Json): Open {
    const open: OpenOf<'text'> = { block, type: 'text', start: this.#said }
    this.#say(block, text(given.text) ?? '')
    for (const citation of objects(given.citations)) this.#citation(open, citation)
    return open
  }

  #openThinking(block: number, given: Json): Open {
    const thought = text(given.thinking) ?? ''
    const signature = text(given.signature) ?? ''
    if (thought || signature) this.#thought(block, thought, signature ? { signature } : {})
    return { block, type: 'thinking' }
  }

  #redacted(block: number, { data }: Json): Open {
    const detail = {
      type: 'reasoning.encrypted',
      data: text(data) ?? '',
      format: REASONING_FORMAT,
      index: block,
    }
    this.#parts.push({ type: 'reasoning-delta', choice, text: '', details: [detail] })
    return { block, type: 'ignored' }
  }

  #openTool(block: number, { type: _, id, name, input, ...extra }: Json): Open {
    // Serialized as a stream would send it, whatever JSON it is: a model may well emit a quoted
    // object.
    const whole = JSON.stringify(input == null || input === '' ? {} : input)
    if (this.#calls >= MOST_CALLS) return { block, type: 'ignored' }
    const index = this.#calls++
    this.#parts.push({
      type: 'tool-call-start',
      choice,
      index,
      id: text(id) || ownId(this.#call, index, 'toolu'),
      name: this.#names.given(text(name) ?? ''),
      ...(Object.keys(extra).length > 0 ? { extra } : {}),
    })
    return { block, type: 'tool', index, whole, told: false }
  }

  #delta(open: Open | undefined, delta: Json): void {
    switch (open?.type) {
      case 'text':
        this.#textDelta(open, delta)
        break
      case 'thinking':
        this.#thinkingDelta(open, delta)
        break
      case 'other':
        this.#otherDelta(open, delta)
        break
      case 'tool':
        if (delta.type === 'input_json_delta') this.#input(open, text(delta.partial_json) ?? '')
        break
    }
  }

  #textDelta(open: OpenOf<'text'>, delta: Json): void {
    if (delta.type === 'text_delta') this.#say(open.block, text(delta.text) ?? '')
    if (delta.type === 'citations_delta') this.#citation(open, member(delta, 'citation'))
  }

  // A signature may arrive alone: thinking that is not shown is signed all the same.
  #thinkingDelta({ block }: OpenOf<'thinking'>, delta: Json): void {
    const thought = delta.type === 'thinking_delta' ? text(delta.thinking) : null
    const signature = delta.type === 'signature_delta' ? text(delta.signature) : null
    if (thought) this.#thought(block, thought, {})
    if (signature) this.#thought(block, '', { signature })
  }

  #otherDelta(
    open: OpenOf<'other'>,
    { type, partial_json, content, encrypted_content }: Json,
  ): void {
    if (type === 'input_json_delta') open.input = this.#kept(open.input, text(partial_json) ?? '')
    if (type !== 'compaction_delta') return
    if (typeof content === 'string') open.content = this.#kept(open.content ?? '', content)
    if (typeof encrypted_content === 'string') open.value = { ...open.value, encrypted_content }
  }

  #say(block: number, said: string): void {
    if (said === '') return
    this.#said += said.length
    this.#parts.push({ type: 'text-delta', choice, text: said, block })
  }

  #citation({ block, start }: OpenOf<'text'>, citation: Json): void {
    const place = { start, end: this.#said > start ? this.#said : null }
    this.#parts.push({
      type: 'annotation',
      choice,
      annotation: annotationOf(citation, place),
      citation,
      block,
    })
  }

  #thought(index: number, said: string, signed: { signature?: string }): void {
    const detail: ReasoningDetail = {
      type: 'reasoning.text',
      text: said,
      ...signed,
      format: REASONING_FORMAT,
      index,
    }
    this.#parts.push({ type: 'reasoning-delta', choice, text: said, details: [detail] })
  }

  #input(open: OpenOf<'tool'>, input: string): void {
    if (input === '') return
    open.told = true
    this.#parts.push({ type: 'tool-call-delta', choice, index: open.index, input })
  }

  #kept(known: string, more: string): string {
    if (known.length + more.length > MOST_HELD) throw unreadable()
    return known + more
  }

  #closeBlock(at: number): void {
    const open = this.#open.get(at)
    if (!open) return
    this.#open.delete(at)
    // A block may start with its whole input. If deltas follow, the input at the start was a
    // placeholder.
    if (open.type === 'tool' && !open.told) this.#input(open, open.whole)
    if (open.type === 'other') this.#other(open)
  }

  #other({ block, value, input, content }: OpenOf<'other'>): void {
    const whole: Json = { ...value }
    if (input !== '') whole.input = parseObject(input) ?? {}
    if (content !== null) whole.content = content
    // Other dialects have no form for a summary of the conversation, but the model continues from
    // it. It is emitted as text.
    if (whole.type === 'compaction' && !isNative(this.#call, NATIVE))
      this.#say(block, text(whole.content) ?? '')
    else this.#parts.push({ type: 'other', choice, dialect: NATIVE, value: whole })
  }

  #messageDelta(event: Json): void {
    const delta = member(event, 'delta')
    this.#stopped(delta)
    this.#beside(delta)
    this.#beside(event)
    this.#count(event.usage)
  }

  #stopped({ stop_reason, stop_sequence }: Json): void {
    if (typeof stop_reason === 'string')
      this.#stop = { reason: stop_reason, sequence: text(stop_sequence) }
  }

  #beside(given: Json): void {
    for (const name of BESIDES) if (given[name] != null) this.#besides[name] = given[name]
  }

  #count(told: unknown): void {
    if (!isObject(told)) return
    this.#usage = merged(this.#usage, told)
    const usage = usageOf(this.#usage)
    if (usage) this.#parts.push({ type: 'usage', usage })
  }

  #end(): void {
    for (const at of [...this.#open.keys()]) this.#closeBlock(at)
    const { reason, sequence } = this.#stop
    this.#parts.push({
      type: 'finish',
      choice,
      reason: finishReason(reason),
      native: reason,
      ...(sequence === null ? {} : { sequence }),
      ...(Object.keys(this.#besides).length > 0 ? { extra: this.#besides } : {}),
    })
    this.complete = true
  }
}

/** The index of a block that arrives whole. */
const WHOLE = -1

const numberOf = ({ index }: Json): number => (typeof index === 'number' ? index : 0)

const REASONS: Record<string, FinishReason> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
  // The provider's own tools paused, or the conversation was compacted. The native reason tells the
  // client that the answer may be continued.
  pause_turn: 'stop',
  compaction: 'stop',
}

/**
 * Returns the finish reason for a `stop_reason`. An unknown one counts as a stop; the native reason
 * stays beside it.
 */
export const finishReason = (native: string | null): FinishReason => own(REASONS, native) ?? 'stop'

/**
 * The range of the cited text within the answer, in characters. The end is null while the text is
 * still being written.
 */
interface Place {
  start: number
  end: number | null
}

/** Returns a citation as the chat API shows it, or null for a citation of a document. */
function annotationOf(citation: Json, { start, end }: Place): unknown {
  const url = text(citation.type === 'search_result_location' ? citation.source : citation.url)
  if (url === null || !isWebAddress(url)) return null
  const place = end === null ? {} : { start_index: start, end_index: end }
  return urlCitation(url, {
    title: text(citation.title),
    content: text(citation.cited_text),
    ...place,
  })
}
