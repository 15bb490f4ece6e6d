import { detectImageType } from '../../../base/data-url.ts'
import type { GatewayError } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  parseCount,
  parseObject,
  parsePartCount,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Logprobs, OutputItem, TextPart } from '../../../language/part.ts'
import { readUnits, type Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { isNative } from '../native.ts'
import { readStreamFailure } from '../openai-chat/failure.ts'
import type { Frame, Reader } from '../protocol.ts'
import {
  type End,
  type OwnEnds,
  readEnd,
  refuseImpossibleCounts,
  toUrlCitation,
  UnreadableEvents,
} from '../reader.ts'
import { isSearch, readCallId, ToolCallReader, toClientCall } from './calls.ts'
import { buildPieceKey, type ItemState, Items } from './items.ts'
import { NATIVE } from './messages.ts'
import { ReasoningReader } from './reasoning.ts'

/**
 * Returns the parts of a whole response, which is read as if everything came in the last event.
 * Throws `provider_unavailable` if the body is no answer, and the error that it contains if there
 * is one.
 */
export function parseAnswer(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (body.error != null) throw readStreamFailure(body.error)
  if (!isAnswer(body)) throw unreadableAnswer()
  return new EventReader(call, endpoint).readResponse(body)
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
  failure: GatewayError | null = null
  readonly #call: TextCall
  readonly #endpoint: Endpoint
  readonly #items = new Items()
  readonly #calls: ToolCallReader
  readonly #reasoning: ReasoningReader
  #start: Extract<TextPart, { type: 'start' }> | null = null
  #textCount = 0
  #searchCount = 0
  #hasRefusal = false
  readonly #unreadable = new UnreadableEvents()

  constructor(call: TextCall, endpoint: Endpoint) {
    this.#call = call
    this.#endpoint = endpoint
    this.#calls = new ToolCallReader(call)
    this.#reasoning = new ReasoningReader(this.#items, endpoint)
  }

  // OpenAI sends no [DONE]. If another server does, the answer has ended before it (translation
  // trap 65).
  read({ event: name, data, json }: Frame): TextPart[] {
    if (this.complete || data.trim() === '[DONE]') return []
    const event = json === undefined ? parseObject(data) : json
    return event == null
      ? this.#unreadable.skip()
      : this.#readEvent(readString(event.type) ?? name ?? '', event)
  }

  /** Returns the parts of a whole response: those of each item, and the end. */
  readResponse(response: Json): TextPart[] {
    const parts = this.#readStart(response)
    for (const [output_index, item] of readObjects(response.output).entries())
      parts.push(...this.#readDoneItem({ output_index, item }))
    return [...parts, ...this.#readEnd(response)]
  }

  #readEvent(type: string, event: Json): TextPart[] {
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.#readStart(readObject(event, 'response'))
      case 'response.output_item.added':
        return this.#readNewItem(event)
      case 'response.output_item.done':
        return this.#readDoneItem(event)
      case 'response.completed':
      case 'response.done':
      case 'response.incomplete':
        return this.#readLast(readObject(event, 'response'))
      case 'response.failed':
      case 'response.cancelled':
        return this.#readFailed(readObject(event, 'response'))
      case 'error':
        throw readStreamFailure(event)
      default:
        // Some servers send an error and nothing else, not even a type.
        if (event.error != null) throw readStreamFailure(event.error)
        return this.#readPiece(type, event)
    }
  }

  /** Reads a piece of an item, or a whole one that may have been streamed. */
  #readPiece(type: string, event: Json): TextPart[] {
    const item = this.#items.findOrAdd(event)
    switch (type) {
      case 'response.output_text.delta':
        return this.#readText(item, event, event.delta)
      case 'response.output_text.done':
        return item.pieces.has(buildPieceKey('text', event.content_index))
          ? []
          : this.#readText(item, event, event.text)
      case 'response.output_text.annotation.added':
        return this.#readAnnotation(item, event, readObject(event, 'annotation'))
      case 'response.refusal.delta':
        return this.#readRefusal(item, event, event.delta)
      case 'response.refusal.done':
        return item.pieces.has(buildPieceKey('refusal', event.content_index))
          ? []
          : this.#readRefusal(item, event, event.refusal)
      case 'response.reasoning_summary_text.delta':
        return this.#reasoning.readSummary(item, event, event.delta)
      case 'response.reasoning_summary_text.done':
        return item.pieces.has(buildPieceKey('summary', event.summary_index))
          ? []
          : this.#reasoning.readSummary(item, event, event.text)
      case 'response.reasoning_text.delta':
        return this.#reasoning.readThinking(item, event, event.delta)
      case 'response.reasoning_text.done':
        return item.pieces.has(buildPieceKey('thinking', event.content_index))
          ? []
          : this.#reasoning.readThinking(item, event, event.text)
      case 'response.function_call_arguments.delta':
        return this.#calls.readInput(item, event.delta)
      case 'response.function_call_arguments.done':
        return this.#calls.readWholeInput(item, event.arguments)
      default:
        return this.#readPreview(type, event)
    }
  }

  #readStart(response: Json): TextPart[] {
    if (this.#start) return []
    this.#start = {
      type: 'start',
      upstream_id: readString(response.id),
      system_fingerprint: readString(response.system_fingerprint),
      service_tier: readString(response.service_tier),
    }
    return [this.#start]
  }

  #readNewItem(event: Json): TextPart[] {
    const value = readObject(event, 'item')
    const item = this.#items.begin(event, readString(value.id))
    item.phase = readString(value.phase)
    return STREAMED_ITEMS.has(readString(value.type) ?? '')
      ? this.#calls.readNewItem(item, value)
      : this.#readPreview('response.output_item.added', event)
  }

  /**
   * Reads an event in the making of an item that clients of this dialect get whole. Such clients
   * get the event too.
   */
  #readPreview(type: string, event: Json): TextPart[] {
    if (!isNative(this.#call, NATIVE) || !isPreview(type)) return []
    return [{ type: 'other', choice: 0, dialect: NATIVE, value: event, isPreview: true }]
  }

  /** Returns the item that a piece belongs to, as a field to spread, if the client's API has items. */
  #readOwner({ id, phase }: ItemState): { item?: OutputItem } {
    if (!isNative(this.#call, NATIVE)) return {}
    return { item: phase === null ? { id } : { id, phase } }
  }

  #readDoneItem(event: Json): TextPart[] {
    const value = readObject(event, 'item')
    const item = this.#items.finish(event, readString(value.id))
    if (!item) return []
    item.phase ??= readString(value.phase)
    switch (value.type) {
      case 'message':
        return this.#readMessage(item, readObjects(value.content))
      case 'reasoning':
        return this.#reasoning.readDoneItem(item, value)
      case 'function_call':
        return this.#calls.readDoneItem(item, value)
      default:
        return this.#readOtherItem(value)
    }
  }

  /** Reads what was not streamed of a message: for each kind of content, all or nothing. */
  #readMessage(item: ItemState, contents: Json[]): TextPart[] {
    const streamedKinds = new Set([...item.pieces.keys()].map(piece => piece.split(' ')[0]))
    return contents.flatMap((content, content_index) => {
      const indexed = { ...content, content_index }
      const textParts =
        content.type === 'output_text' && !streamedKinds.has('text')
          ? this.#readText(item, indexed, content.text)
          : []
      const refusalParts =
        content.type === 'refusal' && !streamedKinds.has('refusal')
          ? this.#readRefusal(item, indexed, content.refusal)
          : []
      const sources = streamedKinds.has('annotation')
        ? []
        : readObjects(content.annotations).flatMap(annotation =>
            this.#readAnnotation(item, indexed, annotation),
          )
      return [...textParts, ...refusalParts, ...sources]
    })
  }

  #readText(
    item: ItemState,
    { content_index, logprobs: rawLogprobs }: Json,
    value: unknown,
  ): TextPart[] {
    const content = readString(value)
    if (!content) return []
    const piece = buildPieceKey('text', content_index)
    const block = item.pieces.get(piece) ?? this.#textCount++
    this.#items.markReturned(item, piece, block)
    const logprobs = readLogprobs(rawLogprobs)
    return [
      {
        type: 'text-delta',
        choice: 0,
        text: content,
        block,
        ...(logprobs ? { logprobs } : {}),
        ...this.#readOwner(item),
      },
    ]
  }

  #readRefusal(item: ItemState, { content_index }: Json, value: unknown): TextPart[] {
    const content = readString(value)
    if (!content) return []
    this.#hasRefusal = true
    this.#items.markReturned(item, buildPieceKey('refusal', content_index))
    return [{ type: 'refusal-delta', choice: 0, text: content, ...this.#readOwner(item) }]
  }

  #readAnnotation(item: ItemState, { content_index }: Json, value: Json): TextPart[] {
    const annotation = toAnnotation(value) ?? null
    const isOwn = isNative(this.#call, NATIVE)
    if (annotation === null && !isOwn) return []
    this.#items.markReturned(item, 'annotation')
    const block = item.pieces.get(buildPieceKey('text', content_index))
    return [
      {
        type: 'annotation',
        choice: 0,
        annotation,
        ...(isOwn ? { source: value } : {}),
        ...(block === undefined ? {} : { block }),
        ...this.#readOwner(item),
      },
    ]
  }

  /**
   * Reads an item of a kind that the chat API does not have. Clients of this dialect get it whole.
   */
  #readOtherItem(value: Json): TextPart[] {
    if (readString(value.type) === null) return []
    if (isSearch(value)) this.#searchCount += 1
    const otherPart: TextPart = { type: 'other', choice: 0, dialect: NATIVE, value }
    if (isNative(this.#call, NATIVE)) return [otherPart]
    const call = toClientCall(value, this.#endpoint)
    if (call) return this.#calls.readWhole(readCallId(value), call)
    const url = value.type === 'image_generation_call' ? buildImageUrl(value) : null
    return url === null ? [otherPart] : [{ type: 'image', choice: 0, url }]
  }

  // Some servers send everything in their last event only.
  #readLast(response: Json): TextPart[] {
    return this.#items.isUntouched
      ? this.readResponse(response)
      : [...this.#readStart(response), ...this.#readEnd(response)]
  }

  #readFailed(response: Json): TextPart[] {
    const { error } = response
    if (error == null && readString(readObject(response, 'incomplete_details').reason) !== null)
      return this.#readLast(response)
    // A response that fails may have a count: its tokens are charged (specification, What the
    // service does, 6).
    const usage = readUsage(response.usage, this.#searchCount)
    if (!usage) throw readStreamFailure(error)
    this.failure = readStreamFailure(error)
    return [{ type: 'usage', usage }]
  }

  #readEnd(response: Json): TextPart[] {
    this.complete = true
    const usage = readUsage(response.usage, this.#searchCount)
    const finish = readFinish(response, {
      calls: this.#calls.endsAnswer,
      refused: this.#hasRefusal,
      ownEnds: this.#endpoint.provider.finish_reasons,
    })
    return [
      ...this.#readServiceTier(response),
      { type: 'finish', choice: 0, ...finish },
      ...(usage ? [{ type: 'usage', usage } as const] : []),
    ]
  }

  // The start names the requested service tier, the end the one that was used.
  #readServiceTier(response: Json): TextPart[] {
    const service_tier = readString(response.service_tier)
    if (!this.#start || service_tier === null || service_tier === this.#start.service_tier)
      return []
    return [{ ...this.#start, service_tier }]
  }
}

/** The types of items whose pieces are returned as they stream. */
const STREAMED_ITEMS = new Set(['message', 'reasoning', 'function_call'])

/** The events of those items that say nothing that other parts do not. */
const ENCLOSING = /^response\.(content_part|reasoning_summary_part|output_item)\.(added|done)$/

const isPreview = (type: string): boolean =>
  type === 'response.output_item.added' || (type.startsWith('response.') && !ENCLOSING.test(type))

/** What the finish reason depends on: whether the answer has tool calls, and a refusal. */
interface AnswerContents {
  calls: boolean
  refused: boolean
  /** The finish reasons of the provider's own words. */
  ownEnds?: OwnEnds
}

/**
 * Reads why the model stopped: our finish reason and the provider's. Here a response has a status,
 * and a reason only if it is incomplete.
 */
export function readFinish(
  response: Json,
  { calls, refused, ownEnds }: AnswerContents,
): End & { native: string | null } {
  const incompleteReason = readString(readObject(response, 'incomplete_details').reason)
  const status = readString(response.status)
  const native = incompleteReason ?? status
  const end = incompleteReason === null ? null : readEnd(incompleteReason, ownEnds)
  if (end) return { ...end, native }
  if (calls) return { reason: 'tool_calls', native }
  if (status === 'incomplete') return { reason: 'length', native }
  return { reason: refused ? 'content_filter' : 'stop', native }
}

/** Returns a citation as the chat API shows it; undefined for files, which it cannot cite. */
function toAnnotation(annotation: Json): unknown {
  const url = readString(annotation.url)
  if (annotation.type !== 'url_citation' || url === null) return undefined
  return toUrlCitation(url, annotation)
}

/**
 * Reads the logprobs of a piece of text, here a plain list. In the chat API every entry has
 * `bytes`, even if null.
 */
function readLogprobs(value: unknown): Logprobs | undefined {
  const entries = readObjects(value)
  if (entries.length === 0) return undefined
  return {
    content: entries.map(entry => ({
      ...addBytes(entry),
      top_logprobs: readObjects(entry.top_logprobs).map(addBytes),
    })),
  }
}

const addBytes = (entry: Json): Json => ({ ...entry, bytes: entry.bytes ?? null })

/** Returns the image of an `image_generation_call` as a URL; null if it made none. */
function buildImageUrl({ result, output_format }: Json): string | null {
  const image = readString(result)
  if (!image) return null
  if (/^(https?|data):/.test(image)) return image
  // Not every server names the format, so the data is looked at first.
  return `data:${detectImageType(image) ?? `image/${readImageFormat(output_format)}`};base64,${image}`
}

const readImageFormat = (value: unknown) =>
  typeof value === 'string' && /^[a-z]{3,4}$/.test(value) ? value : 'png'

/**
 * Reads the usage of a response into disjoint classes. There `input_tokens` includes tokens read
 * from and written to the cache, and `output_tokens` includes reasoning. Undefined without
 * counts. `searches` is the number of searches that the provider ran for this answer.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json, searches: number): Usage | undefined {
  const input = parseCount(usage.input_tokens)
  const output = parseCount(usage.output_tokens)
  if (input === undefined || output === undefined) return undefined
  return {
    input: readInput(input, usage),
    output: readOutput(output, usage),
    prediction: null,
    ...(searches === 0 ? {} : readUnits({ search: searches })),
  }
}

function readInput(reported: number, usage: Json): Usage['input'] {
  const details = readObject(usage, 'input_tokens_details')
  const cached = parseCount(details.cached_tokens) ?? 0
  // xAI sometimes reports more cached tokens than input tokens. Then the count excludes the cached
  // ones.
  const input = cached > reported ? reported + cached : reported
  const cache_write = parsePartCount(input - cached, details.cache_write_tokens)
  const audio = parsePartCount(input - cached - cache_write, details.audio_tokens)
  return {
    text: input - cached - cache_write - audio,
    cache_read: cached,
    cache_write,
    cache_write_1h: 0,
    audio,
    video: 0,
  }
}

function readOutput(output: number, usage: Json): Usage['output'] {
  const details = readObject(usage, 'output_tokens_details')
  const reasoning = parsePartCount(output, details.reasoning_tokens)
  const audio = parsePartCount(output - reasoning, details.audio_tokens)
  const image = parsePartCount(output - reasoning - audio, details.image_tokens)
  return { text: output - reasoning - audio - image, reasoning, audio, image }
}
