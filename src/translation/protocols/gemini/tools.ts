import { isObject, type Json } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Tool, ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { isNative, requireFunctionTool } from '../native.ts'
import { hasOnlySearchOptions } from '../protocol.ts'
import type { ToolNames } from '../tools.ts'
import { getCapabilities } from './capabilities.data.ts'
import { NATIVE } from './messages.ts'
import { reduceSchema, toJsonSchema } from './schema.ts'

/**
 * Renders the functions of the call and the choice between them. All functions go into one entry,
 * because some models refuse several.
 */
export function renderTools(
  call: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
  { tool }: AnswerFormat,
): Json {
  const { supportsJsonSchema: isPlain, supportsSearch } = getCapabilities(endpoint)
  const own = call.tools.flatMap(renderOwnTool)
  const declarations = call.tools.flatMap((given, i) =>
    isNativeTool(given) ? [] : renderTool(given, i, names, isPlain),
  )
  if (tool)
    declarations.push(renderDeclaration(tool, 'response_format.json_schema.schema', isPlain))
  if (declarations.length === 0) {
    const searches = supportsSearch && call.params.web_search_options ? [{ googleSearch: {} }] : []
    return own.length + searches.length > 0 ? { tools: [...searches, ...own] } : {}
  }
  const functionCallingConfig = tool
    ? forceAnswerTool(tool.name, call.params.tool_choice)
    : renderToolChoice(call.params.tool_choice, names)
  return {
    tools: [{ functionDeclarations: declarations }, ...own],
    ...(functionCallingConfig ? { toolConfig: { functionCallingConfig } } : {}),
  }
}

const isNativeTool = (tool: Tool): boolean => tool.type === 'other' && isNative(tool, NATIVE)

/** Renders a tool that Google runs itself as its own client gave it. */
function renderOwnTool(tool: Tool): Json[] {
  if (tool.type !== 'other' || !isNative(tool, NATIVE) || !isObject(tool.value)) return []
  const { type: _, ...entry } = tool.value
  return [entry]
}

/**
 * Tells whether the model can search the web as the call asks. It takes no options, and cannot be
 * combined with functions.
 */
export const supportsWebSearch = (call: TextCall, endpoint: Endpoint): boolean =>
  getCapabilities(endpoint).supportsSearch &&
  call.tools.length === 0 &&
  hasOnlySearchOptions(call, [])

function renderTool(tool: Tool, at: number, names: ToolNames, isPlain: boolean): Json {
  const { name, description, parameters } = requireFunctionTool(tool, at)
  const declared = { name: names.toWire(name), description, schema: parameters }
  return renderDeclaration(declared, `tools.${at}.function.parameters`, isPlain)
}

interface Declaration {
  name: string
  description: string | undefined
  schema: unknown
}

// A function without parameters gets no schema, because an object schema without properties is
// refused.
function renderDeclaration(
  { name, description = '', schema }: Declaration,
  field: string,
  isPlain: boolean,
): Json {
  if (!isObject(schema)) return { name, description }
  if (isPlain)
    return {
      name,
      description,
      parametersJsonSchema: toJsonSchema({ type: 'object', ...schema }, field),
    }
  const parameters = reduceSchema({ type: 'object', ...schema }, field)
  return parameters.type === 'object' && !isObject(parameters.properties)
    ? { name, description }
    : { name, description, parameters }
}

function renderToolChoice(choice: ToolChoice | undefined, names: ToolNames): Json | undefined {
  if (choice === 'none') return { mode: 'NONE' }
  if (choice === 'auto') return { mode: 'AUTO' }
  if (choice === 'required') return { mode: 'ANY' }
  const name = choice && 'function' in choice ? choice.function.name : undefined
  return name === undefined
    ? undefined
    : { mode: 'ANY', allowedFunctionNames: [names.toWire(name)] }
}

// The answer is a function call, so the model must make one. If the client allows none of its own,
// only this one is allowed.
const forceAnswerTool = (name: string, choice: ToolChoice | undefined): Json =>
  choice === 'none' ? { mode: 'ANY', allowedFunctionNames: [name] } : { mode: 'ANY' }

/** How an answer of a required format is requested. */
export interface AnswerFormat {
  /** The members of the `generationConfig`. */
  config: Json
  /**
   * The function whose input is the answer, for models that cannot combine a format with functions.
   */
  tool: { name: string; description: string; schema: Json } | null
}
