import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { unreadable } from '../failure.ts'
import { MOST_CALLS } from '../reader.ts'
import { inputText, ownId } from '../tools.ts'

/** The most characters of arguments to hold for a call that has no name yet. */
const MOST_HELD = 1024 * 1024

/** What one chunk contains of a tool call. */
interface CallPiece {
  id: string | null
  name: string | null
  input: string
}

/**
 * Reads the tool calls of one answer, by choice and slot. Some servers send no index, some no id,
 * and some the same index for every call. So a name with a new id begins a new call, and a call
 * whose name comes late is held back until then.
 */
export class Calls {
  readonly #call: TextCall
  readonly #begun = new Map<string, { index: number; id: string }>()
  readonly #unnamed = new Map<string, CallPiece>()
  readonly #counts = new Map<number, number>()

  constructor(call: TextCall) {
    this.#call = call
  }

  /**
   * Returns the parts of one delta of a call. Throws `provider_unavailable` if the arguments of a
   * call without a name grow too long.
   */
  read(given: Json, position: number, choice: number): TextPart[] {
    const fn = isObject(given.function) ? given.function : {}
    const slot = `${choice} ${typeof given.index === 'number' ? given.index : position}`
    const piece = {
      id: text(given.id) || null,
      name: text(fn.name) || null,
      input: inputText(fn.arguments),
    }
    if (piece.name !== null || this.#begun.has(slot)) return this.#piece(slot, piece, choice)
    this.#hold(slot, piece)
    return []
  }

  #piece(slot: string, { id, name, input }: CallPiece, choice: number): TextPart[] {
    const known = this.#begun.get(slot)
    const isNew = !known || (id !== null && id !== known.id && name !== null)
    const held = isNew ? this.#released(slot) : undefined
    const call = isNew ? this.#begin(slot, id ?? held?.id ?? null, choice) : known
    if (!call) return []
    const { index } = call
    const said = held ? held.input + input : input
    return [
      ...(isNew
        ? [{ type: 'tool-call-start' as const, choice, index, id: call.id, name: name ?? '' }]
        : []),
      ...(said ? [{ type: 'tool-call-delta' as const, choice, index, input: said }] : []),
    ]
  }

  #hold(slot: string, piece: CallPiece): void {
    const held = this.#unnamed.get(slot)
    if (!held && this.#unnamed.size >= MOST_CALLS) return
    const input = (held?.input ?? '') + piece.input
    if (input.length > MOST_HELD) throw unreadable()
    this.#unnamed.set(slot, { id: piece.id ?? held?.id ?? null, name: null, input })
  }

  #released(slot: string): CallPiece | undefined {
    const held = this.#unnamed.get(slot)
    this.#unnamed.delete(slot)
    return held
  }

  #begin(
    slot: string,
    id: string | null,
    choice: number,
  ): { index: number; id: string } | undefined {
    const index = this.#counts.get(choice) ?? 0
    if (index >= MOST_CALLS) return undefined
    this.#counts.set(choice, index + 1)
    const call = { index, id: id || ownId(this.#call, `${choice}_${index}`) }
    this.#begun.set(slot, call)
    return call
  }
}
