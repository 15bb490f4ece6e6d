import { isObject, type Json, parseObject, readString } from '../../../base/json.ts'
import { GrowingText } from '../../../base/turns.ts'
import type { TextPart } from '../../../language/part.ts'
import { type ClientTool, CUSTOM_INPUT } from '../../../language/tool.ts'
import { CLIENT_KINDS } from '../../client-kinds.ts'
import {
  type ItemEvent,
  type ItemPlace,
  type ItemStatus,
  type OpenItem,
  renderAdded,
  renderDone,
} from './events.ts'

/** A call of a tool of the client while it is made. */
export interface ToolCallItem extends OpenItem {
  /** Returns the event with which the call begins. */
  begin(): ItemEvent
  /** Whether the arguments are whole, so that another call may begin. */
  readonly isWhole: boolean
  /** Adds a piece of the arguments. */
  addInput(delta: string): ItemEvent[]
}

/** Creates the call of a function, or of the `tool` for which a function stood in. */
export function createCallItem(
  place: ItemPlace,
  part: ToolCallStart,
  tool: ClientTool | undefined,
): ToolCallItem {
  if (!tool) return new CallItem(place, part)
  const { name, namespace } = tool
  const named = { ...part, name, ...(namespace === undefined ? {} : { extra: { namespace } }) }
  return tool.form === 'custom' ? new CustomCallItem(place, named) : new CallItem(place, named)
}

type ToolCallStart = Extract<TextPart, { type: 'tool-call-start' }>

/**
 * Returns the provider's further fields of a call in OpenAI's form. Anthropic names the code that
 * calls a tool by its type and use, and OpenAI's clients refuse any caller but their own two.
 */
function toOpenAiFields({ caller, ...fields }: Json): Json {
  if (!isObject(caller)) return fields
  if (caller.type === 'direct' || caller.type === 'program') return { ...fields, caller }
  const caller_id = readString(caller.tool_id)
  return caller_id === null ? fields : { ...fields, caller: { type: 'program', caller_id } }
}

/** A call of a function while it is made. */
class CallItem implements ToolCallItem {
  readonly value: Json & { arguments: string }
  readonly #place: ItemPlace
  readonly #name: string
  readonly #arguments = new GrowingText()

  constructor(place: ItemPlace, { id, name, extra }: ToolCallStart) {
    this.#place = place
    this.#name = name
    this.value = {
      ...(extra ? toOpenAiFields(extra) : {}),
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
    return isObjectText(this.#arguments.text)
  }

  /** Adds a piece of the arguments. */
  addInput(delta: string): ItemEvent[] {
    if (delta === '') return []
    this.#arguments.add(delta)
    return [{ type: 'response.function_call_arguments.delta', ...this.#place, delta }]
  }

  /** Ends the call. */
  end(status: ItemStatus): ItemEvent[] {
    Object.assign(this.value, { status, arguments: this.#arguments.text })
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

// Arguments that are still coming rarely end with a brace, so they are rarely parsed.
const isObjectText = (json: string): boolean =>
  json.trimEnd().endsWith('}') && parseObject(json) !== undefined
type HeldTool = ClientTool & { form: keyof typeof CLIENT_KINDS }

/** Whether the item of a call is of a kind of its own, which is known only when it is whole. */
export const isHeld = (tool: ClientTool): tool is HeldTool => Object.hasOwn(CLIENT_KINDS, tool.form)

/** A call in the form of a kind of its own, until its arguments are whole. */
export class HeldCall {
  readonly #start: ToolCallStart
  readonly #tool: HeldTool
  readonly #arguments = new GrowingText()

  constructor(start: ToolCallStart, tool: HeldTool) {
    this.#start = start
    this.#tool = tool
  }

  get isWhole(): boolean {
    return isObjectText(this.#arguments.text)
  }

  addInput(delta: string): ItemEvent[] {
    this.#arguments.add(delta)
    return []
  }

  /**
   * Returns the item. Arguments that mean nothing to the tool are shown as those of a function: the
   * client says so to the model.
   */
  toItem(status: ItemStatus): Json {
    const { id: call_id, name } = this.#start
    const { text } = this.#arguments
    const input = parseObject(text)
    const item = input && CLIENT_KINDS[this.#tool.form].toItem(input)
    if (item) return { ...item, call_id, status: 'completed' }
    return { type: 'function_call', call_id, name, arguments: text, status }
  }
}

/**
 * A call of a custom tool by a model that got a function in its place. The text is in its
 * arguments, so it is known only when they are whole.
 */
class CustomCallItem implements ToolCallItem {
  readonly value: Json
  readonly #place: ItemPlace
  readonly #arguments = new GrowingText()

  constructor(place: ItemPlace, { id, name, extra }: ToolCallStart) {
    this.#place = place
    const type = 'custom_tool_call'
    this.value = { ...extra, type, id: place.item_id, call_id: id, name, input: '' }
    this.value.status = 'in_progress'
  }

  begin(): ItemEvent {
    return renderAdded(this.#place, this.value)
  }

  get isWhole(): boolean {
    return isObjectText(this.#arguments.text)
  }

  addInput(delta: string): ItemEvent[] {
    this.#arguments.add(delta)
    return []
  }

  end(status: ItemStatus): ItemEvent[] {
    const { text } = this.#arguments
    const input = readString(parseObject(text)?.[CUSTOM_INPUT]) ?? text
    Object.assign(this.value, { input, status })
    const event = 'response.custom_tool_call_input'
    return [
      ...(input ? [{ type: `${event}.delta`, ...this.#place, delta: input }] : []),
      { type: `${event}.done`, ...this.#place, input },
      renderDone(this.#place, this.value),
    ]
  }
}
