import { type GatewayError, invalid } from '../../base/errors.ts'
import { isObject, type Json, readString } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import { TEXT_DIALECTS, type TextDialect } from '../../language/dialect.ts'
import type { Block, Message } from '../../language/message.ts'
import type { Tool } from '../../language/tool.ts'

/** A call, or a block or tool that the gateway does not know. Both carry their client's dialect. */
interface HasDialect {
  dialect: TextDialect
}

/**
 * Returns whether a provider that speaks `native` understands the client's own fields unchanged.
 */
export const isNative = ({ dialect }: HasDialect, native: TextDialect | null): boolean =>
  dialect === native

/**
 * Returns whether fields of the client's dialect that the gateway does not know go to any provider.
 */
export const isForwarded = ({ dialect }: HasDialect): boolean =>
  TEXT_DIALECTS[dialect].forwardsUnknown

/**
 * Returns the parameters that the gateway does not know and still sends. They come from a dialect
 * that forwards them to any provider, or from the dialect that this provider speaks itself. Those of
 * the chat API that no other API has are left out (specification, What the service does, 5).
 */
export function readExtra(call: TextCall, native: TextDialect | null = null): Json {
  if (isNative(call, native)) return call.extra
  if (!isForwarded(call)) return {}
  return omitParameters(call.extra, native === 'responses' ? FOREIGN_TO_RESPONSES : FOREIGN)
}

/**
 * Parameters of the chat API and of its older form that the Responses API does not have (wire
 * reference C.1; OpenAI API reference, Chat and Completions).
 */
const FOREIGN_TO_RESPONSES = [
  ...['structured_outputs', 'x_search_filter', 'store'],
  ...['n', 'best_of', 'echo', 'suffix'],
]

/** Those that no API but OpenAI's has: others refuse a whole call for one of them. */
const FOREIGN = [
  ...FOREIGN_TO_RESPONSES,
  ...['max_tool_calls', 'safety_identifier', 'prompt_cache_retention'],
]

/** Returns the parameters without those of these names. */
export function omitParameters(parameters: Json, names: string[]): Json {
  if (!names.some(name => name in parameters)) return parameters
  const kept = { ...parameters }
  for (const name of names) delete kept[name]
  return kept
}

export type FunctionTool = Extract<Tool, { type: 'function' }>

/** Returns the tool, for providers that only have functions. Throws 400 naming any other kind. */
export function requireFunctionTool(tool: Tool, position: number): FunctionTool {
  if (tool.type === 'function') return tool
  throw foreignTool(tool.value, position)
}

/**
 * The error for a tool that the provider does not have, by its kind. Leaving the tool out would go
 * unnoticed until it is missed (translation trap 35).
 */
export const foreignTool = (tool: unknown, position: number): GatewayError =>
  invalid(
    `tools.${position}: ${readKind(tool)} is a tool that this model’s provider does not have`,
    `tools.${position}`,
  )

/** The error for content that the provider does not support, by its kind. */
export const foreignContent = (block: Block | { type: 'tool-result' }): GatewayError => {
  const kind = block.type === 'other' ? readKind(block.value) : block.type
  return invalid(
    `messages: ${kind} is content that this model’s provider does not take`,
    'messages',
  )
}

/**
 * Returns the messages without what the own tools of another provider did in the model's turns:
 * searches, their results and the like. The model's words tell what came of it. A
 * compaction stays, as it is the conversation itself.
 */
export const leaveOutToolWork = (messages: Message[], native: TextDialect | null): Message[] =>
  messages.map(message => {
    const isWork = (block: Block) =>
      block.type === 'other' &&
      !isNative(block, native) &&
      !/compaction/.test(readKind(block.value))
    return message.role === 'assistant' && message.blocks.some(isWork)
      ? { ...message, blocks: message.blocks.filter(block => !isWork(block)) }
      : message
  })

/** Returns the `type` that the client gave, shortened for a sentence. */
const readKind = (value: unknown): string =>
  (isObject(value) ? readString(value.type) : null)?.slice(0, 64) || 'it'
