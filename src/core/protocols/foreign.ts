import { type GatewayError, invalid } from '../errors.ts'
import { isObject, text } from '../kernel/json.ts'
import type { Block } from '../language/message.ts'
import type { Tool } from '../language/tool.ts'
import type { ToolResult } from './conversation.ts'

export type FunctionTool = Extract<Tool, { type: 'function' }>

/** The tool, for a provider that has functions only. Throws 400 naming any other kind. */
export function functionOf(tool: Tool, at: number): FunctionTool {
  if (tool.type === 'function') return tool
  throw foreignTool(tool.value, at)
}

/** The refusal of a tool that the provider does not have, by its kind: left out, it would be missed (translation trap 35). */
export const foreignTool = (tool: unknown, at: number): GatewayError =>
  invalid(`tools.${at}: ${kindOf(tool)} is a tool that this model’s provider does not have`, `tools.${at}`)

/** The refusal of content that the provider has no word for, by its kind. */
export const foreignContent = (block: Block | ToolResult): GatewayError => {
  const kind = block.type === 'other' ? kindOf(block.value) : block.type
  return invalid(`messages: ${kind} is content that this model’s provider does not take`, 'messages')
}

/** What the client called it. */
const kindOf = (value: unknown): string => (isObject(value) ? text(value.type) : null)?.slice(0, 64) || 'it'
