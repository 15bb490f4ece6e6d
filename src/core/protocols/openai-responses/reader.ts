import type { Endpoint } from '../../catalog/models.ts'
import { pictureType } from '../../kernel/data-url.ts'
import { isObject, type Json, member, objects, own, parseObject, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { FinishReason, Logprobs, TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { isNative } from '../native.ts'
import type { Frame, Reader } from '../protocol.ts'
import { Garbage, urlCitation } from '../reader.ts'
import { Calls, clientCallOf, idOf } from './calls.ts'
import { failureInside } from './failure.ts'
import { type Item, Items, pieceOf } from './items.ts'
import { NATIVE } from './messages.ts'
import { Thoughts } from './reasoning.ts'
import { usageOf } from './usage.ts'

/**
 * Returns the parts of a whole response, which is read as if everything came in the last event.
 * Throws `provider_unavailable` if the body is no answer, and the error that it contains if there
 * is one.
 */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadable()
  if (body.error != null) throw failureInside(body.error)
  if (!isAnswer(body)) throw unreadable()
  return new EventReader(call, endpoint).response(body)
}

/** The statuses of unfinished, cancelled and failed responses, which are no answers. */
const UNANSWERED: unknown[] = ['queued', 'in_progress', 'cancelled', 'failed']

const isAnswer = ({ output, status }: Json) => Array.isArray(output) && !UNANSWERED.includes(status)

/**
 * Reads the events of a response, with one small method for each kind. A server may stream a piece,
 * send it only when it is done, or both. Each piece is returned once: as it streams, or else whole
 * (translation trap 62).
 */
export class EventReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #endpoint: Endpoint
  readonly #items = new Items()
  readonly #calls: Calls
  readonly #thoughts: Thoughts
  #start: Extract<TextPart, { type: 'start' }> | null = null
  #texts = 0
  #searches = 0
  #refused = false
  readonly #garbage = new Garbage()

  constructor(call: TextCall, endpoint: Endpoint) {
    this.#call = call
    this.#endpoint = endpoint
    this.#calls = new Calls(call)
    this.#thoughts = new Thoughts(this.#items, endpoint)
  }

  // OpenAI sends no [DONE]. If another server does, the answer has ended before it (translation
  // trap 65).
  read({ event: name, data }: Frame): TextPart[] {
    if (this.complete || data.trim() === '[DONE]') return []
    const event = parseObject(data)
    return event === undefined
      ? this.#garbage.pass()
      : this.#event(text(event.type) ?? name ?? '', event)
  }

  /** Returns the parts of a whole response: those of each item, and the end. */
  response(response: Json): TextPart[] {
    const parts = this.#started(response)
    for (const [output_index, item] of objects(response.output).entries())
      parts.push(...this.#done({ output_index, item }))
    return [...parts, ...this.#ended(response)]
  }

  #event(type: string, event: Json): TextPart[] {
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.#started(member(event, 'response'))
      case 'response.output_item.added':
        return this.#added(event)
      case 'response.output_item.done':
        return this.#done(event)
      case 'response.completed':
      case 'response.done':
      case 'response.incomplete':
        return this.#last(member(event, 'response'))
      case 'response.failed':
      case 'response.cancelled':
        return this.#failed(member(event, 'response'))
      case 'error':
        throw failureInside(event)
      default:
        // Some servers send an error and nothing else, not even a type.
        if (event.error != null) throw failureInside(event.error)
        return this.#piece(type, event)
    }
  }

  /** Reads a piece of an item, or a whole one that may have been streamed. */
  #piece(type: string, event: Json): TextPart[] {
    const item = this.#items.of(event)
    switch (type) {
      case 'response.output_text.delta':
        return this.#text(item, event, event.delta)
      case 'response.output_text.done':
        return item.given.has(pieceOf('text', event.content_index))
          ? []
          : this.#text(item, event, event.text)
      case 'response.output_text.annotation.added':
        return this.#annotation(item, event, member(event, 'annotation'))
      case 'response.refusal.delta':
        return this.#refusal(item, event, event.delta)
      case 'response.refusal.done':
        return item.given.has(pieceOf('refusal', event.content_index))
          ? []
          : this.#refusal(item, event, event.refusal)
      case 'response.reasoning_summary_text.delta':
        return this.#thoughts.summary(item, event, event.delta)
      case 'response.reasoning_summary_text.done':
        return item.given.has(pieceOf('summary', event.summary_index))
          ? []
          : this.#thoughts.summary(item, event, event.text)
      case 'response.reasoning_text.delta':
        return this.#thoughts.thinking(item, event, event.delta)
      case 'response.reasoning_text.done':
        return item.given.has(pieceOf('thinking', event.content_index))
          ? []
          : this.#thoughts.thinking(item, event, event.text)
      case 'response.function_call_arguments.delta':
        return this.#calls.input(item, event.delta)
      case 'response.function_call_arguments.done':
        return this.#calls.wholeInput(item, event.arguments)
      default:
        return []
    }
  }

  #started(response: Json): TextPart[] {
    if (this.#start) return []
    this.#start = {
      type: 'start',
      upstream_id: text(response.id),
      system_fingerprint: text(response.system_fingerprint),
      service_tier: text(response.service_tier),
    }
    return [this.#start]
  }

  #added(event: Json): TextPart[] {
    const given = member(event, 'item')
    return this.#calls.added(this.#items.begun(event, text(given.id)), given)
  }

  #done(event: Json): TextPart[] {
    const given = member(event, 'item')
    const item = this.#items.done(event, text(given.id))
    if (!item) return []
    switch (given.type) {
      case 'message':
        return this.#message(item, objects(given.content))
      case 'reasoning':
        return this.#thoughts.done(item, given)
      case 'function_call':
        return this.#calls.done(item, given)
      default:
        return this.#other(given)
    }
  }

  /** Reads what was not streamed of a message: for each kind of content, all or nothing. */
  #message(item: Item, contents: Json[]): TextPart[] {
    const told = new Set([...item.given.keys()].map(piece => piece.split(' ')[0]))
    return contents.flatMap((content, content_index) => {
      const place = { ...content, content_index }
      const said =
        content.type === 'output_text' && !told.has('text')
          ? this.#text(item, place, content.text)
          : []
      const refused =
        content.type === 'refusal' && !told.has('refusal')
          ? this.#refusal(item, place, content.refusal)
          : []
      const sources = told.has('annotation')
        ? []
        : objects(content.annotations).flatMap(one => this.#annotation(item, place, one))
      return [...said, ...refused, ...sources]
    })
  }

  #text(item: Item, { content_index, logprobs: told }: Json, given: unknown): TextPart[] {
    const said = text(given)
    if (!said) return []
    const piece = pieceOf('text', content_index)
    const block = item.given.get(piece) ?? this.#texts++
    this.#items.give(item, piece, block)
    const logprobs = logprobsOf(told)
    return [{ type: 'text-delta', choice: 0, text: said, block, ...(logprobs ? { logprobs } : {}) }]
  }

  #refusal(item: Item, { content_index }: Json, given: unknown): TextPart[] {
    const said = text(given)
    if (!said) return []
    this.#refused = true
    this.#items.give(item, pieceOf('refusal', content_index))
    return [{ type: 'refusal-delta', choice: 0, text: said }]
  }

  #annotation(item: Item, { content_index }: Json, given: Json): TextPart[] {
    const annotation = annotationOf(given)
    if (annotation === undefined) return []
    this.#items.give(item, 'annotation')
    const block = item.given.get(pieceOf('text', content_index))
    return [
      { type: 'annotation', choice: 0, annotation, ...(block === undefined ? {} : { block }) },
    ]
  }

  /**
   * Reads an item of a kind that the chat API does not have. Clients of this dialect get it whole.
   */
  #other(given: Json): TextPart[] {
    if (text(given.type) === null) return []
    if (given.type === 'web_search_call') this.#searches += 1
    const whole: TextPart = { type: 'other', choice: 0, dialect: NATIVE, value: given }
    if (isNative(this.#call, NATIVE)) return [whole]
    const call = clientCallOf(given, this.#endpoint)
    if (call) return this.#calls.whole(idOf(given), call)
    const url = given.type === 'image_generation_call' ? imageOf(given) : null
    return url === null ? [whole] : [{ type: 'image', choice: 0, url }]
  }

  // Some servers send everything in their last event only.
  #last(response: Json): TextPart[] {
    return this.#items.untouched
      ? this.response(response)
      : [...this.#started(response), ...this.#ended(response)]
  }

  #failed(response: Json): TextPart[] {
    const { error } = response
    if (error == null && text(member(response, 'incomplete_details').reason) !== null)
      return this.#last(response)
    throw failureInside(error)
  }

  #ended(response: Json): TextPart[] {
    this.complete = true
    const usage = usageOf(response.usage, this.#searches)
    const finish = finishOf(response, { calls: this.#calls.ends, refused: this.#refused })
    return [
      ...this.#served(response),
      { type: 'finish', choice: 0, ...finish },
      ...(usage ? [{ type: 'usage', usage } as const] : []),
    ]
  }

  // The start names the requested service tier, the end the one that was used.
  #served(response: Json): TextPart[] {
    const service_tier = text(response.service_tier)
    if (!this.#start || service_tier === null || service_tier === this.#start.service_tier)
      return []
    return [{ ...this.#start, service_tier }]
  }
}

/** Our finish reasons for those of incomplete responses: OpenAI's, then xAI's. */
const CUTS: Record<string, FinishReason> = {
  max_output_tokens: 'length',
  content_filter: 'content_filter',
  max_tokens: 'length',
  length: 'length',
  stop: 'stop',
}

/** What the finish reason depends on: whether the answer has tool calls, and a refusal. */
interface Held {
  calls: boolean
  refused: boolean
}

/**
 * Reads why the model stopped: our finish reason and the provider's. Here a response has a status,
 * and a reason only if it is incomplete.
 */
export function finishOf(
  response: Json,
  { calls, refused }: Held,
): { reason: FinishReason; native: string | null } {
  const cut = text(member(response, 'incomplete_details').reason)
  const status = text(response.status)
  const native = cut ?? status
  const known = own(CUTS, cut)
  if (known !== undefined) return { reason: known, native }
  if (calls) return { reason: 'tool_calls', native }
  if (cut !== null || status === 'incomplete') return { reason: 'length', native }
  return { reason: refused ? 'content_filter' : 'stop', native }
}

/** Returns a citation as the chat API shows it; undefined for files, which it cannot cite. */
function annotationOf(given: Json): unknown {
  const url = text(given.url)
  if (given.type !== 'url_citation' || url === null) return undefined
  return urlCitation(url, given)
}

/**
 * Reads the logprobs of a piece of text, here a plain list. In the chat API every entry has
 * `bytes`, even if null.
 */
function logprobsOf(given: unknown): Logprobs | undefined {
  const entries = objects(given)
  if (entries.length === 0) return undefined
  return {
    content: entries.map(entry => ({
      ...withBytes(entry),
      top_logprobs: objects(entry.top_logprobs).map(withBytes),
    })),
  }
}

const withBytes = (entry: Json): Json => ({ ...entry, bytes: entry.bytes ?? null })

/** Returns the image of an `image_generation_call` as a URL; null if it made none. */
function imageOf({ result, output_format }: Json): string | null {
  const made = text(result)
  if (!made) return null
  if (/^(https?|data):/.test(made)) return made
  // Not every server names the format, so the data is looked at first.
  return `data:${pictureType(made) ?? `image/${formatOf(output_format)}`};base64,${made}`
}

const formatOf = (given: unknown) =>
  typeof given === 'string' && /^[a-z]{3,4}$/.test(given) ? given : 'png'
