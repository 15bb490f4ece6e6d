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
 * The parts of a whole `GenerateContentResponse`: it is read as the only event of a stream. A list of them is a stream that came
 * in one piece. Throws where it is no answer.
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
 * Reads `GenerateContentResponse` events. There is no last event: an answer is whole when every alternative has told why it
 * ended, or the prompt was refused, and the connection has ended.
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

  /** The parts of one event, or of a whole answer, which has the same form. */
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

  /** The ends of the alternatives. In a whole answer, what was said is whole also without a reason. */
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

  // Every event counts from the beginning, so each count replaces the one before.
  #usage(chunk: Json, parts: TextPart[]): void {
    const usage = usageOf(chunk.usageMetadata, this.#searches)
    if (usage) parts.push({ type: 'usage', usage })
  }

  #refused(native: string): TextPart[] {
    this.complete = true
    return [{ type: 'finish', choice: 0, reason: 'content_filter', native }]
  }
}

/** `usageMetadata.serviceTier` of the Gemini API and `trafficType` of Vertex, in the chat API's words. */
const TIERS: Record<string, string> = {
  STANDARD: 'default',
  FLEX: 'flex',
  PRIORITY: 'priority',
  ON_DEMAND: 'default',
  ON_DEMAND_FLEX: 'flex',
  ON_DEMAND_PRIORITY: 'priority',
}

// An error on a stream comes in a list.
function chunkIn(data: string): Json | undefined {
  try {
    const value = parseExact(data)
    const first = Array.isArray(value) ? value[0] : value
    return isObject(first) ? first : undefined
  } catch {
    return undefined
  }
}

/** Why the prompt was refused before any answer, if it was. */
const blockReason = (given: unknown): string | undefined =>
  typeof given === 'string' && given !== '' && !given.endsWith('_UNSPECIFIED') ? given : undefined

/** What the reader of an answer has to know of the call. */
export interface Reading {
  call: TextCall
  /** A tool's name as the client knows it. */
  given: (name: string) => string
  /** The name of the tool whose input is the answer itself, where one was forced to get an answer of a form. */
  answerTool: string | null
}

/** How the answer to this call, sent to this endpoint, has to be read. */
export function readingOf(call: TextCall, endpoint: Endpoint): Reading {
  const names = namesOf(call)
  return {
    call,
    given: name => names.given(name),
    answerTool: formatOf(call, endpoint).tool?.name ?? null,
  }
}
