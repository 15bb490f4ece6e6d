import type { Endpoint } from '../../catalog/models.ts'
import type { Logprobs, ReasoningDetail, TextCall, TextPart } from '../../inference/call.ts'
import { isObject, type Json, member, objects, parseObject, text } from '../../kernel/json.ts'
import { unreadable } from '../failure.ts'
import type { Frame, Reader } from '../protocol.ts'
import type { ToolNames } from '../tool-names.ts'
import { annotationOf } from './annotation.ts'
import { clientCallOf } from './client-call.ts'
import { failureInside } from './failure.ts'
import { finishOf } from './finish.ts'
import { imageOf } from './image.ts'
import { type Item, Items } from './items.ts'
import { toolNamesOf } from './names.ts'
import { isWrapper, unwrapped } from './parallel.ts'
import { BETWEEN, formatOf } from './reasoning.ts'
import { usageOf } from './usage.ts'

/** More calls than this in one answer is a provider gone wrong. */
const MOST_CALLS = 128
/** How many events may be unreadable before the stream itself is. */
const MOST_GARBAGE = 20

/**
 * Reads the events of a response. A server may stream a piece, or tell it only when it is done, or both: each is given once, as
 * it comes where it is streamed, else whole (translation trap 62). One small method for each thing that an event may tell.
 */
export class EventReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  readonly #format: string
  readonly #items = new Items()
  #start: Extract<TextPart, { type: 'start' }> | null = null
  #calls = 0
  #texts = 0
  /** How many blocks of reasoning there are, and whether one of them had words. */
  #blocks = 0
  #thought = false
  #refused = false
  #searches = 0
  #garbage = 0

  constructor(call: TextCall, endpoint: Endpoint) {
    this.#call = call
    this.#names = toolNamesOf(call)
    this.#format = formatOf(endpoint)
  }

  // OpenAI sends no [DONE], and where another server does, the answer has ended before it (translation trap 65).
  read({ event: name, data }: Frame): TextPart[] {
    if (this.complete || data.trim() === '[DONE]') return []
    const event = parseObject(data)
    return event === undefined ? this.#unreadable() : this.#event(text(event.type) ?? name ?? '', event)
  }

  /** The parts of a whole response: of each of its items, and of its end. */
  response(response: Json): TextPart[] {
    const parts = this.#started(response)
    for (const [output_index, item] of objects(response.output).entries()) parts.push(...this.#done({ output_index, item }))
    return [...parts, ...this.#ended(response)]
  }

  #unreadable(): TextPart[] {
    this.#garbage += 1
    if (this.#garbage > MOST_GARBAGE) throw unreadable()
    return []
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
      case 'response.output_text.delta':
        return this.#text(event, event.delta)
      case 'response.output_text.done':
        return this.#unlessGiven(event, 'text', () => this.#text(event, event.text))
      case 'response.output_text.annotation.added':
        return this.#annotation(event)
      case 'response.refusal.delta':
        return this.#refusal(event, event.delta)
      case 'response.refusal.done':
        return this.#unlessGiven(event, 'refusal', () => this.#refusal(event, event.refusal))
      case 'response.reasoning_summary_text.delta':
        return this.#summary(event, event.delta)
      case 'response.reasoning_summary_text.done':
        return this.#unlessGiven(event, 'summary', () => this.#summary(event, event.text))
      case 'response.reasoning_text.delta':
        return this.#thinking(event, event.delta)
      case 'response.reasoning_text.done':
        return this.#unlessGiven(event, 'thinking', () => this.#thinking(event, event.text))
      case 'response.function_call_arguments.delta':
        return this.#input(this.#items.of(event), event.delta)
      case 'response.function_call_arguments.done':
        return this.#wholeInput(this.#items.of(event), event.arguments)
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
        return this.#unknown(event)
    }
  }

  // Some servers say what has failed and nothing else.
  #unknown({ error }: Json): TextPart[] {
    if (error != null) throw failureInside(error)
    return []
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
    const item = this.#items.begun(event, text(given.id))
    const name = text(given.name)
    if (given.type !== 'function_call' || !name || isWrapper(name, this.#call)) return []
    return this.#began(item, given, name)
  }

  #done(event: Json): TextPart[] {
    const given = member(event, 'item')
    const item = this.#items.done(event, text(given.id))
    if (!item) return []
    switch (given.type) {
      case 'message':
        return this.#message(item, given, event)
      case 'reasoning':
        return this.#reasoning(item, given, event)
      case 'function_call':
        return this.#functionCall(item, given)
      default:
        return this.#other(given)
    }
  }

  /** What a message holds that was not streamed: all of it, or nothing. */
  #message(item: Item, given: Json, { output_index }: Json): TextPart[] {
    const told = new Set([...item.given.keys()].map(piece => piece.split(' ')[0]))
    return objects(given.content).flatMap((content, content_index) => {
      const event = { ...content, output_index, item_id: given.id, content_index }
      const parts: TextPart[] = []
      if (content.type === 'output_text' && !told.has('text')) parts.push(...this.#text(event, content.text))
      if (content.type === 'refusal' && !told.has('refusal')) parts.push(...this.#refusal(event, content.refusal))
      if (told.has('annotation')) return parts
      return [...parts, ...objects(content.annotations).flatMap(annotation => this.#annotation({ ...event, annotation }))]
    })
  }

  #text(event: Json, given: unknown): TextPart[] {
    const said = text(given)
    if (!said) return []
    const item = this.#items.of(event)
    const piece = pieceOf('text', event)
    const block = item.given.get(piece) ?? this.#texts++
    this.#items.give(item, piece, block)
    const logprobs = logprobsOf(event.logprobs)
    return [{ type: 'text-delta', choice: 0, text: said, block, ...(logprobs ? { logprobs } : {}) }]
  }

  #refusal(event: Json, given: unknown): TextPart[] {
    const said = text(given)
    if (!said) return []
    this.#refused = true
    this.#items.give(this.#items.of(event), pieceOf('refusal', event))
    return [{ type: 'refusal-delta', choice: 0, text: said }]
  }

  #annotation(event: Json): TextPart[] {
    const annotation = annotationOf(member(event, 'annotation'))
    if (annotation === undefined) return []
    const item = this.#items.of(event)
    this.#items.give(item, 'annotation')
    const block = item.given.get(pieceOf('text', event))
    return [{ type: 'annotation', choice: 0, annotation, ...(block === undefined ? {} : { block }) }]
  }

  /** What an item of reasoning holds that was not streamed; its encrypted content comes only now. */
  #reasoning(item: Item, given: Json, { output_index }: Json): TextPart[] {
    const place = { output_index, item_id: given.id }
    const whole = item.given.size === 0
    const parts = whole ? objects(given.summary).flatMap((one, i) => this.#summary({ ...place, summary_index: i }, one.text)) : []
    if (whole) parts.push(...objects(given.content).flatMap((one, i) => this.#thinking({ ...place, content_index: i }, one.text)))
    const data = text(given.encrypted_content)
    if (data) parts.push(this.#thoughtOf('', this.#detail(item, { type: 'reasoning.encrypted', data }, this.#blocks++)))
    return parts
  }

  #summary(event: Json, given: unknown): TextPart[] {
    return this.#block('summary', event, given, said => ({ type: 'reasoning.summary', summary: said }))
  }

  #thinking(event: Json, given: unknown): TextPart[] {
    return this.#block('thinking', event, given, said => ({ type: 'reasoning.text', text: said }))
  }

  /** A piece of a block of reasoning. All blocks but the first begin apart from the one before. */
  #block(kind: string, event: Json, given: unknown, entry: (said: string) => ReasoningDetail): TextPart[] {
    const said = text(given)
    if (!said) return []
    const item = this.#items.of(event)
    const piece = pieceOf(kind, event)
    const known = item.given.get(piece)
    const index = known ?? this.#blocks++
    this.#items.give(item, piece, index)
    const apart = known === undefined && this.#thought ? BETWEEN + said : said
    this.#thought = true
    return [this.#thoughtOf(apart, this.#detail(item, entry(apart), index))]
  }

  #detail({ id }: Item, entry: ReasoningDetail, index: number): ReasoningDetail {
    return { ...entry, format: this.#format, index, ...(id === null ? {} : { id }) }
  }

  #thoughtOf(said: string, detail: ReasoningDetail): TextPart {
    return { type: 'reasoning-delta', choice: 0, text: said, details: [detail] }
  }

  #functionCall(item: Item, given: Json): TextPart[] {
    const name = text(given.name) ?? ''
    const input = inputText(given.arguments)
    const wrapped = item.call === null && isWrapper(name, this.#call) ? unwrapped(input, this.#call, this.#names) : null
    if (wrapped) return wrapped.flatMap((one, i) => this.#wholeCall(`${text(given.call_id) ?? item.id ?? ''}_${i}`, one.name, one.input))
    const began = item.call === null ? this.#began(item, given, name) : []
    return [...began, ...this.#wholeInput(item, input)]
  }

  #began(item: Item, given: Json, name: string): TextPart[] {
    if (item.call !== null || this.#calls >= MOST_CALLS) return []
    item.call = this.#calls++
    const id = text(given.call_id) || item.id || `call_${this.#call.id.slice(-20)}_${item.call}`
    return [{ type: 'tool-call-start', choice: 0, index: item.call, id, name: this.#names.given(name), ...besides(given) }]
  }

  #input(item: Item, given: unknown): TextPart[] {
    const input = inputText(given)
    if (!input || item.call === null) return []
    this.#items.give(item, 'input')
    return [{ type: 'tool-call-delta', choice: 0, index: item.call, input }]
  }

  #wholeInput(item: Item, given: unknown): TextPart[] {
    return item.given.has('input') ? [] : this.#input(item, given)
  }

  #wholeCall(id: string, name: string, input: string): TextPart[] {
    if (this.#calls >= MOST_CALLS) return []
    const index = this.#calls++
    return [
      { type: 'tool-call-start', choice: 0, index, id, name },
      { type: 'tool-call-delta', choice: 0, index, input },
    ]
  }

  /** An item of a kind that the chat API does not have. Clients that speak this dialect get it whole. */
  #other(given: Json): TextPart[] {
    if (text(given.type) === null) return []
    if (given.type === 'web_search_call') this.#searches += 1
    const whole: TextPart = { type: 'other', choice: 0, dialect: 'responses', value: given }
    if (this.#call.dialect === 'responses') return [whole]
    const call = clientCallOf(given)
    if (call) return this.#wholeCall(text(given.call_id) ?? text(given.id) ?? '', call.name, call.input)
    const url = given.type === 'image_generation_call' ? imageOf(given) : null
    return url === null ? [whole] : [{ type: 'image', choice: 0, url }]
  }

  #unlessGiven(event: Json, kind: string, give: () => TextPart[]): TextPart[] {
    return this.#items.of(event).given.has(pieceOf(kind, event)) ? [] : give()
  }

  // Some servers tell everything in their last event only.
  #last(response: Json): TextPart[] {
    return this.#items.empty ? this.response(response) : [...this.#started(response), ...this.#ended(response)]
  }

  #failed(response: Json): TextPart[] {
    const { error } = response
    if (error == null && text(member(response, 'incomplete_details').reason) !== null) return this.#last(response)
    throw failureInside(error)
  }

  #ended(response: Json): TextPart[] {
    this.complete = true
    const usage = usageOf(response.usage, this.#searches)
    const finish = finishOf(response, { calls: this.#calls > 0, refused: this.#refused })
    return [...this.#served(response), { type: 'finish', choice: 0, ...finish }, ...(usage ? [{ type: 'usage', usage } as const] : [])]
  }

  // At the start the tier is the one that was asked for, at the end the one that was given.
  #served(response: Json): TextPart[] {
    const service_tier = text(response.service_tier)
    if (!this.#start || service_tier === null || service_tier === this.#start.service_tier) return []
    return [{ ...this.#start, service_tier }]
  }
}

/** Where a piece stands in its item. */
const pieceOf = (kind: string, { content_index, summary_index }: Json) => `${kind} ${summary_index ?? content_index ?? 0}`

// Arguments are the raw text, big integers and all; a server that sends an object gets it written out.
const inputText = (given: unknown): string => (typeof given === 'string' ? given : isObject(given) ? JSON.stringify(given) : '')

/** What OpenAI tells of a call besides, which a client that speaks this dialect has to give back. */
function besides({ namespace, caller, async: late }: Json): { extra?: Json } {
  const told = Object.entries({ namespace, caller, async: late }).filter(([, value]) => value != null)
  return told.length > 0 ? { extra: Object.fromEntries(told) } : {}
}

// In the chat API an entry has `bytes`, if only as null.
function logprobsOf(given: unknown): Logprobs | undefined {
  const entries = objects(given)
  if (entries.length === 0) return undefined
  return { content: entries.map(entry => ({ ...withBytes(entry), top_logprobs: objects(entry.top_logprobs).map(withBytes) })) }
}

const withBytes = (entry: Json): Json => ({ ...entry, bytes: entry.bytes ?? null })
