import { isObject, type Json, parseObject, readObjects, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextPart } from '../../../language/part.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { isNative } from '../native.ts'
import { MAX_CALLS } from '../reader.ts'
import { buildCallId, readInputText, type ToolNames } from '../tools.ts'
import type { ItemState } from './items.ts'
import { createToolNames, NATIVE } from './messages.ts'

/**
 * Reads the tool calls of one answer. Arguments may be streamed, sent whole at the end, or both;
 * they are returned once.
 */
export class ToolCallReader {
  readonly #call: TextCall
  readonly #names: ToolNames
  #count = 0

  constructor(call: TextCall) {
    this.#call = call
    this.#names = createToolNames(call)
  }

  /** Whether the answer ends with a call that the client has to answer. */
  endsAnswer = false

  /** Reads an item that begins. The calls in a wrapper are known only when it is whole. */
  readNewItem(item: ItemState, value: Json): TextPart[] {
    const name = readString(value.name)
    if (value.type !== 'function_call' || !name || isWrapper(name, this.#call)) return []
    return this.#beginCall(item, value, name)
  }

  /** Reads a piece of the arguments. */
  readInput(item: ItemState, value: unknown): TextPart[] {
    const input = readInputText(value)
    if (!input || item.callIndex === null) return []
    item.pieces.set('input', 0)
    return [{ type: 'tool-call-delta', choice: 0, index: item.callIndex, input }]
  }

  /** Reads the whole arguments, unless they have been streamed. */
  readWholeInput(item: ItemState, value: unknown): TextPart[] {
    return item.pieces.has('input') ? [] : this.readInput(item, value)
  }

  /** Reads a whole `function_call`. */
  readDoneItem(item: ItemState, value: Json): TextPart[] {
    const name = readString(value.name) ?? ''
    const input = readInputText(value.arguments)
    const wrapped =
      item.callIndex === null && isWrapper(name, this.#call)
        ? unwrapCalls(input, this.#call, this.#names)
        : null
    if (wrapped)
      return wrapped.flatMap((wrappedCall, i) =>
        this.readWhole(`${readCallId(value)}_${i}`, { ...wrappedCall, endsAnswer: true }),
      )
    const startParts = item.callIndex === null ? this.#beginCall(item, value, name) : []
    return [...startParts, ...this.readWholeInput(item, input)]
  }

  /** Returns the parts of a call that comes in one piece. */
  readWhole(id: string, { name, input, endsAnswer, isCustom }: ClientCall): TextPart[] {
    const index = this.#takeIndex()
    if (index === null) return []
    this.endsAnswer ||= endsAnswer
    return [
      {
        type: 'tool-call-start',
        choice: 0,
        index,
        id: id || buildCallId(this.#call, index),
        name,
        ...(isCustom ? { isCustom } : {}),
        ...(endsAnswer ? {} : { isAside: true as const }),
      },
      { type: 'tool-call-delta', choice: 0, index, input },
    ]
  }

  #beginCall(item: ItemState, value: Json, name: string): TextPart[] {
    const index = this.#takeIndex()
    if (index === null) return []
    item.callIndex = index
    this.endsAnswer = true
    const id = readCallId(value) || buildCallId(this.#call, index)
    return [
      {
        type: 'tool-call-start',
        choice: 0,
        index,
        id,
        name: this.#names.toClient(name),
        ...readSiblingFields(value),
        ...(isNative(this.#call, NATIVE) ? { item: { id: item.id } } : {}),
      },
    ]
  }

  #takeIndex(): number | null {
    return this.#count < MAX_CALLS ? this.#count++ : null
  }
}

/** Reads the id that results refer to: the call's own id, not its item's (translation trap 64). */
export const readCallId = ({ call_id, id }: Json): string =>
  readString(call_id) || readString(id) || ''

/** Reads OpenAI's further fields of a call, which clients of this dialect have to send back. */
function readSiblingFields({ namespace, caller, async: late }: Json): { extra?: Json } {
  const fields = Object.entries({ namespace, caller, async: late }).filter(
    ([, value]) => value != null,
  )
  return fields.length > 0 ? { extra: Object.fromEntries(fields) } : {}
}

/** A call of a tool that the client runs and that is not a function. */
interface ClientCall {
  name: string
  input: string
  /**
   * Whether the answer ends with `tool_calls`. In OpenAI's own client it does for functions,
   * custom tools, patches and computers.
   */
  endsAnswer: boolean
  /** Takes a text. */
  isCustom?: true
}

/**
 * Converts an item that calls one of OpenAI's own kinds of tool that the client runs. The chat API
 * only has function calls, so the item becomes a call of a function with the tool's name. The
 * arguments are those that the AI SDK passes to its tools of these kinds. Returns null for tools
 * that the provider runs itself.
 */
export function toClientCall(item: Json, endpoint: Endpoint): ClientCall | null {
  switch (item.type) {
    case 'custom_tool_call':
      return toCustomCall(item, endpoint)
    case 'local_shell_call':
      return buildClientCall('local_shell', { action: toLocalShellAction(item.action) })
    case 'shell_call':
      return isHosted(item)
        ? null
        : buildClientCall('shell', { action: toShellAction(item.action) })
    case 'apply_patch_call':
      return isCut(item)
        ? null
        : {
            ...buildClientCall('apply_patch', { callId: item.call_id, operation: item.operation }),
            endsAnswer: true,
          }
    case 'tool_search_call':
      return item.execution === 'client'
        ? buildClientCall('tool_search', { arguments: item.arguments, call_id: item.call_id })
        : null
    case 'computer_call':
      return readString(item.call_id) === null
        ? null
        : { ...buildClientCall('computer', toComputerInput(item)), endsAnswer: true }
    default:
      return null
  }
}

const buildClientCall = (name: string, input: Json): ClientCall => ({
  name,
  input: JSON.stringify(input),
  endsAnswer: false,
})

/**
 * The tools that xAI runs itself although it calls them custom. Listed for xAI under another
 * provider name.
 */
const RUN_BY_XAI = new Set([
  'web_search',
  'web_search_with_snippets',
  'browse_page',
  'x_user_search',
  'x_keyword_search',
  'x_semantic_search',
  'x_thread_fetch',
  'view_image',
  'view_x_video',
  'code_execution',
])

/** The names of those that search X. */
const X_SEARCHES = new Set(['x_user_search', 'x_keyword_search', 'x_semantic_search'])

/** Whether an item is a search by the provider: of the web, or of X. */
export const isSearch = ({ type, name }: Json): boolean =>
  type === 'web_search_call' ||
  type === 'x_search_call' ||
  (type === 'custom_tool_call' && X_SEARCHES.has(readString(name) ?? ''))

// A custom tool takes text and arguments are JSON, so the text becomes a JSON string.
function toCustomCall({ name, input }: Json, { provider }: Endpoint): ClientCall | null {
  const toolName = readString(name)
  if (!toolName || provider.slug === 'xai' || RUN_BY_XAI.has(toolName)) return null
  const text = JSON.stringify(readString(input) ?? '')
  return { name: toolName, input: text, endsAnswer: true, isCustom: true }
}

// The provider runs a shell in its own containers itself.
const isHosted = ({ environment }: Json) => isObject(environment) && environment.type !== 'local'

// Half a patch would be a different patch.
const isCut = ({ status }: Json) => status != null && status !== 'completed'

function toLocalShellAction(action: unknown): Json {
  const { type, command, timeout_ms, user, working_directory, env } = isObject(action) ? action : {}
  return { type, command, timeoutMs: timeout_ms, user, workingDirectory: working_directory, env }
}

function toShellAction(action: unknown): Json {
  const { commands, timeout_ms, max_output_length } = isObject(action) ? action : {}
  return {
    commands,
    timeoutMs: timeout_ms ?? undefined,
    maxOutputLength: max_output_length ?? undefined,
  }
}

const toComputerInput = ({ action, actions, pending_safety_checks, status }: Json): Json => ({
  actions: readObjects(actions ?? [action]).map(toComputerAction),
  pendingSafetyChecks: readObjects(pending_safety_checks).map(omitNulls),
  status,
})

const toComputerAction = ({ scroll_x, scroll_y, ...action }: Json): Json =>
  omitNulls({
    ...action,
    ...(action.type === 'scroll' ? { scrollX: scroll_x, scrollY: scroll_y } : {}),
  })

const omitNulls = (value: Json): Json =>
  Object.fromEntries(Object.entries(value).filter(([, value]) => value != null))

const WRAPPER = 'parallel'
const PREFIX = 'functions.'

/** One of the calls in a wrapper. */
interface WrappedCall {
  name: string
  input: string
}

/**
 * Whether this calls `multi_tool_use.parallel`, which wraps several calls in one. OpenAI's models
 * know the tool from their training and sometimes call it as if it were the client's.
 */
const isWrapper = (name: string, { tools }: TextCall): boolean =>
  name === WRAPPER && tools.length > 0 && !listFunctionNames(tools).has(WRAPPER)

/**
 * Returns the calls in a wrapper, with the client's names for its tools. Returns null unless every
 * call is of a function that the client has.
 */
function unwrapCalls(
  input: string,
  { tools }: TextCall,
  toolNames: ToolNames,
): WrappedCall[] | null {
  const uses = parseObject(input)?.tool_uses
  if (!Array.isArray(uses) || uses.length === 0) return null
  const calls = uses
    .map(use => (isObject(use) ? readWrappedCall(use, toolNames) : null))
    .filter(call => call !== null)
  const known = listFunctionNames(tools)
  return calls.length === uses.length && calls.every(({ name }) => known.has(name)) ? calls : null
}

function readWrappedCall(
  { recipient_name, parameters }: Json,
  toolNames: ToolNames,
): WrappedCall | null {
  const name = readString(recipient_name)
  if (!name?.startsWith(PREFIX) || !isObject(parameters)) return null
  return { name: toolNames.toClient(name.slice(PREFIX.length)), input: JSON.stringify(parameters) }
}

const listFunctionNames = (tools: TextCall['tools']) =>
  new Set(tools.flatMap(tool => (tool.type === 'function' ? [tool.name] : [])))
