import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json, member, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { ToolChoice } from '../../language/tool.ts'
import { capabilitiesOf } from '../anthropic-messages/capabilities.data.ts'
import { closedSchema, inputSchema, isClosable } from '../anthropic-messages/schema.ts'
import type { Conversation } from '../conversation.ts'
import { type FunctionTool, functionOf } from '../native.ts'
import type { ToolNames } from '../tools.ts'
import { familyOf, named } from './capabilities.data.ts'
import { cachePoint, namesOf } from './messages.ts'
import type { Format, RequestInputs } from './request.ts'

/** Tells whether the model can be forced to call a tool. */
export const forcesTools = (endpoint: Endpoint): boolean => {
  const family = familyOf(endpoint)
  return (
    family.forces && (family.thinking !== 'claude' || capabilitiesOf(named(endpoint)).forcedTools)
  )
}

/** Tells whether this request forces a tool call, which rules out thinking for Claude. */
export const isForcing = (call: TextCall, endpoint: Endpoint, format: Format): boolean =>
  (format.by === 'tool' ||
    call.params.tool_choice === 'required' ||
    nameIn(call.params.tool_choice) !== null) &&
  forcesTools(endpoint)

/**
 * The fields that concern tools: `toolConfig`, and Claude's own `tool_choice` where Converse has no
 * equivalent.
 */
export interface Tooling {
  toolConfig?: { tools: Json[]; toolChoice?: Json }
  tool_choice?: Json
}

/**
 * Renders the tools of the call, the tool that stands for the answer format, and the choice between
 * them. Converse has no equivalent of "no tool", so then none are sent. But a conversation that
 * contains calls must define tools (translation traps 4, 27), so the tools that were called are
 * listed as removed.
 */
export function toolingOf({ call, endpoint, conversation, format }: RequestInputs): Tooling {
  const names = namesOf(call)
  const offered = offeredTo(call, endpoint, format).flatMap(tool => specOf(tool, endpoint, names))
  if (format.by === 'tool') return withAnswerTool(offered, endpoint, format)
  if (offered.length > 0) return chosen(offered, call, endpoint, names)
  const gone = [...calledIn(conversation)].map(name => goneSpec(names.sent(name)))
  return gone.length > 0 ? { toolConfig: { tools: gone } } : {}
}

// Only the requested tool is offered to a model that cannot be forced, or that may also choose the
// answer tool.
function offeredTo(
  { tools, params: { tool_choice } }: TextCall,
  endpoint: Endpoint,
  format: Format,
): FunctionTool[] {
  const functions = tools.map(functionOf)
  const name = nameIn(tool_choice)
  if (tool_choice === 'none') return []
  if (name === null || (forcesTools(endpoint) && format.by !== 'tool')) return functions
  const wanted = functions.filter(tool => tool.name === name)
  return wanted.length > 0 ? wanted : functions
}

function specOf(
  { name, description, parameters, strict, cache_control }: FunctionTool,
  endpoint: Endpoint,
  names: ToolNames,
): Json[] {
  const family = familyOf(endpoint)
  const schema = inputSchema(parameters)
  const isStrict = strict === true && family.schemas && isClosable(schema)
  const toolSpec = {
    name: names.sent(name),
    ...(description?.trim() ? { description } : {}),
    inputSchema: { json: isStrict ? closedSchema(schema) : schema },
    ...(isStrict ? { strict } : {}),
  }
  return [{ toolSpec }, ...(family.cache === 'everywhere' ? cachePoint(cache_control, family) : [])]
}

const calledIn = ({ messages }: Conversation): Set<string> =>
  new Set(
    messages.flatMap(({ blocks }) =>
      blocks.flatMap(block => (block.type === 'tool-call' ? [block.name] : [])),
    ),
  )

const goneSpec = (name: string): Json => ({
  toolSpec: {
    name,
    description: 'This tool is gone. Do not call it.',
    inputSchema: { json: { type: 'object', properties: {} } },
  },
})

function withAnswerTool(
  offered: Json[],
  endpoint: Endpoint,
  { name, description, schema }: Extract<Format, { by: 'tool' }>,
): Tooling {
  const tools = [...offered, { toolSpec: { name, description, inputSchema: { json: schema } } }]
  if (!forcesTools(endpoint)) return { toolConfig: { tools } }
  return {
    toolConfig: { tools, toolChoice: offered.length > 0 ? { any: {} } : { tool: { name } } },
  }
}

function chosen(tools: Json[], call: TextCall, endpoint: Endpoint, names: ToolNames): Tooling {
  const choice = choiceOf(call.params.tool_choice, endpoint, names)
  // Converse cannot disable parallel calls, but Claude's own API can.
  if (call.params.parallel_tool_calls === false && familyOf(endpoint).thinking === 'claude')
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
type Choice = { type: 'auto' | 'any' } | { type: 'tool'; name: string }

function choiceOf(choice: ToolChoice | undefined, endpoint: Endpoint, names: ToolNames): Choice {
  const name = nameIn(choice)
  if (!forcesTools(endpoint) || (name === null && choice !== 'required')) return { type: 'auto' }
  return name === null ? { type: 'any' } : { type: 'tool', name: names.sent(name) }
}

function nameIn(choice: ToolChoice | undefined): string | null {
  if (!isObject(choice) || choice.type !== 'function') return null
  return text(member(choice, 'function').name)
}
