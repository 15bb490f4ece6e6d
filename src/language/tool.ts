/** The tools of a call. */

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

/** How clients know a tool for which a function stands in. */
export interface ClientTool {
  /** How it is called: like a function, with a text, or in the form of a kind of its own. */
  form: 'function' | 'custom' | 'shell' | 'local_shell' | 'apply_patch' | 'computer' | 'tool_search'
  name: string
  namespace?: string
}

/** The functions that stand in for tools of a client that are none. */
export interface StandIns {
  /** Their names, by those of the tools. */
  readonly names: Map<string, string>
  /** The tools, by the names of the functions. */
  readonly tools: Map<string, ClientTool>
}

/** The member of a function's arguments that holds the text for a custom tool in its place. */
export const CUSTOM_INPUT = 'input'

export type OtherTool = Extract<Tool, { type: 'other' }>

/** What the model may or must do with its tools. `function` names the tool that it must call. */
export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { type: 'function'; function: { name: string } }
  | { type: string }
