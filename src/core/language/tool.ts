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

/** What the model may or must do with its tools. `function` names the tool that it must call. */
export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { type: 'function'; function: { name: string } }
  | { type: string }
