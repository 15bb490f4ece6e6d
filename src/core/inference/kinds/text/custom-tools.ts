import { isObject, type Json, readObject, readObjects, readString } from '../../../kernel/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'
import { CUSTOM_INPUT, isCustomTool, type Tool, type ToolChoice } from '../../../language/tool.ts'

/**
 * Custom tools take a text instead of JSON, and only the Responses API has them. Any other model
 * gets a function with one text in their place, and the dialect unwraps its calls.
 */

/** Returns the call with functions in place of custom tools, of their calls and of the results. */
export function replaceCustomTools(call: TextCall): TextCall {
  if (call.dialect !== 'responses') return call
  const { tool_choice, ...params } = call.params
  return {
    ...call,
    tools: call.tools.map(replaceTool),
    messages: call.messages.map(replaceInMessage),
    params:
      tool_choice === undefined ? params : { ...params, tool_choice: replaceChoice(tool_choice) },
  }
}

function replaceTool(tool: Tool): Tool {
  if (!isCustomTool(tool)) return tool
  const { value } = tool
  const { definition, syntax } = readObject(value, 'format')
  const grammar = readString(definition)
  const rule = grammar === null ? '' : `It must match this ${syntax} grammar:\n${grammar}`
  return {
    type: 'function',
    name: readString(value.name) ?? '',
    ...(typeof value.description === 'string' ? { description: value.description } : {}),
    parameters: {
      type: 'object',
      properties: {
        [CUSTOM_INPUT]: { type: 'string', ...(rule ? { description: rule } : {}) },
      },
      required: [CUSTOM_INPUT],
      additionalProperties: false,
    },
  }
}

function replaceChoice(choice: ToolChoice): ToolChoice {
  if (typeof choice === 'string') return choice
  const { type, name, allowed_tools } = choice as Json & { type: string }
  if (type === 'custom') return { type: 'function', function: { name: String(name) } }
  if (!isObject(allowed_tools)) return choice
  const tools = readObjects(allowed_tools.tools).map(tool =>
    tool.type === 'custom' ? { type: 'function', function: { name: tool.name } } : tool,
  )
  return { type, allowed_tools: { ...allowed_tools, tools } } as ToolChoice
}

function replaceInMessage(message: Message): Message {
  const [first] = message.blocks
  const item = first && readItem(first)
  if (item?.type === 'custom_tool_call_output')
    return {
      role: 'tool',
      tool_call_id: readString(item.call_id) ?? '',
      blocks: [{ type: 'text', text: readOutput(item.output) }],
    }
  return message.blocks.some(readItem)
    ? { ...message, blocks: message.blocks.map(replaceBlock) }
    : message
}

const readItem = (block: Block): Json | undefined =>
  block.type === 'other' && isObject(block.value) ? block.value : undefined

function replaceBlock(block: Block): Block {
  const item = readItem(block)
  if (item?.type !== 'custom_tool_call') return block
  return {
    type: 'tool-call',
    id: readString(item.call_id) ?? '',
    name: readString(item.name) ?? '',
    input: JSON.stringify({ [CUSTOM_INPUT]: readString(item.input) ?? '' }),
  }
}

// Pictures in the result of such a tool stay behind: the tool answers with a text.
const readOutput = (output: unknown): string =>
  readString(output) ??
  readObjects(output)
    .map(({ text }) => readString(text) ?? '')
    .join('\n')
