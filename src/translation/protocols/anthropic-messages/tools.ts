import { isObject, type Json, readObject, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Tool, ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { type FunctionTool, foreignTool, isNative } from '../native.ts'
import { hasOnlySearchOptions } from '../protocol.ts'
import { readAllowance, type ToolNames } from '../tools.ts'
import { getCapabilities, isAnthropic, VERTEX } from './capabilities.data.ts'
import type { AnswerFormat } from './messages.ts'
import { NATIVE } from './messages.ts'
import { toInputSchema } from './schema.ts'

/** The fields of a request that concern tools. */
interface ToolFields {
  tools?: Json[]
  tool_choice?: Json
}

/**
 * Renders the tools of the call and the choice between them, including the tool that stands for the
 * answer format.
 */
export function renderTools(
  call: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
  format: AnswerFormat,
): ToolFields {
  const context = { call, endpoint, names }
  const tools = call.tools.flatMap((tool, i) => renderTool(tool, i, context))
  const isAsked =
    call.params.web_search_options !== undefined && tools.every(tool => tool.name !== SEARCH_TOOL)
  if (isAsked && hasWebSearch(endpoint)) tools.push(renderWebSearch(call.params.web_search_options))
  if (format.by === 'tool') return addAnswerTool(tools, call.params.tool_choice, names, format.tool)
  if (tools.length === 0) return {}
  return addToolChoice(
    filterAllowedTools(tools, call.params.tool_choice, names),
    call,
    endpoint,
    names,
  )
}

// This API's choice names at most one tool. A choice among several is made by leaving out all
// others.
function filterAllowedTools(
  tools: Json[],
  choice: ToolChoice | undefined,
  names: ToolNames,
): Json[] {
  const { allowed } = parseToolChoice(choice)
  const offered = allowed
    ? tools.filter(tool => allowed.some(name => tool.name === names.toWire(name)))
    : tools
  return offered.length > 0 ? offered : tools
}

/** Tells whether the host searches the web. Other vendors behind this API do not. */
export const hasWebSearch = (endpoint: Endpoint): boolean =>
  isAnthropic(endpoint) || endpoint.protocol === VERTEX

/** What the definition of a tool depends on. */
interface ToolContext {
  call: TextCall
  endpoint: Endpoint
  names: ToolNames
}

function renderTool(tool: Tool, position: number, context: ToolContext): Json[] {
  if (tool.type === 'function') return [renderFunction(tool, context)]
  const value = isObject(tool.value) ? tool.value : {}
  if (isNative(tool, NATIVE)) return [{ ...value }]
  if (isWebSearch(value) && hasWebSearch(context.endpoint)) return [renderWebSearch(value)]
  throw foreignTool(value, position)
}

function renderFunction(tool: FunctionTool, { call, endpoint, names }: ToolContext): Json {
  const { name, description, parameters, strict, cache_control, extra } = tool
  return {
    ...(isNative(call, NATIVE) ? extra : {}),
    name: names.toWire(name),
    ...(description ? { description } : {}),
    input_schema: toInputSchema(parameters),
    ...(strict === true && getCapabilities(endpoint).supportsSchemas && endpoint.protocol !== VERTEX
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

const SEARCH_TOOL = 'web_search'

const SEARCH_OPTIONS = ['max_uses', 'allowed_domains', 'excluded_domains', 'user_location']

/**
 * Tells whether the endpoint can search the web as the call asks. Allowed and excluded domains
 * cannot be combined (Anthropic, "Web search tool").
 */
export function supportsWebSearch(call: TextCall, endpoint: Endpoint): boolean {
  const { web_search_options: options } = call.params
  const isBoth =
    isObject(options) &&
    options.allowed_domains !== undefined &&
    options.excluded_domains !== undefined
  return hasWebSearch(endpoint) && !isBoth && hasOnlySearchOptions(call, SEARCH_OPTIONS)
}

function renderWebSearch(options: unknown): Json {
  const fields = isObject(options) ? options : {}
  const location = isObject(fields.user_location)
    ? { ...fields.user_location, ...readObject(fields.user_location, 'approximate') }
    : null
  const tool: Json = { type: 'web_search_20250305', name: SEARCH_TOOL }
  if (typeof fields.max_uses === 'number') tool.max_uses = fields.max_uses
  if (Array.isArray(fields.allowed_domains)) tool.allowed_domains = fields.allowed_domains
  if (Array.isArray(fields.excluded_domains)) tool.blocked_domains = fields.excluded_domains
  if (location) tool.user_location = renderLocation(location)
  return tool
}

const renderLocation = ({ city, region, country, timezone }: Json): Json =>
  Object.fromEntries(
    Object.entries({ type: 'approximate', city, region, country, timezone }).filter(
      ([, value]) => typeof value === 'string',
    ),
  )

// The answer is a tool call. It must be made, and made alone, and only tools the caller wants are
// offered.
function addAnswerTool(
  tools: Json[],
  choice: ToolChoice | undefined,
  names: ToolNames,
  answer: Json,
): ToolFields {
  const { mode, name } = parseToolChoice(choice)
  const offered =
    mode === 'none'
      ? []
      : name === null
        ? filterAllowedTools(tools, choice, names)
        : tools.filter(tool => tool.name === names.toWire(name))
  return {
    tools: [...offered, answer],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  }
}

function addToolChoice(
  tools: Json[],
  { params }: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
): ToolFields {
  const { tool_choice, parallel_tool_calls } = params
  const { mode, name } = parseToolChoice(tool_choice)
  const parallelism = parallel_tool_calls === false ? { disable_parallel_tool_use: true } : {}
  if (mode === 'none') return { tools, tool_choice: { type: 'none' } }
  if (requiresToolCall(tool_choice) && !getCapabilities(endpoint).supportsForcedTools)
    return addUnforcedChoice(tools, name, names, parallelism)
  if (name !== null)
    return { tools, tool_choice: { type: 'tool', name: names.toWire(name), ...parallelism } }
  if (mode === 'required') return { tools, tool_choice: { type: 'any', ...parallelism } }
  if (tool_choice === undefined && parallel_tool_calls !== false) return { tools }
  return { tools, tool_choice: { type: 'auto', ...parallelism } }
}

// A model that refuses forced calls may still choose, but only the requested tool is offered.
function addUnforcedChoice(
  tools: Json[],
  name: string | null,
  names: ToolNames,
  parallelism: Json,
): ToolFields {
  const offered = name === null ? tools : tools.filter(tool => tool.name === names.toWire(name))
  return {
    tools: offered.length > 0 ? offered : tools,
    tool_choice: { type: 'auto', ...parallelism },
  }
}

/** Tells whether the model must call a tool. Thinking is then ruled out, unless it is adaptive. */
export function requiresToolCall(choice: ToolChoice | undefined): boolean {
  const { mode, name } = parseToolChoice(choice)
  return mode === 'required' || name !== null
}

/** A tool choice by mode, by one name, or by several allowed names. */
interface ParsedToolChoice {
  mode: string
  name: string | null
  allowed: string[] | null
}

function parseToolChoice(toolChoice: ToolChoice | undefined): ParsedToolChoice {
  if (toolChoice === undefined || typeof toolChoice === 'string')
    return { mode: toolChoice ?? 'auto', name: null, allowed: null }
  const choice: Json = toolChoice
  if (choice.type === 'function')
    return { mode: 'auto', name: readString(readObject(choice, 'function').name), allowed: null }
  const allowance = readAllowance(toolChoice)
  return { mode: allowance?.mode ?? 'auto', name: null, allowed: allowance?.names ?? null }
}
