import { isObject, type Json, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import { foreignTool, isForwarded, isNative } from '../native.ts'
import type { ToolNames } from '../tools.ts'
import { NATIVE } from './messages.ts'

/**
 * Renders the tools and what the model may do with them. Throws 400 naming a tool that the provider
 * does not have. Without tools no choice is sent, because OpenAI refuses one.
 */
export function toolsOf(call: TextCall, names: ToolNames): Json {
  const { tool_choice, parallel_tool_calls } = call.params
  const tools = [...call.tools.map((tool, i) => toolOf(tool, i, call, names)), ...hosted(call)]
  if (tools.length === 0) return {}
  return {
    tools,
    ...(tool_choice === undefined ? {} : { tool_choice: choiceOf(tool_choice, names) }),
    ...(parallel_tool_calls === undefined ? {} : { parallel_tool_calls }),
  }
}

function toolOf(tool: Tool, at: number, call: TextCall, names: ToolNames): Json {
  if (tool.type === 'other') return otherTool(tool, at)
  const { name, description, parameters, strict, extra } = tool
  const isOwn = isNative(call, NATIVE)
  return {
    ...(isOwn ? extra : {}),
    type: 'function',
    name: names.sent(name),
    ...(description === undefined ? {} : { description }),
    parameters: parameters ?? { type: 'object', properties: {} },
    // Here strict is the default, unlike elsewhere, and would change a schema not meant to be
    // strict.
    ...(isOwn && strict === undefined ? {} : { strict: isOwn ? strict : strict === true }),
  }
}

function otherTool(tool: Extract<Tool, { type: 'other' }>, at: number): Json {
  const { value } = tool
  if (isObject(value) && isNative(tool, NATIVE)) return value
  const type = isObject(value) ? text(value.type) : null
  // The shorthand for a search by any provider that can search.
  if (isForwarded(tool) && type?.startsWith('web_search')) return webSearch(value, type)
  throw foreignTool(value, at)
}

/** Renders the provider's own tools for what other dialects request by a parameter. */
function hosted({ params, tools }: TextCall): Json[] {
  const asked: Json[] = []
  if (params.web_search_options !== undefined && !has(tools, 'web_search'))
    asked.push(webSearch(params.web_search_options))
  if (params.modalities?.includes('image') && !has(tools, 'image_generation'))
    asked.push({ type: 'image_generation' })
  return asked
}

const has = (tools: Tool[], type: string) =>
  tools.some(
    tool =>
      tool.type === 'other' &&
      isObject(tool.value) &&
      (text(tool.value.type) ?? '').startsWith(type),
  )

function webSearch(given: unknown, type = 'web_search'): Json {
  const { search_context_size, user_location, filters, allowed_domains } = isObject(given)
    ? given
    : {}
  const within = filters ?? (allowed_domains == null ? undefined : { allowed_domains })
  return {
    type,
    ...(search_context_size == null ? {} : { search_context_size }),
    ...(isObject(user_location) ? { user_location: locationOf(user_location) } : {}),
    ...(within == null ? {} : { filters: within }),
  }
}

// The chat API has the location in an object of its own.
function locationOf({ approximate, ...rest }: Json): Json {
  return { type: 'approximate', ...rest, ...(isObject(approximate) ? approximate : {}) }
}

function choiceOf(choice: ToolChoice, names: ToolNames): unknown {
  if (typeof choice === 'string') return choice
  if ('function' in choice) return { type: 'function', name: names.sent(choice.function.name) }
  return 'allowed_tools' in choice ? allowedTools(choice.allowed_tools, names) : choice
}

function allowedTools(given: unknown, names: ToolNames): Json {
  const { mode, tools } = isObject(given) ? given : {}
  return {
    type: 'allowed_tools',
    mode,
    tools: Array.isArray(tools) ? tools.map(tool => flat(tool, names)) : [],
  }
}

function flat(tool: unknown, names: ToolNames): unknown {
  if (!isObject(tool) || !isObject(tool.function)) return tool
  return { type: 'function', name: names.sent(text(tool.function.name) ?? '') }
}
