import type { GatewayError } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  parseCount,
  parseObject,
  parsePartCount,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { AudioDelta, Logprobs, TextPart } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import {
  countInputTokens,
  countOutputTokens,
  createTextUsage,
  readUnits,
  type Usage,
} from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { PartMender } from '../halves.ts'
import type { Frame, Reader } from '../protocol.ts'
import {
  MAX_PIECES,
  type OwnEnds,
  readChoiceIndex,
  readEnd,
  refuseImpossibleCounts,
  toUrlCitation,
  UnreadableEvents,
} from '../reader.ts'
import { ToolCallReader } from './calls.ts'
import { readStreamFailure } from './failure.ts'
import { CLAUDE_FORMAT } from './request.ts'

/**
 * Returns the parts of a whole `chat.completion`. Throws `provider_unavailable` if the body is no
 * answer, and the error that it contains if there is one.
 */
export function parseAnswer(body: unknown, call: TextCall, endpoint: Endpoint): TextPart[] {
  if (!isAnswer(body)) throw readStreamFailure(body)
  return new ChunkReader(call, endpoint).readWhole(body)
}

const isAnswer = (body: unknown): body is Record<string, unknown> =>
  typeof body === 'object' &&
  body !== null &&
  (('choices' in body && Array.isArray(body.choices) && body.choices.length > 0) ||
    findError(body as Json) !== undefined)

/** Reads `chat.completion.chunk` events, with one small method for each thing in a chunk. */
export class ChunkReader implements Reader<TextPart> {
  complete = false
  failure: GatewayError | null = null
  readonly #call: TextCall
  /** Created with the first call. Most answers have none. */
  #calls: ToolCallReader | null = null
  /** The choice of the last chunk: most answers have one choice. */
  #current = -1
  /** The choices that have begun, and whether each has ended. Some servers send the end twice. */
  readonly #choices = new Map<number, boolean>()
  /** How many of them have not ended. */
  #open = 0
  /** A bit for each choice that has output. No answer without words has more choices than bits. */
  #spoken = 0
  readonly #ownEnds: OwnEnds
  #mender: PartMender | null = null
  /** Separates thinking from text, by choice, for servers that leave it in tags. */
  readonly #thinkTags: Map<number, ThinkTags> | null
  #isWhole = false
  #hasStarted = false
  #hasSources = false
  #hasUsage = false
  /** How many of Claude's thoughts have been signed: each is an entry of its own. */
  #signed = 0
  readonly #unreadable = new UnreadableEvents()

  constructor(call: TextCall, { provider: { quirks, finish_reasons } }: Endpoint) {
    this.#call = call
    this.#ownEnds = finish_reasons
    this.#thinkTags = quirks.think_tags ? new Map() : null
  }

  read({ data, json }: Frame): TextPart[] {
    if (this.complete) return []
    if (data.trim() === '[DONE]') return this.#readDone()
    const chunk = json === undefined ? parseObject(data) : json
    if (chunk == null) return this.#unreadable.skip()
    const parts = this.readChunk(chunk)
    return this.#mender ? this.#mender.read(parts) : parts
  }

  /**
   * Returns the parts of a whole answer, which is one chunk with everything. Throws
   * `provider_unavailable` if its calls are broken.
   */
  readWhole(answer: Json): TextPart[] {
    this.#isWhole = true
    const parts = this.readChunk(answer)
    if (this.#open > 0) this.#endOpenChoices(parts)
    if (this.failure) throw this.failure
    return parts
  }

  /** Returns the parts of one chunk. */
  readChunk(chunk: Json): TextPart[] {
    const parts: TextPart[] = []
    // Almost no chunk has any of these.
    if (chunk.object === 'error' || (chunk.error ?? chunk.errors ?? chunk.x_groq) != null)
      throwError(chunk)
    if (!this.#hasStarted) this.#readStart(chunk, parts)
    const { choices, x_groq, citations, search_results } = chunk
    if ((citations ?? search_results) != null) this.#readSources(chunk, parts)
    // Groq has the usage in an object of its own, Moonshot in the choice.
    let usage = chunk.usage ?? (x_groq == null ? null : (x_groq as Json).usage)
    if (Array.isArray(choices))
      for (let i = 0; i < choices.length; i++) {
        const choice: Json | null = choices[i]
        if (typeof choice !== 'object' || choice === null) continue
        if (i === 0) usage ??= choice.usage
        this.#readChoice(choice, i, parts)
      }
    if (usage != null) this.#readUsage(usage, parts)
    return parts
  }

  #readDone(): TextPart[] {
    const parts: TextPart[] = []
    if (this.#open > 0) this.#endOpenChoices(parts)
    this.complete = this.failure === null
    return this.#mender ? [...this.#mender.read(parts), ...this.#mender.end()] : parts
  }

  /**
   * Completes an answer whose choices have all said why they ended: some servers leave [DONE] out
   * then. One that was cut off has an open choice.
   */
  end(isFramed = true): TextPart[] {
    this.complete ||=
      isFramed &&
      this.failure === null &&
      this.#open === 0 &&
      this.#choices.size > 0 &&
      [...this.#choices.keys()].every(choice => this.#calls?.areWhole(choice) ?? true)
    return []
  }

  // It is said that the answer is whole, but not why it has ended: by itself then, or to have its
  // tools called. One without output stays without an end: another endpoint may do better.
  #endOpenChoices(parts: TextPart[]): void {
    for (const [choice, hasEnded] of this.#choices) {
      if (hasEnded) continue
      this.#flushThinkTags(choice, parts)
      const finish: Finish = { type: 'finish', choice, reason: 'stop', native: null }
      if (this.#calls?.areWhole(choice) === false) this.failure ??= unreadableAnswer()
      else if ((this.#spoken & (1 << (choice & 31))) === 0) continue
      else if (this.#calls) this.#endCalls(finish, this.#calls, parts)
      else parts.push(finish)
    }
  }

  #readStart(chunk: Json, parts: TextPart[]): void {
    if (isPreamble(chunk)) return
    this.#hasStarted = true
    parts.push({
      type: 'start',
      upstream_id: readString(chunk.id),
      system_fingerprint: readString(chunk.system_fingerprint),
      service_tier: readString(chunk.service_tier),
    })
  }

  #readChoice(value: Json, position: number, parts: TextPart[]): void {
    // Almost always that of the chunk before.
    const isCurrent = value.index === this.#current && this.#current !== -1
    const choice = isCurrent ? this.#current : readChoiceIndex(value.index, position)
    if (choice === undefined) return
    if (value.error != null && isError(value.error)) throw readStreamFailure(value.error)
    if (choice !== this.#current) {
      this.#current = choice
      if (!this.#choices.has(choice)) this.#open += 1
      this.#choices.set(choice, this.#choices.get(choice) ?? false)
    }
    const before = parts.length
    const delta = this.#pickMessage(value)
    // What most chunks have none of is not looked for further.
    const { reasoning, reasoning_content, reasoning_details, thinking_blocks } = delta
    const thoughts = reasoning ?? reasoning_content ?? reasoning_details ?? thinking_blocks
    if (thoughts != null || Array.isArray(delta.content)) this.#readReasoning(delta, choice, parts)
    this.#readText(delta, value, choice, parts)
    if ((delta.function_call ?? delta.tool_calls) != null) this.#readToolCalls(delta, choice, parts)
    if ((delta.audio ?? delta.images) != null) this.#readMedia(delta, choice, parts)
    if (delta.annotations != null) this.#readAnnotations(delta, choice, parts)
    if (parts.length > before) this.#spoken |= 1 << (choice & 31)
    if (value.finish_reason != null) this.#readFinish(value, choice, parts)
  }

  // A whole answer has a `message` where a chunk has a `delta`. Perplexity sends both in either:
  // all of the text so far, and what is new.
  #pickMessage({ delta, message }: Json): Json {
    const [first, second] = this.#isWhole ? [message, delta] : [delta, message]
    return isObject(first) ? first : isObject(second) ? second : {}
  }

  #readReasoning(delta: Json, choice: number, parts: TextPart[]): void {
    const content =
      readString(delta.reasoning) ||
      readString(delta.reasoning_content) ||
      readThinking(delta.content)
    const { reasoning_details, thinking_blocks } = delta
    const details = (reasoning_details ?? thinking_blocks) ? this.#readDetails(delta) : NO_DETAILS
    if (!content && details.length === 0) return
    if (!content.isWellFormed()) this.#mender ??= new PartMender()
    parts.push({ type: 'reasoning-delta', choice, text: content, details })
  }

  #readDetails({ reasoning_details, thinking_blocks }: Json): ReasoningDetail[] {
    return Array.isArray(reasoning_details)
      ? reasoning_details.filter(isDetail)
      : readObjects(thinking_blocks).flatMap(block => this.#toDetail(block))
  }

  // LiteLLM sends Claude's thoughts in a field of its own, in pieces of which the last is signed.
  #toDetail({ type, thinking, signature, data }: Json): ReasoningDetail[] {
    const entry = { format: CLAUDE_FORMAT, index: this.#signed }
    const isSigned = typeof signature === 'string' && signature !== ''
    if (isSigned || type === 'redacted_thinking') this.#signed += 1
    if (type === 'redacted_thinking') return [{ type: 'reasoning.encrypted', data, ...entry }]
    if (type !== 'thinking') return []
    const text = readString(thinking) ?? ''
    return [{ type: 'reasoning.text', text, ...(isSigned ? { signature } : {}), ...entry }]
  }

  #readText(delta: Json, value: Json, choice: number, parts: TextPart[]): void {
    const logprobs = value.logprobs == null ? undefined : readLogprobs(value.logprobs)
    const said = typeof delta.content === 'string' ? delta.content : readText(delta.content)
    // Servers that write every character beyond ASCII as escapes may cut one in two.
    if (!said.isWellFormed()) this.#mender ??= new PartMender()
    const content = this.#thinkTags ? this.#separateThinking(said, choice, parts) : said
    const refusal = typeof delta.refusal === 'string' ? delta.refusal : null
    if (refusal && !refusal.isWellFormed()) this.#mender ??= new PartMender()
    if (refusal)
      parts.push({
        type: 'refusal-delta',
        choice,
        text: refusal,
        ...(logprobs && !content ? { logprobs } : {}),
      })
    if (logprobs && (content || !refusal))
      parts.push({ type: 'text-delta', choice, text: content, logprobs })
    else if (content) parts.push({ type: 'text-delta', choice, text: content })
  }

  // The thinking goes before the text that remains.
  #separateThinking(content: string, choice: number, parts: TextPart[]): string {
    if (!this.#thinkTags || content === '') return content
    const tags = this.#thinkTags.get(choice) ?? new ThinkTags()
    this.#thinkTags.set(choice, tags)
    return this.#pushThinking(tags.read(content), choice, parts)
  }

  #pushThinking(pieces: TextPiece[], choice: number, parts: TextPart[]): string {
    for (const { isThinking, text } of pieces)
      if (isThinking) parts.push({ type: 'reasoning-delta', choice, text, details: [] })
    return pieces.map(({ isThinking, text }) => (isThinking ? '' : text)).join('')
  }

  // No more tags can come, so what looked like the beginning of one is text.
  #flushThinkTags(choice: number, parts: TextPart[]): void {
    const tags = this.#thinkTags?.get(choice)
    if (!tags) return
    this.#thinkTags?.delete(choice)
    const content = this.#pushThinking(tags.end(), choice, parts)
    if (content) parts.push({ type: 'text-delta', choice, text: content })
  }

  #readToolCalls(delta: Json, choice: number, parts: TextPart[]): void {
    const { function_call, tool_calls } = delta
    const pieces: unknown[] = Array.isArray(tool_calls) ? tool_calls : []
    if (pieces.length > MAX_PIECES) throw unreadableAnswer()
    const calls = isObject(function_call)
      ? [{ index: 0, function: function_call }, ...pieces]
      : pieces
    if (calls.length === 0) return
    this.#calls ??= new ToolCallReader(this.#call, !this.#isWhole)
    for (const [i, call] of calls.entries())
      if (isObject(call))
        for (const part of this.#calls.read(call, i, choice)) {
          if ('input' in part && !part.input.isWellFormed()) this.#mender ??= new PartMender()
          parts.push(part)
        }
    this.failure ??= this.#calls.failure
  }

  #readMedia(delta: Json, choice: number, parts: TextPart[]): void {
    if (isObject(delta.audio))
      parts.push({ type: 'audio-delta', choice, audio: readAudio(delta.audio) })
    if (!Array.isArray(delta.images)) return
    for (const image of delta.images) {
      const url =
        isObject(image) && isObject(image.image_url) ? readString(image.image_url.url) : null
      if (url) parts.push({ type: 'image', choice, url })
    }
  }

  #readAnnotations(delta: Json, choice: number, parts: TextPart[]): void {
    if (!Array.isArray(delta.annotations)) return
    for (const annotation of delta.annotations)
      parts.push({ type: 'annotation', choice, annotation })
  }

  // Perplexity and xAI send their sources beside the choices, sometimes in every chunk. Only the
  // first list counts.
  #readSources(chunk: Json, parts: TextPart[]): void {
    if (
      this.#hasSources ||
      (!Array.isArray(chunk.citations) && !Array.isArray(chunk.search_results))
    )
      return
    const sources = readSources(chunk)
    this.#hasSources = sources.length > 0
    for (const annotation of sources) parts.push({ type: 'annotation', choice: 0, annotation })
  }

  #readFinish(value: Json, choice: number, parts: TextPart[]): void {
    const { finish_reason: word, native_finish_reason } = value
    if (typeof word !== 'string' || word === '' || this.#choices.get(choice)) return
    const end = readEnd(word, this.#ownEnds)
    if (!end) return
    this.#choices.set(choice, true)
    this.#open -= 1
    this.#flushThinkTags(choice, parts)
    const native = typeof native_finish_reason === 'string' ? native_finish_reason : word
    const finish: Finish = { type: 'finish', choice, ...end, native }
    if (this.#calls) this.#endCalls(finish, this.#calls, parts)
    else parts.push(finish)
  }

  #endCalls(finish: Finish, calls: ToolCallReader, parts: TextPart[]): void {
    for (const part of calls.end(finish)) parts.push(part)
    this.failure ??= calls.failure
  }

  // Some servers send usage in every chunk. Each replaces the one before, so the last one counts.
  #readUsage(counted: unknown, parts: TextPart[]): void {
    const usage = readUsage(counted)
    if (!usage || (this.#hasUsage && isZero(usage))) return
    this.#hasUsage = true
    parts.push({ type: 'usage', usage })
  }
}

type Finish = Extract<TextPart, { type: 'finish' }>

// Groq has it in an object of its own, and servers of vLLM's older API are an error themselves.
function findError(chunk: Json): unknown {
  const { error, errors, x_groq } = chunk
  if (chunk.object === 'error') return chunk
  return [error, errors, isObject(x_groq) ? x_groq.error : undefined].find(isError)
}

function throwError(chunk: Json): void {
  const error = findError(chunk)
  if (error !== undefined) throw readStreamFailure(error)
}

const isError = (value: unknown): boolean =>
  typeof value === 'string'
    ? value !== ''
    : Array.isArray(value)
      ? value.length > 0
      : isObject(value)

const isZero = (usage: Usage): boolean => countInputTokens(usage) + countOutputTokens(usage) === 0

const NO_DETAILS: ReasoningDetail[] = []

const isDetail = (value: unknown): value is ReasoningDetail =>
  isObject(value) && typeof value.type === 'string'

// Azure begins with the results of its prompt filters, before the answer has an id.
const isPreamble = ({ id, choices }: Json): boolean =>
  id === '' && Array.isArray(choices) && choices.length === 0

/**
 * Reads the text of a message's content. Mistral sends a list of parts where others send a string.
 */
const readText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : joinTexts(content, part => (part.type === 'text' ? (readString(part.text) ?? '') : ''))

/** Reads Mistral's thinking, which stands in parts of the content, each with a list of texts. */
const readThinking = (content: unknown): string =>
  joinTexts(content, part => (part.type === 'thinking' ? readText(part.thinking) : ''))

const joinTexts = (parts: unknown, readPart: (part: Json) => string): string =>
  Array.isArray(parts) ? readObjects(parts).map(readPart).join('') : ''

/** Reads a piece of audio. Leaves out fields of a wrong type. */
const readAudio = ({ id, data, transcript, expires_at }: Json): AudioDelta => ({
  ...(typeof id === 'string' ? { id } : {}),
  ...(typeof data === 'string' ? { data } : {}),
  ...(typeof transcript === 'string' ? { transcript } : {}),
  ...(typeof expires_at === 'number' ? { expires_at } : {}),
})

/**
 * Reads the logprobs of a choice, which have the same shape as in our parts; undefined for none.
 */
function readLogprobs(value: unknown): Logprobs | undefined {
  if (!isObject(value)) return undefined
  const content = Array.isArray(value.content) ? value.content : null
  const refusal = Array.isArray(value.refusal) ? value.refusal : null
  return content || refusal ? { content, refusal } : undefined
}

/**
 * Reads the sources that a server lists beside its choices: search results (Perplexity's
 * `search_results`) or plain URLs (`citations`). Returns them in the form that OpenAI's own have
 * within a message.
 */
function readSources({ search_results, citations }: Json): Json[] {
  const found = readObjects(search_results).flatMap(({ url, title }) => toCitations(url, title))
  if (found.length > 0) return found
  return (Array.isArray(citations) ? citations : []).flatMap(source =>
    isObject(source) ? toCitations(source.url, source.title) : toCitations(source),
  )
}

function toCitations(url: unknown, title?: unknown): Json[] {
  if (typeof url !== 'string' || !URL.canParse(url)) return []
  return [toUrlCitation(url, { title: readString(title) ?? url })]
}

/**
 * Reads an OpenAI usage object into disjoint classes. There `prompt_tokens` includes cached,
 * written and audio tokens. `completion_tokens` includes reasoning and audio, though some servers
 * leave reasoning out. Undefined without counts.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json): Usage | undefined {
  const prompt = parseCount(usage.prompt_tokens)
  const completion = parseCount(usage.completion_tokens)
  if (prompt === undefined || completion === undefined) return undefined
  if (isPlainCount(usage)) return createTextUsage(prompt, completion)
  const counted = {
    input: readInput(prompt, usage),
    output: readOutput(prompt, completion, usage),
    prediction: readPrediction(usage.completion_tokens_details),
  }
  // OpenRouter's name, then Perplexity's.
  const { server_tool_use, num_search_queries } = usage
  if ((server_tool_use ?? num_search_queries) == null) return counted
  const searches = parseCount(readDetails(server_tool_use).web_search_requests)
  return { ...counted, ...readUnits({ search: searches ?? parseCount(num_search_queries) }) }
}

// Many servers count nothing but these.
function isPlainCount(usage: Json): boolean {
  for (const name in usage) if (!PLAIN_COUNTS.has(name) && usage[name] !== null) return false
  return true
}

const PLAIN_COUNTS = new Set(['prompt_tokens', 'completion_tokens', 'total_tokens'])

const NONE: Json = {}

/** Most usages have no details of a kind. */
const readDetails = (details: unknown): Json => (isObject(details) ? details : NONE)

function readInput(prompt: number, usage: Json): Usage['input'] {
  const details = readDetails(usage.prompt_tokens_details)
  const cache_read = parsePartCount(prompt, findCachedTokens(usage, details))
  const written = parsePartCount(prompt - cache_read, findWrittenTokens(details))
  const cache_write_1h = parsePartCount(
    written,
    readDetails(details.cache_creation_token_details).ephemeral_1h_input_tokens,
  )
  const audio = parsePartCount(prompt - cache_read - written, details.audio_tokens)
  const video = parsePartCount(prompt - cache_read - written - audio, details.video_tokens)
  const text = prompt - cache_read - written - audio - video
  const image = parsePartCount(text, details.image_tokens)
  return {
    text: text - image,
    cache_read,
    cache_write: written - cache_write_1h,
    cache_write_1h,
    audio,
    video,
    ...(image > 0 ? { image } : {}),
  }
}

// Moonshot's and Mistral's names, the common one, another of Mistral, DeepSeek's: the first that is
// present counts.
const findCachedTokens = (usage: Json, details: Json): unknown =>
  usage.cached_tokens ??
  usage.num_cached_tokens ??
  details.cached_tokens ??
  (usage.prompt_token_details as Json | null | undefined)?.cached_tokens ??
  usage.prompt_cache_hit_tokens

// The common name, Alibaba's, LiteLLM's, which also counts those of an hour apart.
const findWrittenTokens = (details: Json): unknown =>
  details.cache_write_tokens ?? details.cache_creation_input_tokens ?? details.cache_creation_tokens

function readOutput(prompt: number, completion: number, usage: Json): Usage['output'] {
  const details = readDetails(usage.completion_tokens_details)
  const reported = parseCount(details.reasoning_tokens) ?? 0
  const separate = countSeparateReasoning(prompt, completion, reported, usage)
  const total = completion + separate
  const reasoning = separate > 0 ? separate : Math.min(reported, total)
  const audio = parsePartCount(total - reasoning, details.audio_tokens)
  const image = parsePartCount(total - reasoning - audio, details.image_tokens)
  return { text: total - reasoning - audio - image, reasoning, audio, image }
}

/**
 * Returns the reasoning tokens that `completion_tokens` leaves out. The total shows them, except
 * Perplexity's, which leaves them out too.
 */
function countSeparateReasoning(
  prompt: number,
  completion: number,
  reported: number,
  usage: Json,
): number {
  if (reported > 0)
    return parseCount(usage.total_tokens) === prompt + completion + reported ? reported : 0
  // Fields that only Perplexity sends.
  return 'citation_tokens' in usage ||
    'num_search_queries' in usage ||
    'search_context_size' in usage
    ? (parseCount(usage.reasoning_tokens) ?? 0)
    : 0
}

function readPrediction(counted: unknown): Usage['prediction'] {
  if (counted == null) return null
  const details = readDetails(counted)
  const accepted = parseCount(details.accepted_prediction_tokens)
  const rejected = parseCount(details.rejected_prediction_tokens)
  return accepted || rejected ? { accepted: accepted ?? 0, rejected: rejected ?? 0 } : null
}

const OPEN = '<think>'
const CLOSE = '</think>'

/** A piece of text, and whether it is thinking or answer. */
interface TextPiece {
  isThinking: boolean
  text: string
}

/**
 * Separates thinking from text for servers that put it between `<think>` and `</think>` at the
 * beginning of an answer, however the tags are split across chunks. Holds back what could still
 * become a tag, never more than a tag's length.
 */
export class ThinkTags {
  #state: 'begin' | 'opened' | 'thinking' | 'closed' | 'text' = 'begin'
  #held = ''

  /** Returns the pieces that this text completes. */
  read(text: string): TextPiece[] {
    if (this.#state === 'text') return toPieces(false, text)
    this.#held += text
    const pieces: TextPiece[] = []
    while (this.#step(pieces));
    return pieces
  }

  /** Returns what was held back. No more tags can come. */
  end(): TextPiece[] {
    const pieces = toPieces(this.#state === 'thinking', this.#held)
    this.#held = ''
    return pieces
  }

  /** Makes one state transition. Returns false when more text is needed. */
  #step(pieces: TextPiece[]): boolean {
    switch (this.#state) {
      case 'begin':
        return this.#readBeginning()
      case 'opened':
        return this.#skipSpace('thinking')
      case 'thinking':
        return this.#readThinking(pieces)
      case 'closed':
        return this.#skipSpace('text')
      case 'text':
        pieces.push(...toPieces(false, this.#held))
        this.#held = ''
        return false
    }
  }

  #readBeginning(): boolean {
    const start = this.#held.trimStart()
    if (start.startsWith(OPEN)) {
      this.#state = 'opened'
      this.#held = start.slice(OPEN.length)
      return true
    }
    if (OPEN.startsWith(start)) return false
    this.#state = 'text'
    return true
  }

  #readThinking(pieces: TextPiece[]): boolean {
    const end = this.#held.indexOf(CLOSE)
    const sure = end === -1 ? this.#held.length - countTagPrefix(this.#held) : end
    pieces.push(...toPieces(true, this.#held.slice(0, sure)))
    this.#held = this.#held.slice(end === -1 ? sure : end + CLOSE.length)
    if (end !== -1) this.#state = 'closed'
    return end !== -1
  }

  // The line breaks beside a tag belong to neither the thinking nor the answer.
  #skipSpace(next: 'thinking' | 'text'): boolean {
    this.#held = this.#held.trimStart()
    if (this.#held === '') return false
    this.#state = next
    return true
  }
}

/** Counts how many of the last characters could begin the closing tag. */
function countTagPrefix(text: string): number {
  for (let length = Math.min(CLOSE.length - 1, text.length); length > 0; length--)
    if (CLOSE.startsWith(text.slice(-length))) return length
  return 0
}

const toPieces = (isThinking: boolean, text: string): TextPiece[] =>
  text === '' ? [] : [{ isThinking, text }]
