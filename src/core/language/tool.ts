/** The tools of a call. */

import { isObject, type Json } from '../kernel/json.ts'
import type { TextDialect } from './dialect.ts'
import type { CacheControl } from './message.ts'

/**
 * A function that the model may call, or a kind of tool that the gateway has no type for, exactly
 * as the client of this dialect sent it.
 */
export type Tool =
  | {
      type: 'function'
      name: string
      description?: string
      parameters?: unknown
      strict?: boolean | null
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    }
  | { type: 'other'; dialect: TextDialect; value: unknown }

export type FunctionTool = Extract<Tool, { type: 'function' }>

/** The member of a function's arguments that holds the text for a custom tool in its place. */
export const CUSTOM_INPUT = 'input'

/** Whether this is a tool that takes a text instead of JSON, which only the Responses API has. */
export const isCustomTool = (tool: Tool): tool is OtherTool & { value: Json } =>
  tool.type === 'other' &&
  tool.dialect === 'responses' &&
  isObject(tool.value) &&
  tool.value.type === 'custom'

type OtherTool = Extract<Tool, { type: 'other' }>

/** What the model may or must do with its tools. `function` names the tool that it must call. */
export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { type: 'function'; function: { name: string } }
  | { type: string }
