import { isObject, type Json, readString } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import { foreignTool, isForwarded, isNative } from '../native.ts'
import type { ToolNames } from '../tools.ts'
import { NATIVE } from './messages.ts'

/**
 * Renders the tools and what the model may do with them. Throws 400 naming a tool that the provider
 * does not have. Without tools no choice is sent, because OpenAI refuses one.
 */
export function renderTools(call: TextCall, names: ToolNames): Json {
  const { tool_choice, parallel_tool_calls } = call.params
  const tools = [
    ...call.tools.map((tool, i) => renderTool(tool, i, call, names)),
    ...renderHostedTools(call),
  ]
  if (tools.length === 0) return {}
  return {
    tools,
    ...(tool_choice === undefined ? {} : { tool_choice: renderToolChoice(tool_choice, names) }),
    ...(parallel_tool_calls === undefined ? {} : { parallel_tool_calls }),
  }
}

function renderTool(tool: Tool, position: number, call: TextCall, names: ToolNames): Json {
  if (tool.type === 'other') return renderOtherTool(tool, position)
  const { name, description, parameters, strict, extra } = tool
  const isOwn = isNative(call, NATIVE)
  return {
    ...(isOwn ? extra : {}),
    type: 'function',
    name: names.toWire(name),
    ...(description === undefined ? {} : { description }),
    parameters: parameters ?? { type: 'object', properties: {} },
    // Here strict is the default, unlike elsewhere, and would change a schema not meant to be
    // strict.
    ...(isOwn && strict === undefined ? {} : { strict: isOwn ? strict : strict === true }),
  }
}

function renderOtherTool(tool: Extract<Tool, { type: 'other' }>, position: number): Json {
  const { value } = tool
  if (isObject(value) && isNative(tool, NATIVE)) return value
  const type = isObject(value) ? readString(value.type) : null
  // The shorthand for a search by any provider that can search.
  if (isForwarded(tool) && type?.startsWith('web_search')) return renderWebSearch(value, type)
  throw foreignTool(value, position)
}

/** Renders the provider's own tools for what other dialects request by a parameter. */
function renderHostedTools({ params, tools }: TextCall): Json[] {
  const hosted: Json[] = []
  if (params.web_search_options !== undefined && !hasTool(tools, 'web_search'))
    hosted.push(
      renderWebSearch(params.web_search_options),
      ...renderXSearch(params.web_search_options),
    )
  if (params.modalities?.includes('image') && !hasTool(tools, 'image_generation'))
    hosted.push({ type: 'image_generation' })
  return hosted
}

const hasTool = (tools: Tool[], type: string) =>
  tools.some(
    tool =>
      tool.type === 'other' &&
      isObject(tool.value) &&
      (readString(tool.value.type) ?? '').startsWith(type),
  )

function renderWebSearch(options: unknown, type = 'web_search'): Json {
  const { search_context_size, user_location, filters, allowed_domains } = isObject(options)
    ? options
    : {}
  const allowed = filters ?? (allowed_domains == null ? undefined : { allowed_domains })
  return {
    type,
    ...(search_context_size == null ? {} : { search_context_size }),
    ...(isObject(user_location) ? { user_location: renderLocation(user_location) } : {}),
    ...(allowed == null ? {} : { filters: allowed }),
  }
}

/** Whether the call asks for a search of X, in a form that can be rendered. */
export const hasXSearch = ({ params: { web_search_options: options } }: TextCall): boolean =>
  isObject(options) && isObject(options.x_search)

// A tool of its own (xAI, "X Search").
const renderXSearch = (options: unknown): Json[] =>
  isObject(options) && isObject(options.x_search) ? [{ type: 'x_search', ...options.x_search }] : []

// The chat API has the location in an object of its own.
function renderLocation({ approximate, ...rest }: Json): Json {
  return { type: 'approximate', ...rest, ...(isObject(approximate) ? approximate : {}) }
}

function renderToolChoice(choice: ToolChoice, names: ToolNames): unknown {
  if (typeof choice === 'string') return choice
  if ('function' in choice) return { type: 'function', name: names.toWire(choice.function.name) }
  return 'allowed_tools' in choice ? renderAllowedTools(choice.allowed_tools, names) : choice
}

function renderAllowedTools(allowed: unknown, names: ToolNames): Json {
  const { mode, tools } = isObject(allowed) ? allowed : {}
  return {
    type: 'allowed_tools',
    mode,
    tools: Array.isArray(tools) ? tools.map(tool => renderAllowedTool(tool, names)) : [],
  }
}

function renderAllowedTool(tool: unknown, names: ToolNames): unknown {
  if (!isObject(tool) || !isObject(tool.function)) return tool
  return { type: 'function', name: names.toWire(readString(tool.function.name) ?? '') }
}
