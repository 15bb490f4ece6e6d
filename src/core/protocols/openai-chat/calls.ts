import { isObject, type Json, readString } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
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
}

/**
 * Reads the tool calls of one answer, by choice and slot. Some servers send no index, some no id,
 * and some the same index for every call. So a name with a new id begins a new call, and a call
 * whose name comes late is held back until then.
 */
export class ToolCallReader {
  readonly #call: TextCall
  readonly #begunCalls = new Map<string, { index: number; id: string }>()
  readonly #unnamed = new Map<string, ToolCallDelta>()
  readonly #counts = new Map<number, number>()

  constructor(call: TextCall) {
    this.#call = call
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
    }
    if (piece.name !== null || this.#begunCalls.has(slot))
      return this.#readPiece(slot, piece, choice)
    this.#holdBack(slot, piece)
    return []
  }

  #readPiece(slot: string, { id, name, input }: ToolCallDelta, choice: number): TextPart[] {
    const known = this.#begunCalls.get(slot)
    const isNew = !known || (id !== null && id !== known.id && name !== null)
    const held = isNew ? this.#takeHeld(slot) : undefined
    const call = isNew ? this.#beginCall(slot, id ?? held?.id ?? null, choice) : known
    if (!call) return []
    const { index } = call
    const fullInput = held ? held.input + input : input
    return [
      ...(isNew
        ? [{ type: 'tool-call-start' as const, choice, index, id: call.id, name: name ?? '' }]
        : []),
      ...(fullInput ? [{ type: 'tool-call-delta' as const, choice, index, input: fullInput }] : []),
    ]
  }

  #holdBack(slot: string, piece: ToolCallDelta): void {
    const held = this.#unnamed.get(slot)
    if (!held && this.#unnamed.size >= MAX_CALLS) return
    const input = (held?.input ?? '') + piece.input
    if (input.length > MAX_HELD) throw unreadableAnswer()
    this.#unnamed.set(slot, { id: piece.id ?? held?.id ?? null, name: null, input })
  }

  #takeHeld(slot: string): ToolCallDelta | undefined {
    const held = this.#unnamed.get(slot)
    this.#unnamed.delete(slot)
    return held
  }

  #beginCall(
    slot: string,
    id: string | null,
    choice: number,
  ): { index: number; id: string } | undefined {
    const index = this.#counts.get(choice) ?? 0
    if (index >= MAX_CALLS) return undefined
    this.#counts.set(choice, index + 1)
    const call = { index, id: id || buildCallId(this.#call, `${choice}_${index}`) }
    this.#begunCalls.set(slot, call)
    return call
  }
}
