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
import type { FinishReason, Logprobs, TextPart } from '../../language/part.ts'
import { failureOf, unreadable } from '../failure.ts'
import type { Frame, Reader } from '../protocol.ts'
import { Garbage, isWebAddress, MOST_CALLS, urlCitation } from '../reader.ts'
import { inputText, ownId, type ToolNames } from '../tools.ts'
import { namesOf } from './messages.ts'
import { usageOf } from './usage.ts'

/** Returns the parts of a whole answer. Throws the error if the body is one. */
export function parts(body: unknown, call: TextCall): TextPart[] {
  if (!isObject(body)) throw unreadable()
  // The `message` of an error is a string, that of an answer an object.
  if (typeof body.message === 'string')
    throw failureOf(502, { code: undefined, message: body.message })
  if (!isObject(body.message)) throw unreadable()
  return new EventReader(call).whole(body, body.message)
}

interface ToolCall {
  index: number
  id: string | null
  /** Whether any arguments have arrived. */
  begun: boolean
}

/**
 * Reads the events of a stream, one small method for each. The `tool_plan` is not shown: it is not
 * addressed to the user, and Cohere's own clients do not treat it as thinking either.
 */
export class EventReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  /** The open tool calls, by Cohere's index. */
  readonly #open = new Map<unknown, ToolCall>()
  #calls = 0
  readonly #garbage = new Garbage()

  constructor(call: TextCall) {
    this.#call = call
    this.#names = namesOf(call)
  }

  read({ data }: Frame): TextPart[] {
    if (this.complete) return []
    const event = parseObject(data)
    return event ? this.#event(event, member(event, 'delta')) : this.#garbage.pass()
  }

  /** Returns the parts of a whole answer. */
  whole(body: Json, message: Json): TextPart[] {
    const parts = this.#start(body)
    parts.push(...contentsOf(message.content).flatMap(content => this.#content(content)))
    const logprobs = logprobsOf(body.logprobs)
    if (logprobs) parts.push({ type: 'text-delta', choice: 0, text: '', logprobs })
    for (const [i, call] of objects(message.tool_calls).entries())
      parts.push(...this.#callStart(i, call), ...this.#callEnd(i))
    for (const citation of objects(message.citations)) parts.push(...this.#citation(citation))
    return [...parts, ...this.#end(body)]
  }

  #event(event: Json, delta: Json): TextPart[] {
    const message = member(delta, 'message')
    switch (event.type) {
      case 'message-start':
        return this.#start(event)
      case 'content-start':
      case 'content-delta':
        return this.#content(member(message, 'content'), delta.logprobs ?? event.logprobs)
      case 'tool-call-start':
        return this.#callStart(event.index, callIn(message))
      case 'tool-call-delta':
        return this.#callDelta(event.index, member(callIn(message), 'function'))
      case 'tool-call-end':
        return this.#callEnd(event.index)
      case 'citation-start':
        return this.#citation(member(message, 'citations'))
      case 'message-end':
        return this.#end(delta)
      // No event of an answer lacks a type: this is an error in its place.
      case undefined:
        return this.#untyped(event)
      default:
        return []
    }
  }

  #untyped({ message }: Json): TextPart[] {
    if (typeof message === 'string') throw failureOf(502, { code: undefined, message })
    return this.#garbage.pass()
  }

  #start({ id }: Json): TextPart[] {
    return [{ type: 'start', upstream_id: text(id), system_fingerprint: null, service_tier: null }]
  }

  #content(content: Json, given?: unknown): TextPart[] {
    const thought = text(content.thinking)
    if (thought) return [{ type: 'reasoning-delta', choice: 0, text: thought, details: [] }]
    const said = text(content.text) ?? ''
    const logprobs = logprobsOf(given)
    return said || logprobs
      ? [{ type: 'text-delta', choice: 0, text: said, ...(logprobs ? { logprobs } : {}) }]
      : []
  }

  #callStart(slot: unknown, given: Json): TextPart[] {
    const name = text(member(given, 'function').name)
    const id = text(given.id)
    if (name === null || this.#calls >= MOST_CALLS || this.#isRepeated(slot, id)) return []
    const before = this.#callEnd(slot)
    const index = this.#calls++
    this.#open.set(slot, { index, id, begun: false })
    const start: TextPart = {
      type: 'tool-call-start',
      choice: 0,
      index,
      id: id || ownId(this.#call, `0_${index}`),
      name: this.#names.given(name),
    }
    return [...before, start, ...this.#callDelta(slot, member(given, 'function'))]
  }

  // Calls arrive one after another, and some servers number none of them. A call that starts while
  // another is open repeats it, unless it has a different id.
  #isRepeated(slot: unknown, id: string | null): boolean {
    const open = this.#open.get(slot)
    return open !== undefined && (!id || id === open.id)
  }

  #callDelta(slot: unknown, { arguments: given }: Json): TextPart[] {
    const call = this.#open.get(slot)
    const input = inputText(given)
    // Cohere sends null for a function without parameters.
    if (!call || input === '' || (!call.begun && input.trim() === 'null')) return []
    call.begun = true
    return [{ type: 'tool-call-delta', choice: 0, index: call.index, input }]
  }

  // A call of a function without parameters ends without arguments, and clients cannot parse an
  // empty string.
  #callEnd(slot: unknown): TextPart[] {
    const call = this.#open.get(slot)
    this.#open.delete(slot)
    if (!call || call.begun) return []
    return [{ type: 'tool-call-delta', choice: 0, index: call.index, input: '{}' }]
  }

  #citation(citation: Json): TextPart[] {
    return annotationsOf(citation).map(annotation => ({
      type: 'annotation',
      choice: 0,
      annotation,
    }))
  }

  // Everything else that the last event repeats has been read already (translation trap 81).
  #end({ finish_reason, usage: given, error }: Json): TextPart[] {
    const native = text(finish_reason)
    const reason = finishReason(native)
    if (reason === 'error') throw failureOf(502, { code: native, message: error })
    this.complete = true
    const closed = [...this.#open.keys()].flatMap(slot => this.#callEnd(slot))
    const usage = usageOf(given)
    return [
      ...closed,
      { type: 'finish', choice: 0, reason, native },
      ...(usage ? [{ type: 'usage' as const, usage }] : []),
    ]
  }
}

const contentsOf = (content: unknown): Json[] =>
  typeof content === 'string' ? [{ text: content }] : objects(content)

// It is a single call in spite of the plural. Some servers send a list of one.
function callIn({ tool_calls: given }: Json): Json {
  if (isObject(given)) return given
  return objects(given)[0] ?? {}
}

/**
 * Returns a citation in the chat API's form, once for each of its sources. The chat API supports
 * only web sources, so a citation of a document without an address is left out.
 */
function annotationsOf(citation: Json): Json[] {
  if (citation.type === 'PLAN' || citation.type === 'THINKING_CONTENT') return []
  return objects(citation.sources).flatMap(source => {
    const document = isObject(source.document) ? source.document : member(source, 'tool_output')
    const url = text(document.url)
    if (url === null || !isWebAddress(url) || !URL.canParse(url)) return []
    return [urlCitation(url, { title: text(document.title) ?? url, ...placeOf(citation) })]
  })
}

/** Returns the range of the cited text. */
function placeOf({ start, end }: Json): Json {
  const start_index = count(start)
  const end_index = count(end)
  return start_index === undefined || end_index === undefined ? {} : { start_index, end_index }
}

/**
 * Returns Cohere's logprobs in OpenAI's shape. Cohere reports them by piece of text, and a piece of
 * several tokens gets the sum of theirs. Cohere reports no alternative tokens.
 */
function logprobsOf(given: unknown): Logprobs | undefined {
  const content = (isObject(given) ? [given] : objects(given)).flatMap(piece => {
    const token = text(piece.text)
    const logprobs = Array.isArray(piece.logprobs)
      ? piece.logprobs.filter(value => typeof value === 'number')
      : []
    if (token === null || logprobs.length === 0) return []
    const logprob = logprobs.reduce((sum, value) => sum + value, 0)
    return [{ token, logprob, bytes: [...Buffer.from(token)], top_logprobs: [] }]
  })
  return content.length > 0 ? { content } : undefined
}

/**
 * Cohere's finish reasons. The last three are from version 1, which some hosts of its models still
 * send.
 */
const REASONS: Record<string, FinishReason> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool_calls',
  ERROR: 'error',
  TIMEOUT: 'error',
  ERROR_TOXIC: 'content_filter',
  ERROR_LIMIT: 'length',
  USER_CANCEL: 'stop',
}

/**
 * Returns the finish reason for Cohere's. An unknown one counts as a stop; the native reason stays
 * beside it.
 */
export const finishReason = (native: string | null): FinishReason => own(REASONS, native) ?? 'stop'
