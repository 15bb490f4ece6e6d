import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, objects, own, parseObject, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { AudioDelta, FinishReason, Logprobs, TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { inputTokens, outputTokens, type Usage } from '../../language/usage.ts'
import { unreadable } from '../failure.ts'
import type { Frame, Reader } from '../protocol.ts'
import { choiceAt, Garbage, urlCitation } from '../reader.ts'
import { Calls } from './calls.ts'
import { failureInside } from './failure.ts'
import { type Piece, ThinkTags } from './think-tags.ts'
import { usageOf } from './usage.ts'

/**
 * Returns the parts of a whole `chat.completion`. Throws `provider_unavailable` if the body is no
 * answer, and the error that it contains if there is one.
 */
export function parts(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isAnswer(body)) throw unreadable()
  return new ChunkReader(call, endpoint).whole(body)
}

const isAnswer = (body: unknown): body is Record<string, unknown> =>
  typeof body === 'object' &&
  body !== null &&
  ('error' in body || ('choices' in body && Array.isArray(body.choices) && body.choices.length > 0))

/** Reads `chat.completion.chunk` events, with one small method for each thing in a chunk. */
export class ChunkReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  /** Created with the first call. Most answers have none. */
  #calls: Calls | null = null
  /** The choices that have ended. Some servers send the end twice. */
  #ended: Set<number> | null = null
  /** Separates thinking from text, by choice, for servers that leave it in tags. */
  readonly #thinkTags: Map<number, ThinkTags> | null
  #isWhole = false
  #started = false
  #sourced = false
  #counted = false
  readonly #garbage = new Garbage()

  constructor(call: TextCall, { provider: { quirks } }: Endpoint) {
    this.#call = call
    this.#thinkTags = quirks.think_tags ? new Map() : null
  }

  read({ data }: Frame): TextPart[] {
    if (this.complete) return []
    if (data.trim() === '[DONE]') return this.#done()
    const chunk = parseObject(data)
    return chunk === undefined ? this.#garbage.pass() : this.chunk(chunk)
  }

  /** Returns the parts of a whole answer, which is one chunk with everything. */
  whole(answer: Json): TextPart[] {
    this.#isWhole = true
    return this.chunk(answer)
  }

  /** Returns the parts of one chunk. */
  chunk(chunk: Json): TextPart[] {
    const parts: TextPart[] = []
    const error = chunk.error ?? (isObject(chunk.x_groq) ? chunk.x_groq.error : null)
    if (isObject(error) || typeof error === 'string') throw failureInside(error)
    this.#start(chunk, parts)
    this.#sources(chunk, parts)
    if (Array.isArray(chunk.choices))
      for (const [i, choice] of chunk.choices.entries())
        if (isObject(choice)) this.#choice(choice, i, parts)
    this.#usage(chunk, parts)
    return parts
  }

  #done(): TextPart[] {
    this.complete = true
    const parts: TextPart[] = []
    for (const choice of this.#thinkTags?.keys() ?? []) this.#held(choice, parts)
    return parts
  }

  #start(chunk: Json, parts: TextPart[]): void {
    if (this.#started || isPreamble(chunk)) return
    this.#started = true
    parts.push({
      type: 'start',
      upstream_id: text(chunk.id),
      system_fingerprint: text(chunk.system_fingerprint),
      service_tier: text(chunk.service_tier),
    })
  }

  #choice(given: Json, position: number, parts: TextPart[]): void {
    const choice = choiceAt(given.index, position)
    if (choice === undefined) return
    if (isObject(given.error)) throw failureInside(given.error)
    const delta = this.#saidIn(given)
    this.#reasoning(delta, choice, parts)
    this.#text(delta, given, choice, parts)
    this.#toolCalls(delta, choice, parts)
    this.#media(delta, choice, parts)
    this.#annotations(delta, choice, parts)
    this.#finish(given, choice, parts)
  }

  // A whole answer has a `message` where a chunk has a `delta`. Perplexity sends both in either:
  // all of the text so far, and what is new.
  #saidIn({ delta, message }: Json): Json {
    const [first, second] = this.#isWhole ? [message, delta] : [delta, message]
    return isObject(first) ? first : isObject(second) ? second : {}
  }

  #reasoning(delta: Json, choice: number, parts: TextPart[]): void {
    const said = text(delta.reasoning) || text(delta.reasoning_content) || thoughtIn(delta.content)
    const details = Array.isArray(delta.reasoning_details)
      ? delta.reasoning_details.filter(isDetail)
      : []
    if (said || details.length > 0)
      parts.push({ type: 'reasoning-delta', choice, text: said, details })
  }

  #text(delta: Json, given: Json, choice: number, parts: TextPart[]): void {
    const logprobs = logprobsOf(given.logprobs)
    const beside = logprobs ? { logprobs } : {}
    const said = this.#said(saidIn(delta.content), choice, parts)
    const refused = text(delta.refusal)
    if (refused)
      parts.push({ type: 'refusal-delta', choice, text: refused, ...(said ? {} : beside) })
    if (said || (logprobs && !refused))
      parts.push({ type: 'text-delta', choice, text: said, ...beside })
  }

  // The thinking goes before the text that remains.
  #said(content: string, choice: number, parts: TextPart[]): string {
    if (!this.#thinkTags || content === '') return content
    const tags = this.#thinkTags.get(choice) ?? new ThinkTags()
    this.#thinkTags.set(choice, tags)
    return this.#told(tags.read(content), choice, parts)
  }

  #told(pieces: Piece[], choice: number, parts: TextPart[]): string {
    for (const { thought, text } of pieces)
      if (thought) parts.push({ type: 'reasoning-delta', choice, text, details: [] })
    return pieces.map(({ thought, text }) => (thought ? '' : text)).join('')
  }

  // No more tags can come, so what looked like the beginning of one is text.
  #held(choice: number, parts: TextPart[]): void {
    const tags = this.#thinkTags?.get(choice)
    if (!tags) return
    this.#thinkTags?.delete(choice)
    const said = this.#told(tags.end(), choice, parts)
    if (said) parts.push({ type: 'text-delta', choice, text: said })
  }

  #toolCalls(delta: Json, choice: number, parts: TextPart[]): void {
    const given = isObject(delta.function_call) ? [{ index: 0, function: delta.function_call }] : []
    if (Array.isArray(delta.tool_calls)) given.push(...delta.tool_calls)
    if (given.length === 0) return
    this.#calls ??= new Calls(this.#call)
    for (const [i, call] of given.entries())
      if (isObject(call)) parts.push(...this.#calls.read(call, i, choice))
  }

  #media(delta: Json, choice: number, parts: TextPart[]): void {
    if (isObject(delta.audio))
      parts.push({ type: 'audio-delta', choice, audio: audioOf(delta.audio) })
    if (!Array.isArray(delta.images)) return
    for (const image of delta.images) {
      const url = isObject(image) && isObject(image.image_url) ? text(image.image_url.url) : null
      if (url) parts.push({ type: 'image', choice, url })
    }
  }

  #annotations(delta: Json, choice: number, parts: TextPart[]): void {
    if (!Array.isArray(delta.annotations)) return
    for (const annotation of delta.annotations)
      parts.push({ type: 'annotation', choice, annotation })
  }

  // Perplexity and xAI send their sources beside the choices, sometimes in every chunk. Only the
  // first list counts.
  #sources(chunk: Json, parts: TextPart[]): void {
    if (this.#sourced || (!Array.isArray(chunk.citations) && !Array.isArray(chunk.search_results)))
      return
    const sources = sourcesOf(chunk)
    this.#sourced = sources.length > 0
    for (const annotation of sources) parts.push({ type: 'annotation', choice: 0, annotation })
  }

  #finish(given: Json, choice: number, parts: TextPart[]): void {
    const reason = text(given.finish_reason)
    if (!reason || this.#ended?.has(choice)) return
    this.#ended ??= new Set()
    this.#ended.add(choice)
    this.#held(choice, parts)
    parts.push({
      type: 'finish',
      choice,
      reason: finishReason(reason),
      native: text(given.native_finish_reason) ?? reason,
    })
  }

  // Some servers send usage in every chunk. Each replaces the one before, so the last one counts.
  #usage(chunk: Json, parts: TextPart[]): void {
    const usage = usageOf(countIn(chunk))
    if (!usage || (this.#counted && isNothing(usage))) return
    this.#counted = true
    parts.push({ type: 'usage', usage })
  }
}

// Groq has the usage in an object of its own, Moonshot in the choice.
function countIn({ usage, x_groq, choices }: Json): unknown {
  const [choice] = Array.isArray(choices) ? choices : []
  return (
    usage ??
    (isObject(x_groq) ? x_groq.usage : undefined) ??
    (isObject(choice) ? choice.usage : undefined)
  )
}

const isNothing = (usage: Usage): boolean => inputTokens(usage) + outputTokens(usage) === 0

const isDetail = (value: unknown): value is ReasoningDetail =>
  isObject(value) && typeof value.type === 'string'

// Azure begins with the results of its prompt filters, before the answer has an id.
const isPreamble = ({ id, choices }: Json): boolean =>
  id === '' && Array.isArray(choices) && choices.length === 0

/**
 * Reads the text of a message's content. Mistral sends a list of parts where others send a string.
 */
const saidIn = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : joined(content, part => (part.type === 'text' ? (text(part.text) ?? '') : ''))

/** Reads Mistral's thinking, which stands in parts of the content, each with a list of texts. */
const thoughtIn = (content: unknown): string =>
  joined(content, part => (part.type === 'thinking' ? saidIn(part.thinking) : ''))

const joined = (parts: unknown, words: (part: Json) => string): string =>
  objects(parts).map(words).join('')

/** Reads a piece of audio. Leaves out fields of a wrong type. */
const audioOf = ({ id, data, transcript, expires_at }: Json): AudioDelta => ({
  ...(typeof id === 'string' ? { id } : {}),
  ...(typeof data === 'string' ? { data } : {}),
  ...(typeof transcript === 'string' ? { transcript } : {}),
  ...(typeof expires_at === 'number' ? { expires_at } : {}),
})

/**
 * Reads the logprobs of a choice, which have the same shape as in our parts; undefined for none.
 */
function logprobsOf(given: unknown): Logprobs | undefined {
  if (!isObject(given)) return undefined
  const content = Array.isArray(given.content) ? given.content : null
  const refusal = Array.isArray(given.refusal) ? given.refusal : null
  return content || refusal ? { content, refusal } : undefined
}

const REASONS: Record<string, FinishReason> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  error: 'error',
  // From Mistral, Together and DeepSeek.
  model_length: 'length',
  eos: 'stop',
  insufficient_system_resource: 'error',
}

/**
 * Returns our finish reason for the provider's. An unknown one becomes `stop`; the part keeps the
 * provider's own.
 */
export const finishReason = (native: string): FinishReason => own(REASONS, native) ?? 'stop'

/**
 * Reads the sources that a server lists beside its choices: search results (Perplexity's
 * `search_results`) or plain URLs (`citations`). Returns them in the form that OpenAI's own have
 * within a message.
 */
function sourcesOf({ search_results, citations }: Json): Json[] {
  const found = objects(search_results).flatMap(({ url, title }) => citation(url, title))
  if (found.length > 0) return found
  return (Array.isArray(citations) ? citations : []).flatMap(source =>
    isObject(source) ? citation(source.url, source.title) : citation(source),
  )
}

function citation(url: unknown, title?: unknown): Json[] {
  if (typeof url !== 'string' || !URL.canParse(url)) return []
  return [urlCitation(url, { title: text(title) ?? url })]
}
