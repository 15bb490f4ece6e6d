import type { GatewayError } from '../../base/errors.ts'
import { ObjectScanner, type ObjectState } from '../../base/json-object.ts'
import { spellsHalves } from '../../base/printable.ts'
import type { TextCall } from '../../language/call.ts'
import type { FinishReason, TextPart } from '../../language/part.ts'
import { unreadableAnswer } from './failure.ts'
import { PartMender } from './halves.ts'
import type { Frame, Protocol, Reader } from './protocol.ts'
import { MAX_CALLS } from './reader.ts'
import { buildCallId } from './tools.ts'

type CallStart = Extract<TextPart, { type: 'tool-call-start' }>
type CallDelta = Extract<TextPart, { type: 'tool-call-delta' }>
type Finish = Extract<TextPart, { type: 'finish' }>

/** One call of a tool, while it is made. */
interface OpenCall {
  start: CallStart
  input: ObjectScanner
}

/** The ends of an answer that may have cut a call: they say so themselves. */
const CUTS = new Set<FinishReason>(['length', 'content_filter', 'error'])

/**
 * Holds the calls of one answer to what every client relies on: the arguments of a call are exactly
 * one JSON object, and an answer that calls tools ends with `tool_calls`. A call without arguments
 * gets `{}`. Objects that run together are calls of their own, and other text behind one is a
 * failure of the provider, as is a stream that ends within arguments and does not say that it was
 * cut. Arguments that are no JSON stay as the model wrote them: whoever runs the call tells it so.
 */
export class Calls {
  /** Why the answer is none, behind the parts that were returned. */
  failure: GatewayError | null = null
  readonly #call: TextCall
  /** Whether the answer comes in pieces, so that the last ones may be missing. */
  readonly #isStream: boolean
  /** The newest call at each place of the provider: those that ran together share one. */
  readonly #open = new Map<string, OpenCall>()
  /** How many calls each choice has. */
  readonly #counts = new Map<number, number>()
  /** The call that began last. */
  #last: OpenCall | null = null
  /** Whether calls have the places that their provider gave them: none ran together. */
  #isPlain = true

  constructor(call: TextCall, isStream: boolean) {
    this.#call = call
    this.#isStream = isStream
  }

  /** Returns these parts as the client gets them. */
  read(parts: TextPart[]): TextPart[] {
    const [only] = parts
    if (parts.length === 1 && only?.type === 'tool-call-delta') return this.#readPiece(only, parts)
    const kept: TextPart[] = []
    for (const part of parts) this.#readPart(part, kept)
    return kept
  }

  /** Returns how far the arguments of the call at this place have come. */
  getState(choice: number, index: number): ObjectState {
    return this.#open.get(`${choice} ${index}`)?.input.state ?? 'empty'
  }

  /** Whether every call of the choice could be run: it is whole, or has no arguments. */
  areWhole(choice: number): boolean {
    return this.#listCalls(choice).every(isSound)
  }

  // Most pieces go on with the call of the one before, and go out as they are.
  #readPiece(part: CallDelta, parts: TextPart[]): TextPart[] {
    const { start, input } = this.#last ?? {}
    const isNext = start?.choice === part.choice && start.index === part.index
    if (isNext && input?.state === 'open' && !start.isCustom && this.#isPlain) {
      const end = input.read(part.input)
      if (end === -1 || end === part.input.length) return parts
      const kept: TextPart[] = [{ ...part, input: part.input.slice(0, end) }]
      const place = `${part.choice} ${part.index}`
      this.#readSurplus({ ...part, input: part.input.slice(end) }, place, { start, input }, kept)
      return kept
    }
    const kept: TextPart[] = []
    this.#readDelta(part, kept)
    return kept
  }

  #readPart(part: TextPart, kept: TextPart[]): void {
    if (part.type === 'tool-call-start')
      kept.push(this.#begin(part, `${part.choice} ${part.index}`))
    else if (part.type === 'tool-call-delta') this.#readDelta(part, kept)
    else if (part.type === 'finish') this.#readFinish(part, kept)
    else kept.push(part)
  }

  #begin(start: CallStart, place: string): CallStart {
    const index = this.#counts.get(start.choice) ?? 0
    this.#counts.set(start.choice, index + 1)
    const counted = index === start.index ? start : { ...start, index }
    this.#isPlain &&= counted === start
    this.#endAt(place)
    this.#last = { start: counted, input: new ObjectScanner() }
    this.#open.set(place, this.#last)
    return counted
  }

  // Two calls at one place: what the first has is all that it gets.
  #endAt(place: string): void {
    const before = this.#open.get(place)
    if (!before) return
    this.#open.delete(place)
    this.#open.set(`${place} ${before.start.index}`, before)
  }

  #readDelta(part: CallDelta, kept: TextPart[]): void {
    const place = `${part.choice} ${part.index}`
    const call = this.#open.get(place)
    if (!call) return
    // Some say so that there are none.
    if (call.input.isEmpty && part.input.trim() === 'null') return
    const { isCustom } = call.start
    const end = isCustom ? -1 : call.input.state === 'whole' ? 0 : call.input.read(part.input)
    const own = end === -1 ? part.input : part.input.slice(0, end)
    if (own !== '') kept.push(toDelta(part, call, own))
    if (end !== -1) this.#readSurplus({ ...part, input: part.input.slice(end) }, place, call, kept)
  }

  // Behind the arguments of a call: another object is another call.
  #readSurplus(part: CallDelta, place: string, { start }: OpenCall, kept: TextPart[]): void {
    const input = part.input.trimStart()
    if (input === '') return
    if (!input.startsWith('{') || (this.#counts.get(part.choice) ?? 0) >= MAX_CALLS) {
      this.failure ??= unreadableAnswer()
      return
    }
    const id = buildCallId(this.#call, `${part.choice}_${this.#counts.get(part.choice)}_more`)
    const { item: _, ...again } = start
    kept.push(this.#begin({ ...again, id }, place))
    this.#readDelta({ ...part, input }, kept)
  }

  #readFinish(part: Finish, kept: TextPart[]): void {
    const calls = this.#listCalls(part.choice)
    const mayBeCut = CUTS.has(part.reason)
    if (this.#isStream && !mayBeCut && calls.some(isCut)) this.failure ??= unreadableAnswer()
    if (this.failure) return
    if (!mayBeCut)
      for (const call of calls)
        if (call.input.isEmpty && !call.start.isCustom)
          kept.push({ ...toDelta(call.start, call, '{}') })
    kept.push(
      calls.some(isAnswered) && isPlainStop(part) ? { ...part, reason: 'tool_calls' } : part,
    )
  }

  #listCalls(choice: number): OpenCall[] {
    return [...this.#open.values()].filter(({ start }) => start.choice === choice)
  }
}

/** Whether the client answers the call, so that the answer ends with it. */
const isAnswered = ({ start: { isAside } }: OpenCall): boolean => !isAside

// A pause of the provider's own tools is none that a client ends by an answer.
const isPlainStop = ({ reason, native }: Finish): boolean =>
  reason === 'stop' && native !== 'pause_turn'

const isCut = ({ start: { isCustom }, input: { state } }: OpenCall): boolean =>
  state === 'open' && !isCustom

const isSound = ({ start: { isCustom }, input: { state } }: OpenCall): boolean =>
  state === 'whole' || state === 'empty' || isCustom === true

const toDelta = (
  { choice }: { choice: number },
  { start: { index } }: OpenCall,
  input: string,
): CallDelta => ({ type: 'tool-call-delta', choice, index, input })

/** Returns the protocol with the calls of its answers held to that, and with whole characters. */
export const checkCalls = (protocol: Protocol<'text'>): Protocol<'text'> => ({
  ...protocol,
  parseAnswer: (body, call, endpoint) =>
    readChecked(protocol.parseAnswer(body, call, endpoint), call),
  createReader: (call, endpoint) => new CheckedReader(protocol.createReader(call, endpoint), call),
})

function readChecked(parts: TextPart[], call: TextCall): TextPart[] {
  if (!parts.some(isCallStart)) return parts
  const calls = new Calls(call, false)
  const kept = calls.read(parts)
  if (calls.failure) throw calls.failure
  return kept
}

const isCallStart = ({ type }: TextPart): boolean => type === 'tool-call-start'

class CheckedReader implements Reader<TextPart> {
  readonly #reader: Reader<TextPart>
  readonly #call: TextCall
  /** Created with the first call. Most answers have none. */
  #calls: Calls | null = null
  #mender: PartMender | null = null

  constructor(reader: Reader<TextPart>, call: TextCall) {
    this.#reader = reader
    this.#call = call
  }

  get complete(): boolean {
    return this.#reader.complete && !this.#calls?.failure
  }

  get failure(): GatewayError | null {
    return this.#calls?.failure ?? this.#reader.failure ?? null
  }

  read(frame: Frame): TextPart[] {
    if (spellsHalves(frame.data)) this.#mender ??= new PartMender()
    return this.#check(this.#reader.read(frame))
  }

  end(isFramed = true): TextPart[] {
    return this.#check(this.#reader.end?.(isFramed) ?? [])
  }

  #check(read: TextPart[]): TextPart[] {
    const parts = this.#mender?.read(read) ?? read
    if (!this.#calls && parts.some(isCallStart)) this.#calls = new Calls(this.#call, true)
    return this.#calls?.read(parts) ?? parts
  }
}
