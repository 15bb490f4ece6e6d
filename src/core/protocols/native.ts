import { type GatewayError, invalid } from '../errors.ts'
import { isObject, type Json, text } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import { TEXT_DIALECTS, type TextDialect } from '../language/dialect.ts'
import type { Block } from '../language/message.ts'
import type { Tool } from '../language/tool.ts'
import type { ToolResult } from './conversation.ts'

/** A call, or a block or tool that the gateway does not know. Both carry their client's dialect. */
interface InDialect {
  dialect: TextDialect
}

/**
 * Returns whether a provider that speaks `native` understands the client's own fields unchanged.
 */
export const isNative = ({ dialect }: InDialect, native: TextDialect | null): boolean =>
  dialect === native

/**
 * Returns whether fields of the client's dialect that the gateway does not know go to any provider.
 */
export const isForwarded = ({ dialect }: InDialect): boolean =>
  TEXT_DIALECTS[dialect].forwardsUnknown

/**
 * Returns the parameters that the gateway does not know and still sends. They come from a dialect
 * that forwards them to any provider, or from the dialect that this provider speaks itself.
 */
export function readExtra(call: TextCall, native: TextDialect | null = null): Json {
  return isNative(call, native) || isForwarded(call) ? call.extra : {}
}

export type FunctionTool = Extract<Tool, { type: 'function' }>

/** Returns the tool, for providers that only have functions. Throws 400 naming any other kind. */
export function functionOf(tool: Tool, at: number): FunctionTool {
  if (tool.type === 'function') return tool
  throw foreignTool(tool.value, at)
}

/**
 * The error for a tool that the provider does not have, by its kind. Leaving the tool out would go
 * unnoticed until it is missed (translation trap 35).
 */
export const foreignTool = (tool: unknown, at: number): GatewayError =>
  invalid(
    `tools.${at}: ${kindOf(tool)} is a tool that this model’s provider does not have`,
    `tools.${at}`,
  )

/** The error for content that the provider does not support, by its kind. */
export const foreignContent = (block: Block | ToolResult): GatewayError => {
  const kind = block.type === 'other' ? kindOf(block.value) : block.type
  return invalid(
    `messages: ${kind} is content that this model’s provider does not take`,
    'messages',
  )
}

/** Returns the `type` that the client gave, shortened for a sentence. */
const kindOf = (value: unknown): string =>
  (isObject(value) ? text(value.type) : null)?.slice(0, 64) || 'it'
