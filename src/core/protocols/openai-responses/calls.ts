import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, objects, parseObject, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import { MOST_CALLS } from '../reader.ts'
import { inputText, ownId, type ToolNames } from '../tools.ts'
import type { Item } from './items.ts'
import { namesOf } from './messages.ts'

/**
 * Reads the tool calls of one answer. Arguments may be streamed, sent whole at the end, or both;
 * they are returned once.
 */
export class Calls {
  readonly #call: TextCall
  readonly #names: ToolNames
  #count = 0

  constructor(call: TextCall) {
    this.#call = call
    this.#names = namesOf(call)
  }

  /** Whether the answer ends with a call that the client has to answer. */
  ends = false

  /** Reads an item that begins. The calls in a wrapper are known only when it is whole. */
  added(item: Item, given: Json): TextPart[] {
    const name = text(given.name)
    if (given.type !== 'function_call' || !name || isWrapper(name, this.#call)) return []
    return this.#begin(item, given, name)
  }

  /** Reads a piece of the arguments. */
  input(item: Item, given: unknown): TextPart[] {
    const input = inputText(given)
    if (!input || item.call === null) return []
    item.given.set('input', 0)
    return [{ type: 'tool-call-delta', choice: 0, index: item.call, input }]
  }

  /** Reads the whole arguments, unless they have been streamed. */
  wholeInput(item: Item, given: unknown): TextPart[] {
    return item.given.has('input') ? [] : this.input(item, given)
  }

  /** Reads a whole `function_call`. */
  done(item: Item, given: Json): TextPart[] {
    const name = text(given.name) ?? ''
    const input = inputText(given.arguments)
    const wrapped =
      item.call === null && isWrapper(name, this.#call)
        ? unwrapped(input, this.#call, this.#names)
        : null
    if (wrapped)
      return wrapped.flatMap((one, i) => this.whole(`${idOf(given)}_${i}`, { ...one, ends: true }))
    const began = item.call === null ? this.#begin(item, given, name) : []
    return [...began, ...this.wholeInput(item, input)]
  }

  /** Returns the parts of a call that comes in one piece. */
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
    return [
      {
        type: 'tool-call-start',
        choice: 0,
        index,
        id,
        name: this.#names.given(name),
        ...besides(given),
      },
    ]
  }

  #next(): number | null {
    return this.#count < MOST_CALLS ? this.#count++ : null
  }
}

/** Reads the id that results refer to: the call's own id, not its item's (translation trap 64). */
export const idOf = ({ call_id, id }: Json): string => text(call_id) || text(id) || ''

/** Reads OpenAI's further fields of a call, which clients of this dialect have to send back. */
function besides({ namespace, caller, async: late }: Json): { extra?: Json } {
  const told = Object.entries({ namespace, caller, async: late }).filter(
    ([, value]) => value != null,
  )
  return told.length > 0 ? { extra: Object.fromEntries(told) } : {}
}

/** A call of a tool that the client runs and that is not a function. */
interface ClientCall {
  name: string
  input: string
  /**
   * Whether the answer ends with `tool_calls`. In OpenAI's own client it does for functions,
   * custom tools, patches and computers.
   */
  ends: boolean
}

/**
 * Converts an item that calls one of OpenAI's own kinds of tool that the client runs. The chat API
 * only has function calls, so the item becomes a call of a function with the tool's name. The
 * arguments are those that the AI SDK passes to its tools of these kinds. Returns null for tools
 * that the provider runs itself.
 */
export function clientCallOf(item: Json, endpoint: Endpoint): ClientCall | null {
  switch (item.type) {
    case 'custom_tool_call':
      return customCall(item, endpoint)
    case 'local_shell_call':
      return call('local_shell', { action: localAction(item.action) })
    case 'shell_call':
      return isHosted(item) ? null : call('shell', { action: shellAction(item.action) })
    case 'apply_patch_call':
      return isCut(item)
        ? null
        : {
            ...call('apply_patch', { callId: item.call_id, operation: item.operation }),
            ends: true,
          }
    case 'tool_search_call':
      return item.execution === 'client'
        ? call('tool_search', { arguments: item.arguments, call_id: item.call_id })
        : null
    case 'computer_call':
      return text(item.call_id) === null
        ? null
        : { ...call('computer', computerInput(item)), ends: true }
    default:
      return null
  }
}

const call = (name: string, input: Json): ClientCall => ({
  name,
  input: JSON.stringify(input),
  ends: false,
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

// A custom tool takes text and arguments are JSON, so the text becomes a JSON string.
function customCall({ name, input }: Json, { provider }: Endpoint): ClientCall | null {
  const called = text(name)
  if (!called || provider.slug === 'xai' || RUN_BY_XAI.has(called)) return null
  return { name: called, input: JSON.stringify(text(input) ?? ''), ends: true }
}

// The provider runs a shell in its own containers itself.
const isHosted = ({ environment }: Json) => isObject(environment) && environment.type !== 'local'

// Half a patch would be a different patch.
const isCut = ({ status }: Json) => status != null && status !== 'completed'

function localAction(given: unknown): Json {
  const { type, command, timeout_ms, user, working_directory, env } = isObject(given) ? given : {}
  return { type, command, timeoutMs: timeout_ms, user, workingDirectory: working_directory, env }
}

function shellAction(given: unknown): Json {
  const { commands, timeout_ms, max_output_length } = isObject(given) ? given : {}
  return {
    commands,
    timeoutMs: timeout_ms ?? undefined,
    maxOutputLength: max_output_length ?? undefined,
  }
}

const computerInput = ({ action, actions, pending_safety_checks, status }: Json): Json => ({
  actions: objects(actions ?? [action]).map(computerAction),
  pendingSafetyChecks: objects(pending_safety_checks).map(told),
  status,
})

const computerAction = ({ scroll_x, scroll_y, ...action }: Json): Json =>
  told({ ...action, ...(action.type === 'scroll' ? { scrollX: scroll_x, scrollY: scroll_y } : {}) })

const told = (given: Json): Json =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value != null))

const WRAPPER = 'parallel'
const PREFIX = 'functions.'

/** One of the calls in a wrapper. */
interface Wrapped {
  name: string
  input: string
}

/**
 * Whether this calls `multi_tool_use.parallel`, which wraps several calls in one. OpenAI's models
 * know the tool from their training and sometimes call it as if it were the client's.
 */
const isWrapper = (name: string, { tools }: TextCall): boolean =>
  name === WRAPPER && tools.length > 0 && !names(tools).has(WRAPPER)

/**
 * Returns the calls in a wrapper, with the client's names for its tools. Returns null unless every
 * call is of a function that the client has.
 */
function unwrapped(input: string, { tools }: TextCall, toolNames: ToolNames): Wrapped[] | null {
  const uses = parseObject(input)?.tool_uses
  if (!Array.isArray(uses) || uses.length === 0) return null
  const calls = uses
    .map(use => (isObject(use) ? wrappedOf(use, toolNames) : null))
    .filter(call => call !== null)
  const known = names(tools)
  return calls.length === uses.length && calls.every(({ name }) => known.has(name)) ? calls : null
}

function wrappedOf({ recipient_name, parameters }: Json, toolNames: ToolNames): Wrapped | null {
  const name = text(recipient_name)
  if (!name?.startsWith(PREFIX) || !isObject(parameters)) return null
  return { name: toolNames.given(name.slice(PREFIX.length)), input: JSON.stringify(parameters) }
}

const names = (tools: TextCall['tools']) =>
  new Set(tools.flatMap(tool => (tool.type === 'function' ? [tool.name] : [])))
