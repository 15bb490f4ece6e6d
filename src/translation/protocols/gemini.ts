import { getOwn, isObject, type Json, parseExact, readObject, readString } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { checkCalls } from './calls.ts'
import { unreadableAnswer } from './failure.ts'
import { type AnswerContext, CandidateReader } from './gemini/candidate.ts'
import { readFailure, readStreamFailure } from './gemini/failure.ts'
import { createToolNames } from './gemini/messages.ts'
import { buildRequest, chooseAnswerFormat } from './gemini/request.ts'
import { supportsWebSearch } from './gemini/tools.ts'
import { readUsage } from './gemini/usage.ts'
import type { Frame, Protocol, Reader } from './protocol.ts'
import { readChoiceIndex, UnreadableEvents } from './reader.ts'

/** Google's `POST {base_url}/models/{model}:generateContent`, on the Gemini API and on Vertex. */
export const gemini: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  nativeDialect: 'gemini',
  // YouTube videos are available by URL only.
  urlMedia: ['video'],
  ownSchemes: ['gs://'],
  supportsWebSearch,
  buildRequest,
  parseAnswer: (body, call, endpoint) => parseAnswer(body, createAnswerContext(call, endpoint)),
  createReader: (call, endpoint) => new GenerateContentReader(createAnswerContext(call, endpoint)),
  readFailure,
})

/**
 * Returns the parts of a whole `GenerateContentResponse`, read as the only event of a stream. A
 * list of them is a stream that arrived in one piece. Throws if it is not an answer.
 */
function parseAnswer(body: unknown, context: AnswerContext): TextPart[] {
  const events = Array.isArray(body) ? body : [body]
  if (!events.every(isObject)) throw unreadableAnswer()
  const reader = new GenerateContentReader(context)
  const answerParts = [...events.flatMap(event => reader.readChunk(event)), ...reader.finish(true)]
  if (!reader.complete) throw unreadableAnswer()
  return answerParts
}

/**
 * Reads `GenerateContentResponse` events. There is no terminal event. An answer is complete when
 * the connection has ended and every alternative has a finish reason, or the prompt was blocked.
 */
class GenerateContentReader implements Reader<TextPart> {
  complete = false
  readonly #context: AnswerContext
  readonly #candidates = new Map<number, CandidateReader>()
  #blockReason: string | undefined
  #searches: number | null = null
  #started = false
  readonly #garbage = new UnreadableEvents()

  constructor(context: AnswerContext) {
    this.#context = context
  }

  read({ data, json }: Frame): TextPart[] {
    const chunk = json === undefined ? parseChunk(data) : json
    return chunk ? this.readChunk(chunk) : this.#garbage.skip()
  }

  /** Returns the parts of one event, or of a whole answer, which has the same form. */
  readChunk(chunk: Json): TextPart[] {
    if (isObject(chunk.error)) throw readStreamFailure(chunk.error)
    const parts: TextPart[] = []
    this.#startAnswer(chunk, parts)
    this.#blockReason ??= readBlockReason(readObject(chunk, 'promptFeedback').blockReason)
    if (Array.isArray(chunk.candidates) && this.#blockReason === undefined)
      for (const [i, candidate] of chunk.candidates.entries())
        if (isObject(candidate)) this.#readCandidate(candidate, i, parts)
    this.#readUsage(chunk, parts)
    return parts
  }

  end(): TextPart[] {
    return this.finish(false)
  }

  /**
   * Returns the ends of the alternatives. In a whole answer, an alternative with output is complete
   * even without a finish reason. One that breaks off within a call is none, whatever its reason.
   */
  finish(isWhole: boolean): TextPart[] {
    if (this.#blockReason !== undefined) return this.#finishBlocked(this.#blockReason)
    const candidates = [...this.#candidates.values()]
    this.complete =
      candidates.length > 0 &&
      candidates.every(
        candidate => !candidate.isCut && (candidate.hasEnded || (isWhole && candidate.hasOutput)),
      )
    return this.complete ? candidates.flatMap(candidate => candidate.finish()) : []
  }

  #startAnswer(chunk: Json, parts: TextPart[]): void {
    if (this.#started) return
    this.#started = true
    const { serviceTier, trafficType } = readObject(chunk, 'usageMetadata')
    parts.push({
      type: 'start',
      upstream_id: readString(chunk.responseId),
      system_fingerprint: readString(chunk.modelVersion),
      service_tier:
        getOwn(SERVICE_TIERS, readString(serviceTier ?? trafficType)?.toUpperCase()) ?? null,
    })
  }

  #readCandidate(value: Json, position: number, parts: TextPart[]): void {
    const choice = readChoiceIndex(value.index, position)
    if (choice === undefined) return
    const candidate = this.#candidates.get(choice) ?? new CandidateReader(choice, this.#context)
    this.#candidates.set(choice, candidate)
    parts.push(...candidate.read(value))
    const { webSearchQueries } = readObject(value, 'groundingMetadata')
    if (Array.isArray(webSearchQueries)) this.#searches = webSearchQueries.length
  }

  // Counts are cumulative, so each replaces the one before.
  #readUsage(chunk: Json, parts: TextPart[]): void {
    const usage = readUsage(chunk.usageMetadata, this.#searches)
    if (usage) parts.push({ type: 'usage', usage })
  }

  #finishBlocked(native: string): TextPart[] {
    this.complete = true
    return [{ type: 'finish', choice: 0, reason: 'content_filter', native }]
  }
}

/**
 * Maps `usageMetadata.serviceTier` of the Gemini API and `trafficType` of Vertex to the chat API's
 * service tiers.
 */
const SERVICE_TIERS: Record<string, string> = {
  STANDARD: 'default',
  FLEX: 'flex',
  PRIORITY: 'priority',
  ON_DEMAND: 'default',
  ON_DEMAND_FLEX: 'flex',
  ON_DEMAND_PRIORITY: 'priority',
}

// An error in a stream is wrapped in a list.
function parseChunk(data: string): Json | undefined {
  try {
    const value = parseExact(data)
    const first = Array.isArray(value) ? value[0] : value
    return isObject(first) ? first : undefined
  } catch {
    return undefined
  }
}

/** Returns the reason why the prompt was blocked, if it was. */
const readBlockReason = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && !value.endsWith('_UNSPECIFIED') ? value : undefined

/** Creates the context for reading this endpoint's answer to the call. */
function createAnswerContext(call: TextCall, endpoint: Endpoint): AnswerContext {
  const names = createToolNames(call)
  return {
    call,
    getClientToolName: name => names.toClient(name),
    answerTool: chooseAnswerFormat(call, endpoint).tool?.name ?? null,
    ownEnds: endpoint.provider.finish_reasons,
  }
}
