import { isObject, type Json, readObject, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { getCapabilities } from '../anthropic-messages/capabilities.data.ts'
import { closeSchema, isClosable, toInputSchema } from '../anthropic-messages/schema.ts'
import type { Conversation } from '../conversation.ts'
import { type FunctionTool, requireFunctionTool } from '../native.ts'
import type { ToolNames } from '../tools.ts'
import { getModelFamily, resolveModelName } from './capabilities.data.ts'
import type { AnswerFormat, RequestInputs, ToolFields } from './messages.ts'
import { createToolNames, renderCachePoint } from './messages.ts'

/** Tells whether the model can be forced to call a tool. */
export const supportsForcedTools = (endpoint: Endpoint): boolean => {
  const family = getModelFamily(endpoint)
  return (
    family.supportsForcedTools &&
    (family.thinking !== 'claude' ||
      getCapabilities(resolveModelName(endpoint)).supportsForcedTools)
  )
}

/** Tells whether this request forces a tool call, which rules out thinking for Claude. */
export const requiresToolCall = (
  call: TextCall,
  endpoint: Endpoint,
  format: AnswerFormat,
): boolean =>
  (format.by === 'tool' ||
    call.params.tool_choice === 'required' ||
    getNamedFunction(call.params.tool_choice) !== null) &&
  supportsForcedTools(endpoint)

/**
 * Renders the tools of the call, the tool that stands for the answer format, and the choice between
 * them. Converse has no equivalent of "no tool", so then none are sent. But a conversation that
 * contains calls must define tools (translation traps 4, 27), so the tools that were called are
 * listed as removed.
 */
export function renderTools({ call, endpoint, conversation, format }: RequestInputs): ToolFields {
  const names = createToolNames(call)
  const offered = listOfferedTools(call, endpoint, format).flatMap(tool =>
    renderToolSpec(tool, endpoint, names),
  )
  if (format.by === 'tool') return addAnswerTool(offered, endpoint, format)
  if (offered.length > 0) return addToolChoice(offered, call, endpoint, names)
  const removed = [...collectCalledTools(conversation)].map(name =>
    renderRemovedTool(names.toWire(name)),
  )
  return removed.length > 0 ? { toolConfig: { tools: removed } } : {}
}

// Only the requested tool is offered to a model that cannot be forced, or that may also choose the
// answer tool.
function listOfferedTools(
  { tools, params: { tool_choice } }: TextCall,
  endpoint: Endpoint,
  format: AnswerFormat,
): FunctionTool[] {
  const functions = tools.map(requireFunctionTool)
  const name = getNamedFunction(tool_choice)
  if (tool_choice === 'none') return []
  if (name === null || (supportsForcedTools(endpoint) && format.by !== 'tool')) return functions
  const wanted = functions.filter(tool => tool.name === name)
  return wanted.length > 0 ? wanted : functions
}

function renderToolSpec(
  { name, description, parameters, strict, cache_control }: FunctionTool,
  endpoint: Endpoint,
  names: ToolNames,
): Json[] {
  const family = getModelFamily(endpoint)
  const schema = toInputSchema(parameters)
  const isStrict = strict === true && family.supportsSchemas && isClosable(schema)
  const toolSpec = {
    name: names.toWire(name),
    ...(description?.trim() ? { description } : {}),
    inputSchema: { json: isStrict ? closeSchema(schema) : schema },
    ...(isStrict ? { strict } : {}),
  }
  return [
    { toolSpec },
    ...(family.cachePoints === 'everywhere' ? renderCachePoint(cache_control, family) : []),
  ]
}

const collectCalledTools = ({ messages }: Conversation): Set<string> =>
  new Set(
    messages.flatMap(({ blocks }) =>
      blocks.flatMap(block => (block.type === 'tool-call' ? [block.name] : [])),
    ),
  )

const renderRemovedTool = (name: string): Json => ({
  toolSpec: {
    name,
    description: 'This tool is gone. Do not call it.',
    inputSchema: { json: { type: 'object', properties: {} } },
  },
})

function addAnswerTool(
  offered: Json[],
  endpoint: Endpoint,
  { name, description, schema }: Extract<AnswerFormat, { by: 'tool' }>,
): ToolFields {
  const tools = [...offered, { toolSpec: { name, description, inputSchema: { json: schema } } }]
  if (!supportsForcedTools(endpoint)) return { toolConfig: { tools } }
  return {
    toolConfig: { tools, toolChoice: offered.length > 0 ? { any: {} } : { tool: { name } } },
  }
}

function addToolChoice(
  tools: Json[],
  call: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
): ToolFields {
  const choice = toClaudeToolChoice(call.params.tool_choice, endpoint, names)
  // Converse cannot disable parallel calls, but Claude's own API can.
  if (call.params.parallel_tool_calls === false && getModelFamily(endpoint).thinking === 'claude')
    return { toolConfig: { tools }, tool_choice: { ...choice, disable_parallel_tool_use: true } }
  switch (choice.type) {
    case 'any':
      return { toolConfig: { tools, toolChoice: { any: {} } } }
    case 'tool':
      return { toolConfig: { tools, toolChoice: { tool: { name: choice.name } } } }
    default:
      return { toolConfig: { tools } }
  }
}

/** The tool choice of Claude's own API. */
type ClaudeToolChoice = { type: 'auto' | 'any' } | { type: 'tool'; name: string }

function toClaudeToolChoice(
  choice: ToolChoice | undefined,
  endpoint: Endpoint,
  names: ToolNames,
): ClaudeToolChoice {
  const name = getNamedFunction(choice)
  if (!supportsForcedTools(endpoint) || (name === null && choice !== 'required'))
    return { type: 'auto' }
  return name === null ? { type: 'any' } : { type: 'tool', name: names.toWire(name) }
}

function getNamedFunction(choice: ToolChoice | undefined): string | null {
  if (!isObject(choice) || choice.type !== 'function') return null
  return readString(readObject(choice, 'function').name)
}
