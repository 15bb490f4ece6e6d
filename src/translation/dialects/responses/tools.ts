import { isObject, type Json, readObjects, readString } from '../../../base/json.ts'
import type { CacheControl } from '../../../language/message.ts'
import type { Tool, ToolChoice } from '../../../language/tool.ts'
import { toCacheControlField, toExtraField } from '../schema.ts'
import type { FunctionTool, ResponsesRequest, ResponsesTool } from './schema.ts'

/** Converts a tool into the gateway's form. Kinds other than functions stay as they are. */
export function toTool(tool: ResponsesTool): Tool {
  if (tool.type !== 'function') return { type: 'other', dialect: 'responses', value: tool }
  const { type: _, name, description, parameters, strict, ...rest } = tool as FunctionTool
  const { cache_control, ...extra } = rest as { cache_control?: CacheControl | null }
  return {
    type: 'function',
    name,
    ...(description == null ? {} : { description }),
    ...(parameters == null ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }),
    ...toCacheControlField(cache_control),
    ...toExtraField(extra),
  }
}

/** Converts what the model may do with its tools. */
export function toToolChoice(choice: NonNullable<ResponsesRequest['tool_choice']>): ToolChoice {
  if (typeof choice === 'string') return choice
  const { type, name, mode, tools } = choice as Json
  if (type === 'function') return { type, function: { name: String(name) } }
  if (type === 'allowed_tools')
    return {
      type,
      allowed_tools: { mode, tools: readObjects(tools).map(toAllowedTool) },
    } as ToolChoice
  return choice as ToolChoice
}

const toAllowedTool = (tool: Json): Json =>
  tool.type === 'function' ? { type: 'function', function: { name: tool.name } } : tool

/** Renders the tools of a call, a preset's included, as this API shows them in an answer. */
export function renderTool(tool: Tool): Json {
  if (tool.type === 'other') return isObject(tool.value) ? tool.value : {}
  const { type, name, description = null, parameters = null, strict = null, extra } = tool
  return { ...extra, type, name, description, parameters, strict }
}

/** Renders what the model could do with its tools. */
export function renderToolChoice(choice: ToolChoice | undefined): unknown {
  if (choice === undefined || typeof choice === 'string') return choice ?? 'auto'
  if ('function' in choice) return { type: 'function', name: choice.function.name }
  const { allowed_tools } = choice as Json
  if (!isObject(allowed_tools)) return choice
  const tools = readObjects(allowed_tools.tools).map(renderAllowedTool)
  return { type: choice.type, mode: allowed_tools.mode, tools }
}

const renderAllowedTool = (tool: Json): Json =>
  isObject(tool.function) ? { type: 'function', name: readString(tool.function.name) } : tool
