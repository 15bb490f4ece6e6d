import type { Endpoint } from '../../catalog/models.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import { functionOf } from '../native.ts'
import { searchesBy } from '../protocol.ts'
import type { ToolNames } from '../tools.ts'
import { capabilitiesOf } from './capabilities.data.ts'
import type { Format } from './request.ts'
import { jsonSchema, reducedSchema } from './schema.ts'

/**
 * Renders the functions of the call and the choice between them. All functions go into one entry,
 * because some models refuse several.
 */
export function toolsOf(
  call: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
  { tool }: Format,
): Json {
  const { jsonSchema: isPlain, search } = capabilitiesOf(endpoint)
  const declared = call.tools.map((given, i) => declaration(given, i, names, isPlain))
  if (tool) declared.push(declarationOf(tool, 'response_format.json_schema.schema', isPlain))
  if (declared.length === 0)
    return search && call.params.web_search_options ? { tools: [{ googleSearch: {} }] } : {}
  const functionCallingConfig = tool
    ? forcing(tool.name, call.params.tool_choice)
    : choiceOf(call.params.tool_choice, names)
  return {
    tools: [{ functionDeclarations: declared }],
    ...(functionCallingConfig ? { toolConfig: { functionCallingConfig } } : {}),
  }
}

/**
 * Tells whether the model can search the web as the call asks. It takes no options, and cannot be
 * combined with functions.
 */
export const searches = (call: TextCall, endpoint: Endpoint): boolean =>
  capabilitiesOf(endpoint).search && call.tools.length === 0 && searchesBy(call, [])

function declaration(tool: Tool, at: number, names: ToolNames, isPlain: boolean): Json {
  const { name, description, parameters } = functionOf(tool, at)
  const declared = { name: names.sent(name), description, schema: parameters }
  return declarationOf(declared, `tools.${at}.function.parameters`, isPlain)
}

interface Declaration {
  name: string
  description: string | undefined
  schema: unknown
}

// A function without parameters gets no schema, because an object schema without properties is
// refused.
function declarationOf(
  { name, description = '', schema }: Declaration,
  field: string,
  isPlain: boolean,
): Json {
  if (!isObject(schema)) return { name, description }
  if (isPlain)
    return {
      name,
      description,
      parametersJsonSchema: jsonSchema({ type: 'object', ...schema }, field),
    }
  const parameters = reducedSchema({ type: 'object', ...schema }, field)
  return parameters.type === 'object' && !isObject(parameters.properties)
    ? { name, description }
    : { name, description, parameters }
}

function choiceOf(choice: ToolChoice | undefined, names: ToolNames): Json | undefined {
  if (choice === 'none') return { mode: 'NONE' }
  if (choice === 'auto') return { mode: 'AUTO' }
  if (choice === 'required') return { mode: 'ANY' }
  const name = choice && 'function' in choice ? choice.function.name : undefined
  return name === undefined ? undefined : { mode: 'ANY', allowedFunctionNames: [names.sent(name)] }
}

// The answer is a function call, so the model must make one. If the client allows none of its own,
// only this one is allowed.
const forcing = (name: string, choice: ToolChoice | undefined): Json =>
  choice === 'none' ? { mode: 'ANY', allowedFunctionNames: [name] } : { mode: 'ANY' }
