import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, member, objects, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import { type FunctionTool, foreignTool, isNative } from '../native.ts'
import { searchesBy } from '../protocol.ts'
import type { ToolNames } from '../tools.ts'
import { capabilitiesOf, isAnthropic, VERTEX } from './capabilities.data.ts'
import { NATIVE } from './messages.ts'
import type { Format } from './request.ts'
import { inputSchema } from './schema.ts'

/** The fields of a request that concern tools. */
interface Tooling {
  tools?: Json[]
  tool_choice?: Json
}

/**
 * Renders the tools of the call and the choice between them, including the tool that stands for the
 * answer format.
 */
export function toolingOf(
  call: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
  format: Format,
): Tooling {
  const context = { call, endpoint, names }
  const tools = call.tools.flatMap((tool, i) => definitionsOf(tool, i, context))
  const isAsked =
    call.params.web_search_options !== undefined && tools.every(tool => tool.name !== SEARCH)
  if (isAsked && searchesItself(endpoint)) tools.push(webSearch(call.params.web_search_options))
  if (format.by === 'tool')
    return withAnswerTool(tools, call.params.tool_choice, names, format.tool)
  if (tools.length === 0) return {}
  return chosen(allowedOf(tools, call.params.tool_choice, names), call, endpoint, names)
}

// This API's choice names at most one tool. A choice among several is made by leaving out all
// others.
function allowedOf(tools: Json[], choice: ToolChoice | undefined, names: ToolNames): Json[] {
  const { allowed } = wishOf(choice)
  const offered = allowed
    ? tools.filter(tool => allowed.some(name => tool.name === names.sent(name)))
    : tools
  return offered.length > 0 ? offered : tools
}

// Other vendors behind this API do not search.
const searchesItself = (endpoint: Endpoint): boolean =>
  isAnthropic(endpoint) || endpoint.protocol === VERTEX

/** What the definition of a tool depends on. */
interface ToolContext {
  call: TextCall
  endpoint: Endpoint
  names: ToolNames
}

function definitionsOf(tool: Tool, at: number, context: ToolContext): Json[] {
  if (tool.type === 'function') return [definitionOf(tool, context)]
  const value = isObject(tool.value) ? tool.value : {}
  if (isNative(tool, NATIVE)) return [{ ...value }]
  if (isWebSearch(value) && searchesItself(context.endpoint)) return [webSearch(value)]
  throw foreignTool(value, at)
}

function definitionOf(tool: FunctionTool, { call, endpoint, names }: ToolContext): Json {
  const { name, description, parameters, strict, cache_control, extra } = tool
  return {
    ...(isNative(call, NATIVE) ? extra : {}),
    name: names.sent(name),
    ...(description ? { description } : {}),
    input_schema: inputSchema(parameters),
    ...(strict === true && capabilitiesOf(endpoint).schemas && endpoint.protocol !== VERTEX
      ? { strict }
      : {}),
    ...(cache_control ? { cache_control } : {}),
  }
}

// The chat API's shorthand, without a specific search engine.
const isWebSearch = ({ type, engine }: Json): boolean =>
  typeof type === 'string' &&
  /^web_search(_preview)?(_\d{4}_\d{2}_\d{2})?$/.test(type) &&
  (engine === undefined || engine === 'native' || engine === 'auto')

const SEARCH = 'web_search'

const SEARCH_WORDS = ['max_uses', 'allowed_domains', 'excluded_domains', 'user_location']

/**
 * Tells whether the endpoint can search the web as the call asks. Allowed and excluded domains
 * cannot be combined (Anthropic, "Web search tool").
 */
export function searches(call: TextCall, endpoint: Endpoint): boolean {
  const { web_search_options: options } = call.params
  const isBoth =
    isObject(options) &&
    options.allowed_domains !== undefined &&
    options.excluded_domains !== undefined
  return searchesItself(endpoint) && !isBoth && searchesBy(call, SEARCH_WORDS)
}

function webSearch(wish: unknown): Json {
  const given = isObject(wish) ? wish : {}
  const location = isObject(given.user_location)
    ? { ...given.user_location, ...member(given.user_location, 'approximate') }
    : null
  const tool: Json = { type: 'web_search_20250305', name: SEARCH }
  if (typeof given.max_uses === 'number') tool.max_uses = given.max_uses
  if (Array.isArray(given.allowed_domains)) tool.allowed_domains = given.allowed_domains
  if (Array.isArray(given.excluded_domains)) tool.blocked_domains = given.excluded_domains
  if (location) tool.user_location = placeOf(location)
  return tool
}

const placeOf = ({ city, region, country, timezone }: Json): Json =>
  Object.fromEntries(
    Object.entries({ type: 'approximate', city, region, country, timezone }).filter(
      ([, value]) => typeof value === 'string',
    ),
  )

// The answer is a tool call. It must be made, and made alone, and only tools the caller wants are
// offered.
function withAnswerTool(
  tools: Json[],
  choice: ToolChoice | undefined,
  names: ToolNames,
  answer: Json,
): Tooling {
  const { mode, name } = wishOf(choice)
  const offered =
    mode === 'none'
      ? []
      : name === null
        ? allowedOf(tools, choice, names)
        : tools.filter(tool => tool.name === names.sent(name))
  return {
    tools: [...offered, answer],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  }
}

function chosen(
  tools: Json[],
  { params }: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
): Tooling {
  const { tool_choice, parallel_tool_calls } = params
  const { mode, name } = wishOf(tool_choice)
  const alone = parallel_tool_calls === false ? { disable_parallel_tool_use: true } : {}
  if (mode === 'none') return { tools, tool_choice: { type: 'none' } }
  if (isForcing(tool_choice) && !capabilitiesOf(endpoint).forcedTools)
    return unforced(tools, name, names, alone)
  if (name !== null)
    return { tools, tool_choice: { type: 'tool', name: names.sent(name), ...alone } }
  if (mode === 'required') return { tools, tool_choice: { type: 'any', ...alone } }
  if (tool_choice === undefined && parallel_tool_calls !== false) return { tools }
  return { tools, tool_choice: { type: 'auto', ...alone } }
}

// A model that refuses forced calls may still choose, but only the requested tool is offered.
function unforced(tools: Json[], name: string | null, names: ToolNames, alone: Json): Tooling {
  const offered = name === null ? tools : tools.filter(tool => tool.name === names.sent(name))
  return { tools: offered.length > 0 ? offered : tools, tool_choice: { type: 'auto', ...alone } }
}

/** Tells whether the model must call a tool. Thinking is then ruled out, unless it is adaptive. */
export function isForcing(choice: ToolChoice | undefined): boolean {
  const { mode, name } = wishOf(choice)
  return mode === 'required' || name !== null
}

/** A tool choice by mode, by one name, or by several allowed names. */
interface Wish {
  mode: string
  name: string | null
  allowed: string[] | null
}

function wishOf(wish: ToolChoice | undefined): Wish {
  if (wish === undefined || typeof wish === 'string')
    return { mode: wish ?? 'auto', name: null, allowed: null }
  const choice: Json = wish
  if (choice.type === 'function')
    return { mode: 'auto', name: text(member(choice, 'function').name), allowed: null }
  if (choice.type !== 'allowed_tools') return { mode: 'auto', name: null, allowed: null }
  // The chat API nests the list in its own object. The Responses API has it next to `type`.
  const { mode, tools } = isObject(choice.allowed_tools) ? choice.allowed_tools : choice
  const allowed = objects(tools).flatMap(
    tool => text(tool.name) ?? text(member(tool, 'function').name) ?? [],
  )
  return { mode: mode === 'required' ? 'required' : 'auto', name: null, allowed }
}
