import {
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readObjects,
  readString,
} from '../base/json.ts'
import type { Block } from '../language/message.ts'
import type { ClientTool, FunctionTool } from '../language/tool.ts'

/**
 * The kinds of tools of the Responses API that its clients run themselves (wire reference D.6), one
 * row each: the function in its place, the item of a call, and how both are read back.
 */
interface ClientKind {
  /** The types that it has in `tools`. */
  types: string[]
  /** Builds the function in place of a tool of this kind, but for its name. */
  build(tool: Json): Pick<FunctionTool, 'description' | 'parameters'>
  /** Renders the item of a call; undefined for arguments that mean nothing to this tool. */
  toItem(input: Json): Json | undefined
  /** Reads the arguments of a call that the client sends back. */
  toInput(item: Json): Json
  /** Reads what came of it. `nameTool` tells under which name the model knows a tool. */
  toResult(item: Json, nameTool: NameTool): Block[]
}

type NameTool = (name: string, namespace?: string) => string

type KindName = Exclude<ClientTool['form'], 'function' | 'custom'>

const text = (description: string): Json => ({ type: 'string', description })
const number = (description: string): Json => ({ type: 'integer', description })
const build = (
  description: string,
  properties: Record<string, Json>,
  required: string[],
): Pick<FunctionTool, 'description' | 'parameters'> => ({
  description,
  parameters: { type: 'object', properties, required, additionalProperties: false },
})

/** The function in place of patches, also of those that the gateway offers itself. */
const PATCH_FUNCTION = build(
  'Creates, changes or deletes one file. A diff is in the V4A format: lines that begin with a ' +
    'space, + or -, in sections that begin with @@. For a new file each line of the diff begins ' +
    'with +.',
  {
    type: { type: 'string', enum: ['create_file', 'update_file', 'delete_file'] },
    path: text('The path of the file'),
    diff: text('The diff; none to delete a file'),
  },
  ['type', 'path'],
)

/** Reads what a model wants of a file; undefined if that is no operation. */
function readOperation({ type, path, diff }: Json): Json | undefined {
  const isDeletion = type === 'delete_file'
  if (!isDeletion && type !== 'create_file' && type !== 'update_file') return undefined
  if (typeof path !== 'string' || path === '') return undefined
  if (isDeletion) return { type, path }
  return typeof diff === 'string' ? { type, path, diff } : undefined
}

export const CLIENT_KINDS: Record<KindName, ClientKind> = {
  apply_patch: {
    types: ['apply_patch'],
    build: () => PATCH_FUNCTION,
    toItem(input) {
      const operation = readOperation(input)
      return operation && { type: 'apply_patch_call', operation }
    },
    toInput: item => readObject(item, 'operation'),
    toResult: ({ status, output }) => [toText(joinLines([status, output]))],
  },
  shell: {
    types: ['shell'],
    build: () =>
      build(
        'Runs commands in a shell of the user, one after the other.',
        {
          commands: { type: 'array', items: { type: 'string' }, description: 'The commands' },
          timeout_ms: number('The most milliseconds that each may take'),
          max_output_length: number('The most characters of each output'),
        },
        ['commands'],
      ),
    toItem({ commands, timeout_ms, max_output_length }) {
      if (!isTexts(commands)) return undefined
      const limits = {
        timeout_ms: toCount(timeout_ms) ?? null,
        max_output_length: toCount(max_output_length) ?? null,
      }
      return { type: 'shell_call', action: { commands, ...limits } }
    },
    toInput: item => readObject(item, 'action'),
    toResult: ({ output }) => [toText(readObjects(output).map(renderShell).join('\n'))],
  },
  local_shell: {
    types: ['local_shell'],
    build: () =>
      build(
        'Runs a command on the machine of the user.',
        {
          command: {
            type: 'array',
            items: { type: 'string' },
            description: 'It, and its arguments',
          },
          working_directory: text('The directory to run it in'),
          timeout_ms: number('The most milliseconds that it may take'),
        },
        ['command'],
      ),
    toItem({ command, working_directory, timeout_ms, env, user }) {
      if (!isTexts(command)) return undefined
      const action = omitUndefined({
        type: 'exec',
        command,
        env: isObject(env) ? env : {},
        working_directory: readString(working_directory) ?? undefined,
        timeout_ms: toCount(timeout_ms),
        user: readString(user) ?? undefined,
      })
      return { type: 'local_shell_call', action }
    },
    toInput: item => readObject(item, 'action'),
    toResult: ({ output }) => [toText(readString(output) ?? '')],
  },
  computer: {
    types: ['computer_use_preview', 'computer'],
    build: ({ display_width, display_height, environment }) =>
      build(
        `Uses the user's computer${describeScreen(display_width, display_height, environment)}: ` +
          'one action at a time. Its result is a picture of the screen.',
        {
          type: { type: 'string', enum: ACTIONS },
          x: number('Where to, from the left'),
          y: number('Where to, from the top'),
          button: { type: 'string', enum: ['left', 'right', 'wheel', 'back', 'forward'] },
          text: text('What to type'),
          keys: { type: 'array', items: { type: 'string' }, description: 'The keys to press' },
          scroll_x: number('How far to scroll to the right'),
          scroll_y: number('How far to scroll down'),
          path: {
            type: 'array',
            items: {
              type: 'object',
              properties: { x: { type: 'integer' }, y: { type: 'integer' } },
              required: ['x', 'y'],
            },
            description: 'The places to drag through',
          },
        },
        ['type'],
      ),
    toItem: action =>
      ACTIONS.includes(String(action.type))
        ? { type: 'computer_call', action, pending_safety_checks: [] }
        : undefined,
    toInput: ({ action, actions }) => (isObject(action) ? action : (readObjects(actions)[0] ?? {})),
    toResult: ({ output }) => [renderScreen(output)],
  },
  tool_search: {
    types: ['tool_search'],
    build: ({ description, parameters }) => ({
      description: readString(description) ?? 'Searches further tools, which can be called then.',
      parameters: isObject(parameters)
        ? parameters
        : build('', { query: text('What the tool should do') }, ['query']).parameters,
    }),
    toItem: input => ({ type: 'tool_search_call', execution: 'client', arguments: input }),
    toInput: item => readObject(item, 'arguments'),
    toResult: ({ tools }, nameTool) => [toText(describeFound(readObjects(tools), nameTool))],
  },
}

const NAMES = Object.keys(CLIENT_KINDS) as KindName[]

/** Tells which kind a tool is of; undefined for others, and for those that its provider runs. */
export function findClientKind(tool: Json): KindName | undefined {
  if (isHosted(tool)) return undefined
  return NAMES.find(name => CLIENT_KINDS[name].types.includes(String(tool.type)))
}

// A shell may be in a container of the provider, and the provider may do the search itself.
function isHosted({ type, environment, execution }: Json): boolean {
  if (type === 'tool_search') return execution !== 'client'
  if (type !== 'shell' || !isObject(environment)) return false
  return environment.type !== 'local'
}

/** The kind of a call's item, and of that with its result. */
export function findItemKind(type: string): { kind: ClientKind; name: KindName } | undefined {
  const name = NAMES.find(one => type === `${one}_call`)
  return name && { kind: CLIENT_KINDS[name], name }
}

/** The kind of the result of a call. */
export const findResultKind = (type: string): ClientKind | undefined => {
  const name = type === 'tool_search_output' ? 'tool_search' : type.replace(/_call_output$/, '')
  return NAMES.includes(name as KindName) ? CLIENT_KINDS[name as KindName] : undefined
}

const ACTIONS = [
  ...['click', 'double_click', 'drag', 'keypress', 'move', 'screenshot', 'scroll', 'type', 'wait'],
]

const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every(one => typeof one === 'string')

const toCount = (value: unknown): number | undefined =>
  Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined

const toText = (words: string): Block => ({ type: 'text', text: words })

const joinLines = (lines: unknown[]): string =>
  lines.filter(line => typeof line === 'string' && line !== '').join('\n')

function renderShell({ stdout, stderr, outcome }: Json): string {
  const { type, exit_code } = isObject(outcome) ? outcome : {}
  return joinLines([stdout, stderr, type === 'timeout' ? 'timeout' : `exit code ${exit_code}`])
}

function renderScreen(output: unknown): Block {
  const url = isObject(output) ? readString(output.image_url) : null
  return url === null ? toText(JSON.stringify(output)) : { type: 'image', url }
}

function describeScreen(width: unknown, height: unknown, environment: unknown): string {
  const size = toCount(width) && toCount(height) ? `, a screen of ${width} × ${height} points` : ''
  return size + (typeof environment === 'string' ? ` (${environment.slice(0, 32)})` : '')
}

function describeFound(tools: Json[], nameTool: NameTool): string {
  const names = tools.flatMap(({ type, name, tools: members }) =>
    type === 'namespace'
      ? readObjects(members).map(member => nameTool(String(member.name), String(name)))
      : [nameTool(String(name ?? type))],
  )
  return names.length > 0
    ? `These tools can be called now: ${names.join(', ')}`
    : 'No tool was found. Try other words.'
}
