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

/** Whether the model may be made to call a tool. */
export const forcesTools = (endpoint: Endpoint): boolean => {
  const family = familyOf(endpoint)
  return (
    family.forces && (family.thinking !== 'claude' || capabilitiesOf(named(endpoint)).forcedTools)
  )
}

/** Whether this request makes the model call a tool. Claude may not think before it then. */
export const isForcing = (call: TextCall, endpoint: Endpoint, format: Format): boolean =>
  (format.by === 'tool' ||
    call.params.tool_choice === 'required' ||
    nameIn(call.params.tool_choice) !== null) &&
  forcesTools(endpoint)

/** What the request says of tools: `toolConfig`, and the choice in Claude's own words where Converse has none. */
export interface Tooling {
  toolConfig?: { tools: Json[]; toolChoice?: Json }
  tool_choice?: Json
}

/**
 * The tools of the call, the one that stands for the form of the answer, and the choice between them. Converse has no word for
 * "no tool": then there are none. But a conversation with calls in it must have some (translation traps 4, 27), so the tools
 * that were called are named there, with a word that they are gone.
 */
export function toolingOf({ call, endpoint, conversation, format }: RequestInputs): Tooling {
  const names = namesOf(call)
  const offered = offeredTo(call, endpoint, format).flatMap(tool => specOf(tool, endpoint, names))
  if (format.by === 'tool') return withAnswerTool(offered, endpoint, format)
  if (offered.length > 0) return chosen(offered, call, endpoint, names)
  const gone = [...calledIn(conversation)].map(name => goneSpec(names.sent(name)))
  return gone.length > 0 ? { toolConfig: { tools: gone } } : {}
}

// Who cannot be forced, or has the form of the answer to choose as well, gets only the tool that it should call.
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
  // Converse cannot ask for one call at a time, but Claude's own API can.
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

/** The choice as Claude's own API says it. */
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
