import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, member, own, parseExact, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import type { Frame, Reader } from '../protocol.ts'
import { choiceAt, Garbage } from '../reader.ts'
import { Candidate } from './candidate.ts'
import { failureInside } from './failure.ts'
import { namesOf } from './messages.ts'
import { formatOf } from './request.ts'
import { usageOf } from './usage.ts'

/**
 * Returns the parts of a whole `GenerateContentResponse`, read as the only event of a stream. A
 * list of them is a stream that arrived in one piece. Throws if it is not an answer.
 */
export function parts(body: unknown, reading: Reading): TextPart[] {
  const events = Array.isArray(body) ? body : [body]
  if (!events.every(isObject)) throw unreadable()
  const reader = new GenerateContentReader(reading)
  const said = [...events.flatMap(event => reader.chunk(event)), ...reader.end(true)]
  if (!reader.complete) throw unreadable()
  return said
}

/**
 * Reads `GenerateContentResponse` events. There is no terminal event. An answer is complete when
 * the connection has ended and every alternative has a finish reason, or the prompt was blocked.
 */
export class GenerateContentReader implements Reader<TextPart> {
  complete = false
  readonly #reading: Reading
  readonly #candidates = new Map<number, Candidate>()
  #blocked: string | undefined
  #searches: number | null = null
  #started = false
  readonly #garbage = new Garbage()

  constructor(reading: Reading) {
    this.#reading = reading
  }

  read({ data }: Frame): TextPart[] {
    const chunk = chunkIn(data)
    return chunk ? this.chunk(chunk) : this.#garbage.pass()
  }

  /** Returns the parts of one event, or of a whole answer, which has the same form. */
  chunk(chunk: Json): TextPart[] {
    if (isObject(chunk.error)) throw failureInside(chunk.error)
    const parts: TextPart[] = []
    this.#start(chunk, parts)
    this.#blocked ??= blockReason(member(chunk, 'promptFeedback').blockReason)
    if (Array.isArray(chunk.candidates) && this.#blocked === undefined)
      for (const [i, candidate] of chunk.candidates.entries())
        if (isObject(candidate)) this.#candidate(candidate, i, parts)
    this.#usage(chunk, parts)
    return parts
  }

  /**
   * Returns the ends of the alternatives. In a whole answer, an alternative with output is complete
   * even without a finish reason.
   */
  end(isWhole = false): TextPart[] {
    if (this.#blocked !== undefined) return this.#refused(this.#blocked)
    const candidates = [...this.#candidates.values()]
    this.complete =
      candidates.length > 0 && candidates.every(one => one.hasEnded || (isWhole && one.hasSpoken))
    return this.complete ? candidates.flatMap(one => one.end()) : []
  }

  #start(chunk: Json, parts: TextPart[]): void {
    if (this.#started) return
    this.#started = true
    const { serviceTier, trafficType } = member(chunk, 'usageMetadata')
    parts.push({
      type: 'start',
      upstream_id: text(chunk.responseId),
      system_fingerprint: text(chunk.modelVersion),
      service_tier: own(TIERS, text(serviceTier ?? trafficType)?.toUpperCase()) ?? null,
    })
  }

  #candidate(given: Json, position: number, parts: TextPart[]): void {
    const choice = choiceAt(given.index, position)
    if (choice === undefined) return
    const candidate = this.#candidates.get(choice) ?? new Candidate(choice, this.#reading)
    this.#candidates.set(choice, candidate)
    parts.push(...candidate.read(given))
    const { webSearchQueries } = member(given, 'groundingMetadata')
    if (Array.isArray(webSearchQueries)) this.#searches = webSearchQueries.length
  }

  // Counts are cumulative, so each replaces the one before.
  #usage(chunk: Json, parts: TextPart[]): void {
    const usage = usageOf(chunk.usageMetadata, this.#searches)
    if (usage) parts.push({ type: 'usage', usage })
  }

  #refused(native: string): TextPart[] {
    this.complete = true
    return [{ type: 'finish', choice: 0, reason: 'content_filter', native }]
  }
}

/**
 * Maps `usageMetadata.serviceTier` of the Gemini API and `trafficType` of Vertex to the chat API's
 * service tiers.
 */
const TIERS: Record<string, string> = {
  STANDARD: 'default',
  FLEX: 'flex',
  PRIORITY: 'priority',
  ON_DEMAND: 'default',
  ON_DEMAND_FLEX: 'flex',
  ON_DEMAND_PRIORITY: 'priority',
}

// An error in a stream is wrapped in a list.
function chunkIn(data: string): Json | undefined {
  try {
    const value = parseExact(data)
    const first = Array.isArray(value) ? value[0] : value
    return isObject(first) ? first : undefined
  } catch {
    return undefined
  }
}

/** Returns the reason why the prompt was blocked, if it was. */
const blockReason = (given: unknown): string | undefined =>
  typeof given === 'string' && given !== '' && !given.endsWith('_UNSPECIFIED') ? given : undefined

/** What reading an answer depends on. */
export interface Reading {
  call: TextCall
  /** Returns the client's name of a tool. */
  given: (name: string) => string
  /** The name of the tool whose input is the answer, or null if none is used. */
  answerTool: string | null
}

/** Creates the context for reading this endpoint's answer to the call. */
export function readingOf(call: TextCall, endpoint: Endpoint): Reading {
  const names = namesOf(call)
  return {
    call,
    given: name => names.given(name),
    answerTool: formatOf(call, endpoint).tool?.name ?? null,
  }
}
