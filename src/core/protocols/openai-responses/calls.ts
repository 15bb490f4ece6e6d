import { type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { MOST_CALLS } from '../reader.ts'
import { inputText, ownId, type ToolNames } from '../tools.ts'
import type { ClientCall } from './client-call.ts'
import type { Item } from './items.ts'
import { namesOf } from './names.ts'
import { isWrapper, unwrapped } from './parallel.ts'

/** The tool calls of one answer. Their arguments are streamed, or told when they are whole, or both: they are given once. */
export class Calls {
  readonly #call: TextCall
  readonly #names: ToolNames
  #count = 0

  constructor(call: TextCall) {
    this.#call = call
    this.#names = namesOf(call)
  }

  /** Whether the answer ends with one that the client has to answer. */
  ends = false

  /** An item that begins. What a wrapper holds is known only when it is whole. */
  added(item: Item, given: Json): TextPart[] {
    const name = text(given.name)
    if (given.type !== 'function_call' || !name || isWrapper(name, this.#call)) return []
    return this.#begin(item, given, name)
  }

  /** A piece of the arguments. */
  input(item: Item, given: unknown): TextPart[] {
    const input = inputText(given)
    if (!input || item.call === null) return []
    item.given.set('input', 0)
    return [{ type: 'tool-call-delta', choice: 0, index: item.call, input }]
  }

  /** All of the arguments, unless they have been streamed. */
  wholeInput(item: Item, given: unknown): TextPart[] {
    return item.given.has('input') ? [] : this.input(item, given)
  }

  /** A whole `function_call`. */
  done(item: Item, given: Json): TextPart[] {
    const name = text(given.name) ?? ''
    const input = inputText(given.arguments)
    const wrapped = item.call === null && isWrapper(name, this.#call) ? unwrapped(input, this.#call, this.#names) : null
    if (wrapped) return wrapped.flatMap((one, i) => this.whole(`${idOf(given)}_${i}`, { ...one, ends: true }))
    const began = item.call === null ? this.#begin(item, given, name) : []
    return [...began, ...this.wholeInput(item, input)]
  }

  /** A call that comes in one piece. */
  whole(id: string, { name, input, ends }: ClientCall): TextPart[] {
    const index = this.#next()
    if (index === null) return []
    this.ends ||= ends
    return [
      { type: 'tool-call-start', choice: 0, index, id: id || ownId(this.#call, index), name },
      { type: 'tool-call-delta', choice: 0, index, input },
    ]
  }

  #begin(item: Item, given: Json, name: string): TextPart[] {
    const index = this.#next()
    if (index === null) return []
    item.call = index
    this.ends = true
    const id = idOf(given) || ownId(this.#call, index)
    return [{ type: 'tool-call-start', choice: 0, index, id, name: this.#names.given(name), ...besides(given) }]
  }

  #next(): number | null {
    return this.#count < MOST_CALLS ? this.#count++ : null
  }
}

/** What a result refers to: the call's own id, not that of the item that tells of it (translation trap 64). */
export const idOf = ({ call_id, id }: Json): string => text(call_id) || text(id) || ''

/** What OpenAI tells of a call besides, which a client that speaks this dialect has to give back. */
function besides({ namespace, caller, async: late }: Json): { extra?: Json } {
  const told = Object.entries({ namespace, caller, async: late }).filter(([, value]) => value != null)
  return told.length > 0 ? { extra: Object.fromEntries(told) } : {}
}
