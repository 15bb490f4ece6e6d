import { invalid } from '../base/errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../base/json.ts'
import type { TextCall } from '../language/call.ts'
import {
  type ClientTool,
  CUSTOM_INPUT,
  type FunctionTool,
  type OtherTool,
  type StandIns,
  type Tool,
} from '../language/tool.ts'
import { CLIENT_KINDS, findClientKind } from './client-kinds.ts'

/**
 * The tools of Anthropic's API that its clients run themselves, and that have a schema which only
 * Claude knows (Anthropic, "Tool use"). Any other model is told it, and calls the tool by its name.
 */
const KINDS: { type: RegExp; name: string; build(tool: Json): Definition }[] = [
  {
    type: /^bash_\d{8}$/,
    name: 'bash',
    build: () =>
      define('Runs a command in a shell of bash that stays open.', {
        command: text('The command; none to restart'),
        restart: { type: 'boolean', description: 'Whether to begin a new shell' },
      }),
  },
  {
    type: /^text_editor_\d{8}$/,
    name: 'str_replace_based_edit_tool',
    build: () =>
      define(
        'Views, creates and edits text files.',
        EDITING,
        ['command', 'path'],
        [...['view', 'create', 'str_replace', 'insert']],
      ),
  },
  {
    type: /^memory_\d{8}$/,
    name: 'memory',
    build: () =>
      define(
        'Files that stay from one conversation to the next, all of them under /memories. Look there ' +
          'before anything else.',
        {
          ...EDITING,
          old_path: text('The path of a file to rename'),
          new_path: text('Its new path'),
        },
        ['command'],
        ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'],
      ),
  },
  {
    type: /^computer_\d{8}$/,
    name: 'computer',
    build: ({ display_width_px: width, display_height_px: height }) =>
      define(`Uses a computer with a screen of ${width} × ${height} points.`, POINTING, ['action']),
  },
]

type Definition = Pick<FunctionTool, 'description' | 'parameters'>

const text = (description: string): Json => ({ type: 'string', description })

const define = (
  description: string,
  properties: Record<string, Json>,
  required: string[] = [],
  commands?: string[],
): Definition => ({
  description,
  parameters: {
    type: 'object',
    properties: commands
      ? { command: { type: 'string', enum: commands }, ...properties }
      : properties,
    ...(required.length > 0 ? { required } : {}),
  },
})

const EDITING: Record<string, Json> = {
  path: text('The whole path of the file or directory'),
  file_text: text('The text of a file to create'),
  old_str: text('The text to replace, which must be there once'),
  new_str: text('The text in its place, or to insert'),
  insert_str: text('The text to insert'),
  insert_text: text('The text to insert'),
  insert_line: { type: 'integer', description: 'The line after which to insert; 0 for the top' },
  view_range: {
    type: 'array',
    items: { type: 'integer' },
    description: 'The first and the last line to view; -1 for the end',
  },
}

const PLACE: Json = { type: 'array', items: { type: 'integer' } }

const POINTING: Record<string, Json> = {
  action: {
    type: 'string',
    enum: [
      ...['key', 'type', 'mouse_move', 'left_click', 'left_click_drag', 'right_click'],
      ...['middle_click', 'double_click', 'triple_click', 'screenshot', 'cursor_position'],
      ...['left_mouse_down', 'left_mouse_up', 'scroll', 'hold_key', 'wait', 'zoom'],
    ],
  },
  coordinate: { ...PLACE, description: 'Where: from the left, from the top' },
  start_coordinate: { ...PLACE, description: 'Where a drag begins' },
  text: text('What to type, or the keys to press'),
  scroll_direction: { type: 'string', enum: ['up', 'down', 'left', 'right'] },
  scroll_amount: { type: 'integer', description: 'How many steps to scroll' },
  duration: { type: 'number', description: 'The seconds to wait or to hold' },
  region: { ...PLACE, description: 'What to zoom into: two corners' },
}

/** Returns the function in place of such a tool; null for one that only a provider could run. */
function toNamedFunction(tool: Json): FunctionTool[] | null {
  const kind = KINDS.find(({ type }) => type.test(String(tool.type)))
  if (!kind) return null
  return [{ type: 'function', name: readString(tool.name) ?? kind.name, ...kind.build(tool) }]
}

/**
 * Tools that the client runs itself and that are no functions: custom tools, namespaces, a shell,
 * patches, a computer. Only the API that they come from has them. Any other model gets functions in
 * their place, and the dialect turns calls of those into what the client knows.
 */

type DeclaringCall = Pick<TextCall, 'dialect' | 'tools' | 'messages' | 'standIns'>

/** Returns the functions that stand in for tools of the call, as `nameStandIns` named them. */
export const findStandIns = (call: DeclaringCall): StandIns => call.standIns ?? nameStandIns(call)

/**
 * Names a function for every tool that the client runs and that is none, in `tools` and in items of
 * the conversation. A name has at most 64 characters, and no other tool has it: it is the same
 * wherever the call goes, so that its answer is understood. Throws 400 for more than 8,192.
 */
export function nameStandIns({ dialect, tools, messages }: DeclaringCall): StandIns {
  const names = new Names(tools.flatMap(tool => (tool.type === 'function' ? [tool.name] : [])))
  if (dialect !== 'responses') return names
  for (const tool of tools) if (tool.type === 'other') names.addTool(tool.value)
  for (const value of listLoaded(messages)) names.addTool(value)
  return names
}

const LONGEST_NAME = 64

/** The most tools of a call that functions stand in for. */
const MOST_NAMES = 8_192

/** A member of a namespace, or a tool of its own, by the words that tell it from others. */
const buildKey = (name: string, namespace: string | undefined): string =>
  namespace === undefined ? name : `${namespace}\n${name}`

/** A tool of a kind of its own, which has no name. */
const buildKindKey = (kind: string): string => `\n${kind}`

class Names implements StandIns {
  readonly names = new Map<string, string>()
  readonly tools = new Map<string, ClientTool>()
  readonly #taken: Set<string>

  constructor(functions: string[]) {
    this.#taken = new Set(functions)
  }

  addTool(value: unknown): void {
    if (!isObject(value)) return
    const name = readString(value.name) ?? ''
    const kind = findClientKind(value)
    if (value.type === 'namespace')
      for (const member of readObjects(value.tools)) this.#addMember(member, name)
    else if (value.type === 'custom') this.#add(name, { form: 'custom', name })
    else if (value.type === 'function') this.#taken.add(name)
    else if (kind) this.#add(buildKindKey(kind), { form: kind, name: kind })
  }

  #addMember({ type, name: given }: Json, namespace: string): void {
    const name = readString(given) ?? ''
    const form = type === 'custom' ? 'custom' : 'function'
    this.#add(buildKey(name, namespace), { form, name, namespace })
  }

  #add(key: string, tool: ClientTool): void {
    if (this.names.has(key)) return
    if (this.names.size === MOST_NAMES)
      throw invalid(`tools: expected at most ${MOST_NAMES} in all namespaces`, 'tools')
    const name = this.#makeUnique(joinName(tool), key)
    this.#taken.add(name)
    this.names.set(key, name)
    this.tools.set(name, tool)
  }

  // Two may come to the same name. The second then gets a digest of what it is.
  #makeUnique(joined: string, key: string): string {
    let name = fitName(joined)
    for (let n = 0; this.#taken.has(name); n++)
      name = shorten(joined, computeDigest(n === 0 ? key : `${key}\n${n}`))
    return name
  }
}

const joinName = ({ name, namespace }: { name: string; namespace?: string }): string =>
  namespace === undefined ? name : `${namespace}__${name}`

const fitName = (name: string): string =>
  name.length <= LONGEST_NAME ? name : shorten(name, computeDigest(name))

const shorten = (name: string, digest: string): string =>
  `${name.slice(0, LONGEST_NAME - digest.length - 1)}_${digest}`

// Not a sum that texts can be made for: each try at a name would then fail as the one before.
const computeDigest = (text: string) => Bun.hash(text).toString(16).padStart(16, '0').slice(0, 8)

/**
 * Returns the name under which other models know a tool of the client. One that is gone has a name
 * all the same: the conversation goes on with its calls.
 */
export const nameTool = ({ names }: StandIns, name: string, namespace?: string): string =>
  names.get(buildKey(name, namespace)) ??
  (namespace === undefined ? name : fitName(joinName({ name, namespace })))

/** Returns the name of the function in place of a kind of tool; undefined if the call has none. */
export const nameKind = ({ names }: StandIns, kind: string): string | undefined =>
  names.get(buildKindKey(kind))

/**
 * Returns the functions in place of a tool, as its client sent it; null if only a provider could
 * run it.
 */
export function toFunctions(
  { dialect, value }: OtherTool,
  standIns: StandIns,
): FunctionTool[] | null {
  if (!isObject(value)) return null
  if (dialect === 'messages') return toNamedFunction(value)
  return dialect === 'responses' ? toResponsesFunctions(value, standIns) : null
}

function toResponsesFunctions(value: Json, standIns: StandIns): FunctionTool[] | null {
  const name = readString(value.name) ?? ''
  const kind = findClientKind(value)
  if (kind)
    return [
      {
        type: 'function',
        name: nameKind(standIns, kind) ?? kind,
        ...CLIENT_KINDS[kind].build(value),
      },
    ]
  if (value.type === 'function') return [buildFunction(value, name)]
  if (value.type === 'custom') return [buildCustom(value, nameTool(standIns, name))]
  if (value.type !== 'namespace') return null
  return readObjects(value.tools).map((member, i) => {
    const alias = nameTool(standIns, readString(member.name) ?? '', name)
    const build = member.type === 'custom' ? buildCustom : buildFunction
    return build(i === 0 ? introduce(member, value) : member, alias)
  })
}

/** Returns the first member of a namespace with what is said of all of them. */
function introduce(member: Json, { description }: Json): Json {
  const words = [description, member.description].filter(text => typeof text === 'string' && text)
  return words.length > 0 ? { ...member, description: words.join('\n\n') } : member
}

const buildFunction = ({ description, parameters, strict }: Json, name: string): FunctionTool => ({
  type: 'function',
  name,
  ...(typeof description === 'string' ? { description } : {}),
  ...(isObject(parameters) ? { parameters } : {}),
  ...(typeof strict === 'boolean' ? { strict } : {}),
})

function buildCustom(value: Json, name: string): FunctionTool {
  const { definition, syntax } = readObject(value, 'format')
  const grammar = readString(definition)
  const rule = grammar === null ? '' : `It must match this ${syntax} grammar:\n${grammar}`
  return {
    type: 'function',
    name,
    ...(typeof value.description === 'string' ? { description: value.description } : {}),
    parameters: {
      type: 'object',
      properties: {
        [CUSTOM_INPUT]: { type: 'string', ...(rule ? { description: rule } : {}) },
      },
      required: [CUSTOM_INPUT],
      additionalProperties: false,
    },
  }
}

/** The items of a conversation that give the model tools. */
const LOADING = new Set(['additional_tools', 'tool_search_output'])

/** Lists the tools that items of the conversation give the model, in their order. */
export function listLoaded(messages: TextCall['messages']): Json[] {
  const loaded: Json[] = []
  for (const { blocks } of messages)
    for (const block of blocks)
      if (block.type === 'other' && block.dialect === 'responses' && isObject(block.value))
        if (LOADING.has(String(block.value.type)))
          for (const tool of readObjects(block.value.tools)) loaded.push(tool)
  return loaded
}

/** Lists the names under which a model may call a tool of the client. */
export function listToolNames(tool: Tool, standIns: StandIns): string[] {
  if (tool.type === 'function') return [tool.name]
  const { name, tools } = tool.value as { name?: unknown; tools?: unknown }
  const own = [name, ...readObjects(tools).map(member => member.name)]
  const functions = toFunctions(tool, standIns) ?? []
  return [...own, ...functions.map(one => one.name)].filter(one => typeof one === 'string')
}
