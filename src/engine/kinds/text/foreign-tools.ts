import { type GatewayError, invalid } from '../../../base/errors.ts'
import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { StandIns, Tool, ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { findClientKind } from '../../../translation/client-kinds.ts'
import {
  findStandIns,
  listLoaded,
  nameKind,
  nameTool,
  toFunctions,
} from '../../../translation/client-tools.ts'
import { protocols } from '../../../translation/protocols/registry.ts'
import { isWebSearch, replaceWebSearch, WEB_SEARCH } from './web-search.ts'

/**
 * The tools of a call at an endpoint whose provider speaks another API. What the client runs itself
 * becomes functions. What only a provider runs is left out and named in the answer (translation
 * trap 35), unless the model must use it: then the call is refused.
 */

/** Whether tools and items of the call's own API go to the endpoint as they came. */
export function isAtHome({ dialect }: Pick<TextCall, 'dialect'>, endpoint: Endpoint): boolean {
  const { nativeDialect, hasFunctionsAlone } = protocols.text[endpoint.protocol] ?? {}
  return nativeDialect === dialect && !hasFunctionsAlone?.(endpoint)
}

/** Returns the call with functions in place of its tools. Throws 400 for one that must be used. */
export function replaceTools(given: TextCall, endpoint: Endpoint): TextCall {
  const call = replaceWebSearch(given, endpoint)
  if (call !== given && mustSearch(given)) throw notForced(given, endpoint)
  const loaded = listLoadedTools(call)
  if (loaded.length === 0 && call.tools.every(isFunction)) return call
  const standIns = findStandIns(call)
  const translated = [...call.tools, ...loaded].map(tool => translateTool(tool, standIns))
  const tools = distinguish(translated.flatMap(functions => functions ?? []))
  const isCut = translated.includes(null)
  const { tool_choice: given_choice, ...params } = call.params
  const choice = given_choice && translateChoice(call, given_choice, standIns, endpoint)
  if (isCut && tools.length === 0 && choice === 'required')
    throw notRun(readType(call.tools[0]), endpoint)
  const missing = findMissing(call, choice, tools)
  if (missing) throw notRun(readType(missing), endpoint)
  const { parallel_tool_calls: _, ...rest } = params
  // Without tools providers refuse what is said of their use.
  if (isCut && tools.length === 0) return { ...call, tools, params: rest }
  return { ...call, tools, params: choice ? { ...params, tool_choice: choice } : params }
}

/** Finds the tool that the model must call by its name, and that is left out. */
function findMissing(
  { tools }: TextCall,
  choice: ToolChoice | undefined,
  functions: Tool[],
): Tool | undefined {
  if (typeof choice !== 'object' || !('function' in choice)) return undefined
  const { name } = choice.function
  if (functions.some(tool => tool.type === 'function' && tool.name === name)) return undefined
  return tools.find(
    tool => tool.type === 'other' && isObject(tool.value) && tool.value.name === name,
  )
}

/** Whether the model must use the search that its provider runs. */
function mustSearch({ tools, params: { tool_choice } }: TextCall): boolean {
  if (typeof tool_choice !== 'object') return false
  if ('function' in tool_choice)
    return tools.some(
      tool =>
        isWebSearch(tool) &&
        tool.type === 'other' &&
        (tool.value as Json).name === tool_choice.function.name,
    )
  return WEB_SEARCH.test(tool_choice.type)
}

/** Lists the types of the tools that are left out at the endpoint: each once, in their order. */
export function listIgnoredTools(given: TextCall, endpoint: Endpoint): string[] {
  const loaded = listLoadedTools(given)
  if (loaded.length === 0 && given.tools.every(isFunction)) return NONE
  if (isAtHome(given, endpoint)) return NONE
  const call = replaceWebSearch(given, endpoint)
  const standIns = findStandIns(call)
  const all = [...call.tools, ...loaded]
  return [...new Set(all.filter(tool => translateTool(tool, standIns) === null).map(readType))]
}

const NONE: string[] = []

const isFunction = ({ type }: Tool): boolean => type === 'function'

const listLoadedTools = ({ dialect, messages }: TextCall): Tool[] =>
  dialect === 'responses'
    ? listLoaded(messages).map(value => ({ type: 'other', dialect, value }))
    : NO_TOOLS

const NO_TOOLS: Tool[] = []

/** Returns the functions in place of a tool; null for one that only a provider could run. */
const translateTool = (tool: Tool, standIns: StandIns): Tool[] | null =>
  tool.type === 'function' ? [tool] : toFunctions(tool, standIns)

/** Returns the first tool of each name: an item of the conversation may bring one again. */
function distinguish(tools: Tool[]): Tool[] {
  const byName = new Map<string, Tool>()
  for (const tool of tools)
    if (tool.type === 'function' && !byName.has(tool.name)) byName.set(tool.name, tool)
  return [...byName.values()]
}

const LONGEST_TYPE = 64

/** Returns the kind of a tool, as its client wrote it and short enough for a header. */
function readType(tool: Tool | undefined): string {
  const type = tool?.type === 'other' && isObject(tool.value) ? readString(tool.value.type) : null
  return (type ?? 'unknown').replace(/[^\x21-\x2b\x2d-\x7e]/g, '_').slice(0, LONGEST_TYPE)
}

/** Returns the choice among functions; undefined for none. Throws 400 for a tool that is left out. */
function translateChoice(
  call: TextCall,
  choice: ToolChoice,
  standIns: StandIns,
  endpoint: Endpoint,
): ToolChoice | undefined {
  if (typeof choice === 'string') return choice
  const { type, allowed_tools } = choice as Json & { type: string }
  if (isObject(allowed_tools)) return translateAllowance(call, allowed_tools, standIns, endpoint)
  const [name] = listChosen(call, choice as Json, standIns)
  if (name === undefined) throw notRun(type, endpoint)
  return { type: 'function', function: { name } }
}

function translateAllowance(
  call: TextCall,
  allowance: Json,
  standIns: StandIns,
  endpoint: Endpoint,
): ToolChoice {
  const given = readObjects(allowance.tools)
  const names = given.flatMap(tool => listChosen(call, tool, standIns))
  if (names.length === 0 && allowance.mode === 'required')
    throw notRun(String(given[0]?.type), endpoint)
  // The model may use nothing but what is not here.
  if (names.length === 0 && given.length > 0) return 'none'
  const tools = names.map(name => ({ type: 'function', function: { name } }))
  return { type: 'allowed_tools', allowed_tools: { ...allowance, tools } } as ToolChoice
}

/** Lists the functions that an entry of a choice means; none for a tool that is left out. */
function listChosen(call: TextCall, entry: Json, standIns: StandIns): string[] {
  const known = isObject(entry.function) ? entry.function : entry
  const name = readString(known.name)
  const namespace = readString(known.namespace) ?? undefined
  switch (entry.type) {
    case 'function':
    case 'custom':
      return name === null ? [] : [nameTool(standIns, name, namespace)]
    case 'namespace': {
      const tool = call.tools.find(one => isNamespace(one, name))
      return tool?.type === 'other' ? (toFunctions(tool, standIns) ?? []).map(one => one.name) : []
    }
    default: {
      const kind = findClientKind({ execution: 'client', ...entry })
      return (kind && [nameKind(standIns, kind)].filter(one => one !== undefined)) ?? []
    }
  }
}

const isNamespace = (tool: Tool, name: string | null): boolean =>
  tool.type === 'other' &&
  isObject(tool.value) &&
  tool.value.type === 'namespace' &&
  tool.value.name === name

/** The settings that let the gateway, or another provider, run such a tool. */
const MENDING: [RegExp, string][] = [
  [/^web_search/, 'an engine under web_search.engines lets the gateway run it'],
  [/^web_fetch/, 'web_fetch.enabled lets the gateway run it'],
  [/^image_generation/, 'server_tools.image_generation.model lets the gateway run it'],
  [/^mcp/, 'a server under mcp_servers lets the gateway run it'],
]

/** The error for a search that the model must make, and that its provider makes when it likes. */
const notForced = ({ tools }: TextCall, { provider: { slug } }: Endpoint): GatewayError =>
  invalid(
    `tool_choice: ${readType(tools.find(isWebSearch))} is a search that ${slug} cannot be told to ` +
      'make; an engine under web_search.engines lets the gateway search',
    'tool_choice',
  )

/** The error for a tool that the model must use and that is not run. */
function notRun(type: string, { provider: { slug } }: Endpoint): GatewayError {
  const name = type.slice(0, LONGEST_TYPE)
  const known = MENDING.find(([pattern]) => pattern.test(name))?.[1]
  const mending =
    known ?? `providers.${slug}.protocols lists the protocol of a provider that runs it`
  return invalid(
    `tool_choice: ${name} is a tool that this model’s provider does not run; ${mending}`,
    'tool_choice',
  )
}
