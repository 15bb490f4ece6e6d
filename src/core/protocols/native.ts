import { type GatewayError, invalid } from '../errors.ts'
import { isObject, type Json, text } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import { TEXT_DIALECTS, type TextDialect } from '../language/dialect.ts'
import type { Block } from '../language/message.ts'
import type { Tool } from '../language/tool.ts'
import type { ToolResult } from './conversation.ts'

/** A call, or what of it the gateway has no word for: both know the dialect of their client. */
interface InDialect {
  dialect: TextDialect
}

/** Tells whether a provider that speaks `native` understands the client's own words as they are. */
export const isNative = ({ dialect }: InDialect, native: TextDialect | null): boolean =>
  dialect === native

/** Tells whether the client's own words are meant for any provider. */
export const isForwarded = ({ dialect }: InDialect): boolean =>
  TEXT_DIALECTS[dialect].forwardsUnknown

/**
 * Returns the parameters without a name here that go to a provider: those of a dialect that
 * forwards them to any, and those of the dialect that the provider speaks itself.
 */
export function readExtra(call: TextCall, native: TextDialect | null = null): Json {
  return isNative(call, native) || isForwarded(call) ? call.extra : {}
}

export type FunctionTool = Extract<Tool, { type: 'function' }>

/** The tool, for a provider that has functions only. Throws 400 naming any other kind. */
export function functionOf(tool: Tool, at: number): FunctionTool {
  if (tool.type === 'function') return tool
  throw foreignTool(tool.value, at)
}

/** The refusal of a tool that the provider does not have, by its kind: left out, it would be missed (translation trap 35). */
export const foreignTool = (tool: unknown, at: number): GatewayError =>
  invalid(
    `tools.${at}: ${kindOf(tool)} is a tool that this model’s provider does not have`,
    `tools.${at}`,
  )

/** The refusal of content that the provider has no word for, by its kind. */
export const foreignContent = (block: Block | ToolResult): GatewayError => {
  const kind = block.type === 'other' ? kindOf(block.value) : block.type
  return invalid(
    `messages: ${kind} is content that this model’s provider does not take`,
    'messages',
  )
}

/** What the client called it. */
const kindOf = (value: unknown): string =>
  (isObject(value) ? text(value.type) : null)?.slice(0, 64) || 'it'
