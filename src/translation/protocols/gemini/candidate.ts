import {
  isObject,
  isRawJson,
  type Json,
  parseCount,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Logprobs, TextPart } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import { unreadableAnswer } from '../failure.ts'
import {
  type End,
  isWebAddress,
  MAX_CALLS,
  MAX_HELD,
  type OwnEnds,
  readEnd,
  toUrlCitation,
} from '../reader.ts'
import { buildCallId } from '../tools.ts'
import { buildMediaId, REASONING_FORMAT } from './messages.ts'

/** Arguments arrive for one call after another. At most this many calls may be open at once. */
const MAX_OPEN = 8

/** A call whose arguments are still arriving. */
interface OpenCall {
  value: Json
  signature: string | null
  args: PartialArgs
}

/** A tool run by Google itself whose result is still to come. */
interface ServerCall {
  name: string
  id: string
  arguments: string
}

/** Reads one alternative of an answer, with one small method for each kind of part. */
export class CandidateReader {
  readonly #choice: number
  readonly #context: AnswerContext
  readonly #citations: CitationReader
  readonly #openCalls: OpenCall[] = []
  #serverCall: ServerCall | null = null
  #calls = 0
  #media = 0
  /** Whether one of the client's tools was called. */
  #hasCalls = false
  /**
   * The number of reasoning entries. A thought continues until its signature or another kind of
   * part arrives.
   */
  #entries = 0
  #isThinking = false
  /** What it says beside the tool that stands for the answer, and whether that was called. */
  #held = ''
  #hasAnswered = false
  #finish: string | null = null
  /** Whether it has emitted anything. */
  hasOutput = false

  constructor(choice: number, context: AnswerContext) {
    this.#choice = choice
    this.#context = context
    this.#citations = new CitationReader(choice)
  }

  /** Whether it has reported a finish reason. */
  get hasEnded(): boolean {
    return this.#finish !== null
  }

  /** Whether a call has begun, the rest of which is missing, and nothing says why. */
  get isCut(): boolean {
    const { reason } = this.#readEnd()
    return this.#openCalls.length > 0 && (reason === 'stop' || reason === 'tool_calls')
  }

  /** Returns the parts that one event, or the whole answer, contains for this alternative. */
  read(value: Json): TextPart[] {
    const parts: TextPart[] = []
    for (const part of readObjects(readObject(value, 'content').parts)) this.#readPart(part, parts)
    this.#readLogprobs(value, parts)
    parts.push(...this.#citations.readNew(value))
    this.#finish = readString(value.finishReason) ?? this.#finish
    this.hasOutput ||= parts.length > 0 || this.#held !== ''
    return parts
  }

  /**
   * Returns the parts that the end of the answer completes. A call with truncated arguments is
   * dropped: if it were run, it would do something else.
   */
  finish(): TextPart[] {
    const parts: TextPart[] = []
    this.#endServerCall('', parts)
    if (this.#held !== '' && !this.#hasAnswered) this.#emitText(this.#held, parts)
    parts.push({ type: 'finish', choice: this.#choice, ...this.#readEnd(), native: this.#finish })
    return parts
  }

  // Google says STOP for tool calls too, even if they came in an earlier event.
  #readEnd(): End {
    const end = readEnd(this.#finish, this.#context.ownEnds) ?? { reason: 'stop' }
    return end.reason === 'stop' && this.#hasCalls ? { reason: 'tool_calls' } : end
  }

  // The order of precedence is that of Google's own client.
  #readPart(part: Json, parts: TextPart[]): void {
    const signature = readString(part.thoughtSignature) || null
    if (isObject(part.functionCall)) this.#readFunctionCall(part.functionCall, signature, parts)
    else if (isObject(part.inlineData)) this.#readInlineData(part, signature, parts)
    else if (isObject(part.executableCode))
      this.#beginServerCall('code_execution', part.executableCode, null, signature, parts)
    else if (isObject(part.codeExecutionResult))
      this.#endServerCall(JSON.stringify(part.codeExecutionResult), parts)
    else if (isObject(part.toolCall)) this.#readToolCall(part.toolCall, signature, parts)
    else if (isObject(part.toolResponse))
      this.#endServerCall(JSON.stringify(part.toolResponse.response ?? {}), parts)
    else if (part.thought === true) this.#readThought(readString(part.text) ?? '', signature, parts)
    else this.#readText(readString(part.text) ?? '', signature, parts)
  }

  #readThought(content: string, signature: string | null, parts: TextPart[]): void {
    if (content === '' && signature === null) return
    if (!this.#isThinking) this.#entries += 1
    this.#isThinking = signature === null
    const signed = signature === null ? {} : { signature }
    this.#emitReasoning(
      content,
      {
        type: 'reasoning.text',
        text: content,
        ...signed,
        format: REASONING_FORMAT,
        index: this.#entries - 1,
      },
      parts,
    )
  }

  #readText(content: string, signature: string | null, parts: TextPart[]): void {
    // If a tool stands for the answer, other text is not part of it, unless the tool is not called.
    if (this.#context.answerTool !== null) this.#holdBack(content)
    else if (content !== '') this.#emitText(content, parts)
    if (signature !== null) this.#emitSignature(signature, null, parts)
  }

  #holdBack(content: string): void {
    if (this.#held.length + content.length > MAX_HELD) throw unreadableAnswer()
    this.#held += content
  }

  #emitText(content: string, parts: TextPart[]): void {
    this.#isThinking = false
    this.#citations.appendText(content)
    parts.push({ type: 'text-delta', choice: this.#choice, text: content })
  }

  /**
   * Emits the signature of a part that is not a thought, as an entry of its own. The entry names
   * the call that the signature belongs to.
   */
  #emitSignature(data: string, id: string | null, parts: TextPart[]): void {
    const belonging = id === null ? {} : { id }
    this.#emitReasoning(
      '',
      {
        type: 'reasoning.encrypted',
        data,
        ...belonging,
        format: REASONING_FORMAT,
        index: this.#nextEntry(),
      },
      parts,
    )
  }

  #emitReasoning(content: string, detail: ReasoningDetail, parts: TextPart[]): void {
    parts.push({ type: 'reasoning-delta', choice: this.#choice, text: content, details: [detail] })
  }

  #nextEntry(): number {
    this.#isThinking = false
    this.#entries += 1
    return this.#entries - 1
  }

  // A call arrives whole, or as a name whose arguments follow in pieces. The last piece says that
  // it is the last.
  #readFunctionCall(value: Json, signature: string | null, parts: TextPart[]): void {
    const { partialArgs, willContinue } = value
    const name = readString(value.name)
    if (name !== null && partialArgs == null && willContinue !== true) {
      this.#emitCall(value, renderInput(value.args), signature, parts)
      return
    }
    if (name !== null && this.#openCalls.length < MAX_OPEN)
      this.#openCalls.push({ value, signature, args: new PartialArgs() })
    const open = this.#openCalls.at(-1)
    if (!open) return
    open.args.add(partialArgs)
    if (
      willContinue !== true &&
      !readObjects(partialArgs).some(piece => piece.willContinue === true)
    )
      this.#closeCall(open, parts)
  }

  #closeCall({ value, signature, args }: OpenCall, parts: TextPart[]): void {
    this.#openCalls.pop()
    this.#emitCall(value, args.input, signature, parts)
  }

  #emitCall(value: Json, input: string, signature: string | null, parts: TextPart[]): void {
    const name = readString(value.name) ?? ''
    // The client never sees this call, so its signature could not come back either.
    if (name === this.#context.answerTool) {
      this.#hasAnswered = true
      this.#emitText(input, parts)
    } else if (this.#calls < MAX_CALLS) this.#emitToolCall(value, input, signature, parts)
  }

  #emitToolCall(value: Json, input: string, signature: string | null, parts: TextPart[]): void {
    const index = this.#calls
    // Google's older models and Vertex send no ids.
    const id = readString(value.id) || buildCallId(this.#context.call, `${this.#choice}_${index}`)
    this.#calls += 1
    this.#hasCalls = true
    this.#isThinking = false
    parts.push({
      type: 'tool-call-start',
      choice: this.#choice,
      index,
      id,
      name: this.#context.getClientToolName(readString(value.name) ?? ''),
    })
    parts.push({ type: 'tool-call-delta', choice: this.#choice, index, input })
    if (signature !== null) this.#emitSignature(signature, id, parts)
  }

  #readInlineData(part: Json, signature: string | null, parts: TextPart[]): void {
    const { mimeType, data } = readObject(part, 'inlineData')
    const type = readString(mimeType) ?? ''
    // An image drawn while thinking is not part of the answer.
    if (part.thought === true || typeof data !== 'string') return
    this.#emitMedia(type, data, parts)
    if (signature !== null) this.#emitSignature(signature, buildMediaId(this.#media), parts)
    this.#media += 1
  }

  #emitMedia(type: string, data: string, parts: TextPart[]): void {
    this.#isThinking = false
    if (type.startsWith('audio/'))
      parts.push({ type: 'audio-delta', choice: this.#choice, audio: { data } })
    else if (type.startsWith('image/'))
      parts.push({ type: 'image', choice: this.#choice, url: `data:${type};base64,${data}` })
  }

  #readToolCall({ toolType, id, args }: Json, signature: string | null, parts: TextPart[]): void {
    this.#beginServerCall(
      readString(toolType) ?? '',
      isObject(args) ? args : {},
      readString(id),
      signature,
      parts,
    )
  }

  #beginServerCall(
    name: string,
    value: Json,
    id: string | null,
    signature: string | null,
    parts: TextPart[],
  ): void {
    this.#endServerCall('', parts)
    this.#serverCall = {
      name,
      id: id || `server_${this.#choice}_${this.#entries}`,
      arguments: JSON.stringify(value),
    }
    if (signature !== null) this.#emitSignature(signature, this.#serverCall.id, parts)
  }

  // A tool that Google ran itself is neither a call of the client's nor text. It becomes a
  // reasoning entry, from which it is sent back.
  #endServerCall(result: string, parts: TextPart[]): void {
    if (!this.#serverCall) return
    const { name, id, arguments: input } = this.#serverCall
    this.#serverCall = null
    const entry = {
      tool_name: name,
      tool_call_id: id,
      arguments: input,
      result,
      format: REASONING_FORMAT,
      index: this.#nextEntry(),
    }
    this.#emitReasoning('', { type: 'reasoning.server_tool_call', ...entry }, parts)
  }

  #readLogprobs(value: Json, parts: TextPart[]): void {
    const logprobs = readLogprobs(value.logprobsResult)
    if (!logprobs) return
    const at = parts.findIndex(part => part.type === 'text-delta')
    const content = parts[at]
    if (content?.type === 'text-delta') parts[at] = { ...content, logprobs }
    else parts.push({ type: 'text-delta', choice: this.#choice, text: '', logprobs })
  }
}

const renderInput = (args: unknown): string =>
  typeof args === 'string' ? args : JSON.stringify(args ?? {})

/**
 * Returns Google's `logprobsResult` as the chat API's `{ content }`: each chosen token with its
 * alternatives. Undefined if there is none.
 */
function readLogprobs(logprobs: unknown): Logprobs | undefined {
  if (!isObject(logprobs) || !Array.isArray(logprobs.chosenCandidates)) return undefined
  const alternatives = Array.isArray(logprobs.topCandidates) ? logprobs.topCandidates : []
  const content = logprobs.chosenCandidates.map((chosen, i) => ({
    ...toTokenLogprob(isObject(chosen) ? chosen : {}),
    top_logprobs: readObjects(isObject(alternatives[i]) ? alternatives[i].candidates : []).map(
      toTokenLogprob,
    ),
  }))
  return { content }
}

const toTokenLogprob = ({ token, logProbability }: Json) => {
  const chosenText = readString(token) ?? ''
  return {
    token: chosenText,
    logprob: typeof logProbability === 'number' ? logProbability : 0,
    bytes: [...new TextEncoder().encode(chosenText)],
  }
}

/** What reading an answer depends on. */
export interface AnswerContext {
  call: TextCall
  /** Returns the client's name of a tool. */
  getClientToolName: (name: string) => string
  /** The name of the tool whose input is the answer, or null if none is used. */
  answerTool: string | null
  /** The finish reasons of the provider's own words. */
  ownEnds?: OwnEnds
}

type PathStep = string | number
type Container = Json | unknown[]

/** Longer or more deeply nested arguments are no real tool call. */
const MAX_CHARACTERS = 4 * 1024 * 1024
const DEEPEST = 64
const LONGEST_PATH = 1024

/**
 * Assembles the arguments of a call that arrive in pieces (`functionCall.partialArgs`). Each piece
 * names a location by JSONPath and gives a value, or more of a string. Throws
 * `provider_unavailable` if they exceed any plausible size.
 */
class PartialArgs {
  readonly #root: Json = Object.create(null)
  #characters = 0

  /** Adds the next pieces. */
  add(pieces: unknown): void {
    for (const piece of readObjects(pieces)) this.#addPiece(piece)
  }

  /** Returns the arguments as JSON text. */
  get input(): string {
    return JSON.stringify(this.#root)
  }

  #addPiece(piece: Json): void {
    const path = readString(piece.jsonPath) ?? ''
    this.#countCharacters(path.length + (readString(piece.stringValue)?.length ?? 0))
    if (path.length > LONGEST_PATH) throw unreadableAnswer()
    const steps = parsePath(path)
    const last = steps.pop()
    if (last === undefined) return
    const container = this.#findContainer(steps, last)
    if (container) setMember(container, last, computeValue(piece, path, getMember(container, last)))
  }

  #countCharacters(by: number): void {
    this.#characters += by
    if (this.#characters > MAX_CHARACTERS) throw unreadableAnswer()
  }

  /**
   * Returns the container of a value, and creates it if it is missing. Undefined if another value
   * is in the way.
   */
  #findContainer(steps: PathStep[], last: PathStep): Container | undefined {
    if (steps.length > DEEPEST) throw unreadableAnswer()
    let container: Container = this.#root
    for (const [i, step] of steps.entries()) {
      const next: unknown =
        getMember(container, step) ??
        (typeof (steps[i + 1] ?? last) === 'number' ? [] : Object.create(null))
      if (!isContainer(next) || !setMember(container, step, next)) return undefined
      container = next
    }
    return container
  }
}

const STEP = /\[(\d{1,9})\]|\[(['"])(.*?)\2\]|[^.[\]]+/g

/**
 * Parses `$.items[0].name` into `['items', 0, 'name']`. A path that ends in `[]` addresses the
 * list.
 */
const parsePath = (path: string): PathStep[] =>
  [...path.replace(/^\$/, '').matchAll(STEP)].map(([whole, index, , quoted]) =>
    index === undefined ? (quoted ?? whole) : Number(index),
  )

const isContainer = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && !isRawJson(value)

const getMember = (container: Container, step: PathStep): unknown =>
  Array.isArray(container)
    ? container[Number(step)]
    : Object.hasOwn(container, step)
      ? container[step]
      : undefined

// Lists arrive in order. An index far beyond the end would fill the list with holes.
function setMember(container: Container, step: PathStep, value: unknown): boolean {
  if (value === undefined) return false
  if (!Array.isArray(container)) container[step] = value
  else if (Number(step) <= container.length) container[Number(step)] = value
  else return false
  return true
}

// A piece without a value ends a string or a list, or stands for an empty container. The members of
// any other container would have arrived instead.
function computeValue(piece: Json, path: string, current: unknown): unknown {
  const more = readString(piece.stringValue)
  if (more !== null) return typeof current === 'string' ? current + more : more
  if (typeof piece.numberValue === 'number' || isRawJson(piece.numberValue))
    return piece.numberValue
  if (typeof piece.boolValue === 'boolean') return piece.boolValue
  if ('nullValue' in piece) return null
  if (current !== undefined || piece.willContinue === true) return current
  return path.endsWith('[]') ? [] : Object.create(null)
}

type Annotation = Extract<TextPart, { type: 'annotation' }>

/** No answer has more sources than this. */
const MAX_SOURCES = 512
/** Beyond this text length, or after this many searches, citations get no range. */
const LONGEST_TEXT = 256 * 1024
const MAX_LOOKUPS = 2048

interface Source {
  url: string
  title?: string
}

/**
 * Collects the sources of one alternative as `url_citation` annotations. Each is emitted once,
 * however often Google repeats it.
 */
class CitationReader {
  readonly #choice: number
  readonly #emitted = new Set<string>()
  #text = ''
  #lookups = 0

  constructor(choice: number) {
    this.#choice = choice
  }

  /** Appends a piece of the text that the citations refer to. */
  appendText(piece: string): void {
    if (this.#text.length <= LONGEST_TEXT) this.#text += piece
  }

  /** Returns the annotations of a candidate that have not been emitted yet. */
  readNew(candidate: Json): Annotation[] {
    return [
      ...this.#readGrounding(readObject(candidate, 'groundingMetadata')),
      ...this.#readOthers(candidate),
    ]
  }

  // A source that supports a passage is cited with its range, any other without one.
  #readGrounding({ groundingChunks, groundingSupports }: Json): Annotation[] {
    if (!Array.isArray(groundingChunks)) return []
    const sources = groundingChunks.map(readSource)
    const annotations: Annotation[] = []
    for (const support of readObjects(groundingSupports))
      annotations.push(...this.#readSupport(support, sources))
    for (const source of sources) if (source) annotations.push(...this.#emit(source))
    return annotations
  }

  #readSupport(
    { segment, groundingChunkIndices }: Json,
    sources: (Source | undefined)[],
  ): Annotation[] {
    const range = this.#findRange(isObject(segment) ? readString(segment.text) : null)
    if (!range || !Array.isArray(groundingChunkIndices)) return []
    return groundingChunkIndices.flatMap(index => {
      const source = sources[parseCount(index) ?? -1]
      return source ? this.#emit(source, range) : []
    })
  }

  // Google's offsets are bytes within a part. Searching for the text finds its range within the
  // answer.
  #findRange(words: string | null): { start_index: number; end_index: number } | undefined {
    this.#lookups += 1
    if (!words || this.#text.length > LONGEST_TEXT || this.#lookups > MAX_LOOKUPS) return undefined
    const start_index = this.#text.indexOf(words)
    return start_index === -1 ? undefined : { start_index, end_index: start_index + words.length }
  }

  /** Returns the sources that the answer quotes, and the pages that it was asked to read. */
  #readOthers(candidate: Json): Annotation[] {
    const { citationSources, citations } = readObject(candidate, 'citationMetadata')
    const repeated = [...readObjects(citationSources), ...readObjects(citations)].map(one =>
      toSource(one.uri, one.title),
    )
    const read = readObjects(readObject(candidate, 'urlContextMetadata').urlMetadata).map(one =>
      toSource(one.retrievedUrl, null),
    )
    return [...repeated, ...read].flatMap(source => (source ? this.#emit(source) : []))
  }

  #emit(source: Source, range?: { start_index: number; end_index: number }): Annotation[] {
    const key = range ? `${range.start_index} ${range.end_index} ${source.url}` : source.url
    if (this.#emitted.has(key) || this.#emitted.size >= MAX_SOURCES) return []
    this.#emitted.add(key).add(source.url)
    return [
      {
        type: 'annotation',
        choice: this.#choice,
        annotation: toUrlCitation(source.url, { ...source, ...range }),
      },
    ]
  }
}

function readSource(chunk: unknown): Source | undefined {
  if (!isObject(chunk)) return undefined
  const { web, image, retrievedContext, maps } = chunk
  const from = [web, retrievedContext, maps].find(isObject)
  return isObject(image) && !from
    ? toSource(image.sourceUri, image.title)
    : toSource(from?.uri, from?.title)
}

const toSource = (uri: unknown, title: unknown): Source | undefined =>
  typeof uri === 'string' && isWebAddress(uri)
    ? { url: uri, ...(typeof title === 'string' ? { title } : {}) }
    : undefined
