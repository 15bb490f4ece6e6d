import { type Json, parseObject } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'
import {
  type ItemEvent,
  type ItemPlace,
  type ItemStatus,
  type OpenItem,
  renderAdded,
  renderDone,
} from './events.ts'

/** A call of a function while it is made. */
export class CallItem implements OpenItem {
  readonly value: Json & { arguments: string }
  readonly #place: ItemPlace
  readonly #name: string

  constructor(
    place: ItemPlace,
    { id, name, extra }: Extract<TextPart, { type: 'tool-call-start' }>,
  ) {
    this.#place = place
    this.#name = name
    this.value = {
      ...extra,
      type: 'function_call',
      id: place.item_id,
      call_id: id,
      name,
      arguments: '',
      status: 'in_progress',
    }
  }

  /** Returns the event with which the call begins. */
  begin(): ItemEvent {
    return renderAdded(this.#place, this.value)
  }

  /** Whether the arguments are whole, so that another call may begin. */
  get isWhole(): boolean {
    return parseObject(this.value.arguments) !== undefined
  }

  /** Adds a piece of the arguments. */
  addInput(delta: string): ItemEvent[] {
    if (delta === '') return []
    this.value.arguments += delta
    return [{ type: 'response.function_call_arguments.delta', ...this.#place, delta }]
  }

  /** Ends the call. */
  end(status: ItemStatus): ItemEvent[] {
    this.value.status = status
    return [
      {
        type: 'response.function_call_arguments.done',
        ...this.#place,
        name: this.#name,
        arguments: this.value.arguments,
      },
      renderDone(this.#place, this.value),
    ]
  }
}
