/** The gateway's own tools in a call: which of them, and when the gateway stops to run them. */

import type { FinishReason } from './part.ts'

/** What a call says of tools that the gateway runs itself (wire reference D.2 and D.6). */
export interface ServerTools {
  /** Empty in a call that only says when to stop: a preset or a plugin may bring the tools. */
  requests: ServerToolRequest[]
  /** The steps end when any of them holds. */
  stops: StopCondition[]
  /** What the client said of them, for a provider that runs a tool itself. */
  asked?: { max_tool_calls: number | null; hasConditions: boolean }
}

/** A tool that a call asks for. */
export interface ServerToolRequest {
  /** Its name in the list of tools: `web_search`. */
  name: string
  /** Its name as the client gave it, which its items have as their type: `gateway:web_search`. */
  type: string
  options: unknown
  /** What no two of a call may share: its name, with its label if it may be there more than once. */
  identity: string
  /** Where it stands in the body: `tools.2`. */
  field: string
}

/** What ends the steps of a call. One turn without tools follows if the model asked for more. */
export type StopCondition =
  /** The model has had this many turns. */
  | { type: 'step_count_is'; step_count: number }
  /** The model called this tool in its last turn. */
  | { type: 'has_tool_call'; tool_name: string }
  /** All turns together took this many tokens, those of the prompts included. */
  | { type: 'max_tokens_used'; max_tokens: number }
  /** All turns and tools together cost this much, in nano-dollars. */
  | { type: 'max_cost'; nanos: bigint }
  /** The last turn ended for this reason. */
  | { type: 'finish_reason_is'; reason: FinishReason }

/** How the parameters of a tool are read. */
export interface ToolReading {
  /** Whether its type has no prefix, so that the parameters stand beside it. */
  isPlain: boolean
  /** The position in the list of the body's tools that it is in. */
  at?: number
  /**
   * Reads a tool that stands in them. Throws 400 or 403 for what is no tool that the gateway runs
   * here.
   */
  readTool(entry: unknown, field: string): ServerToolRequest
  /** Finds the last text of this name that items and blocks of the conversation have. */
  findReplayed?(name: string): string | null
}
