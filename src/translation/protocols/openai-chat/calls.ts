import type { GatewayError } from '../../../base/errors.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextPart } from '../../../language/part.ts'
import { Calls } from '../calls.ts'
import { unreadableAnswer } from '../failure.ts'
import { MAX_CALLS } from '../reader.ts'
import { buildCallId, readInputText } from '../tools.ts'

/** The most characters of arguments to hold for a call that has no name yet. */
const MAX_HELD = 1024 * 1024

/** What one chunk contains of a tool call. */
interface ToolCallDelta {
  id: string | null
  name: string | null
  input: string
  extra: Json | null
}

interface BegunCall {
  index: number
  id: string
  name: string
}

/**
 * Reads the tool calls of one answer, by choice and slot. Some servers send no index, some no id,
 * and some the same index for every call. So a name with a new id begins a new call, as does a name
 * behind a call that is whole, and a call whose name comes late is held back until then.
 */
export class ToolCallReader {
  readonly #call: TextCall
  readonly #calls: Calls
  readonly #begunCalls = new Map<string, BegunCall>()
  readonly #unnamed = new Map<string, ToolCallDelta>()
  readonly #counts = new Map<number, number>()

  constructor(call: TextCall, isStream: boolean) {
    this.#call = call
    this.#calls = new Calls(call, isStream)
  }

  /** Why the calls are none that a client could run; null if they are. */
  get failure(): GatewayError | null {
    return this.#calls.failure
  }

  /**
   * Returns the parts of one delta of a call. Throws `provider_unavailable` if the arguments of a
   * call without a name grow too long.
   */
  read(delta: Json, position: number, choice: number): TextPart[] {
    const functionFields = isObject(delta.function) ? delta.function : {}
    const slot = `${choice} ${typeof delta.index === 'number' ? delta.index : position}`
    const piece = {
      id: readString(delta.id) || null,
      name: readString(functionFields.name) || null,
      input: readInputText(functionFields.arguments),
      extra: isObject(delta.extra_content) ? { extra_content: delta.extra_content } : null,
    }
    if (piece.name !== null || this.#begunCalls.has(slot))
      return this.#calls.read(this.#readPiece(slot, piece, choice))
    this.#holdBack(slot, piece)
    return []
  }

  /**
   * Returns the end of a choice with what it completes; nothing if its calls are broken. A call that
   * never got a name is.
   */
  end(finish: Extract<TextPart, { type: 'finish' }>): TextPart[] {
    const isNameless = [...this.#unnamed.keys()].some(slot => slot.startsWith(`${finish.choice} `))
    if (isNameless && finish.reason !== 'length' && finish.reason !== 'error')
      this.#calls.failure ??= unreadableAnswer()
    return this.#calls.read([finish])
  }

  /** Whether every call of the choice could be run. */
  areWhole(choice: number): boolean {
    return this.#calls.areWhole(choice)
  }

  #readPiece(slot: string, piece: ToolCallDelta, choice: number): TextPart[] {
    const { id, name, input, extra } = piece
    const known = this.#begunCalls.get(slot)
    const isNew = !known || this.#beginsAnother(known, piece, choice)
    const held = isNew ? this.#takeHeld(slot) : undefined
    const call = isNew
      ? this.#beginCall(
          slot,
          { id: id ?? held?.id ?? null, name: name ?? known?.name ?? '' },
          choice,
        )
      : known
    if (!call) return []
    const { index } = call
    const fullInput = held ? held.input + input : input
    const fields = extra ?? held?.extra
    const parts: TextPart[] = []
    if (isNew)
      parts.push({
        type: 'tool-call-start',
        choice,
        index,
        id: call.id,
        name: call.name,
        ...(fields ? { extra: fields } : {}),
      })
    if (fullInput) parts.push({ type: 'tool-call-delta', choice, index, input: fullInput })
    return parts
  }

  // Behind a call that is whole, a server that sends no ids begins the next one with its name. Some
  // repeat the name in every delta of a call.
  #beginsAnother(known: BegunCall, { id, name, input }: ToolCallDelta, choice: number): boolean {
    if (name === null && (id === null || id === known.id)) return false
    const state = this.#calls.getState(choice, known.index)
    if (name === null) return state === 'whole'
    if (id !== null) return id !== known.id
    return name === known.name ? state === 'whole' && input !== '' : state !== 'open'
  }

  #holdBack(slot: string, piece: ToolCallDelta): void {
    const held = this.#unnamed.get(slot)
    if (!held && this.#unnamed.size >= MAX_CALLS) return
    const input = (held?.input ?? '') + piece.input
    if (input.length > MAX_HELD) throw unreadableAnswer()
    this.#unnamed.set(slot, {
      id: piece.id ?? held?.id ?? null,
      name: null,
      input,
      extra: piece.extra ?? held?.extra ?? null,
    })
  }

  #takeHeld(slot: string): ToolCallDelta | undefined {
    const held = this.#unnamed.get(slot)
    this.#unnamed.delete(slot)
    return held
  }

  #beginCall(
    slot: string,
    { id, name }: { id: string | null; name: string },
    choice: number,
  ): BegunCall | undefined {
    const index = this.#counts.get(choice) ?? 0
    if (index >= MAX_CALLS) return undefined
    this.#counts.set(choice, index + 1)
    const call = { index, id: id || buildCallId(this.#call, `${choice}_${index}`), name }
    this.#begunCalls.set(slot, call)
    return call
  }
}
