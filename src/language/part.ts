/** The pieces of an answer, in the order in which they stream. */

import type { GatewayError } from '../base/errors.ts'
import type { TextDialect } from './dialect.ts'
import type { ReasoningDetail } from './reasoning.ts'
import type { Receipt, Usage } from './usage.ts'

export const FINISH_REASONS = ['tool_calls', 'stop', 'length', 'content_filter', 'error'] as const

export type FinishReason = (typeof FINISH_REASONS)[number]

/**
 * A piece of a text answer. `choice` is the index of an alternative, from 0. `block` is the index
 * of the block if the provider divides its answer into blocks, so that a dialect with blocks can
 * divide it at the same places.
 */
export type TextPart =
  | StartPart
  | {
      type: 'text-delta'
      choice: number
      text: string
      logprobs?: Logprobs
      block?: number
      item?: OutputItem
    }
  | {
      type: 'refusal-delta'
      choice: number
      text: string
      logprobs?: Logprobs
      item?: OutputItem
    }
  /**
   * Reasoning: `text` to show, and `details`, the structured entries that clients send back. A
   * provider may send either, or both at once.
   */
  | { type: 'reasoning-delta'; choice: number; text: string; details: ReasoningDetail[] }
  /** `extra` holds further fields that the provider sent with the call, under its own names. */
  | {
      type: 'tool-call-start'
      choice: number
      index: number
      id: string
      name: string
      extra?: Record<string, unknown>
      item?: OutputItem
      /** The arguments are the text that a custom tool takes, as a JSON string. */
      isCustom?: true
      /** A tool whose call does not end an answer with `tool_calls`, as a shell of OpenAI's. */
      isAside?: true
    }
  | { type: 'tool-call-delta'; choice: number; index: number; input: string }
  | { type: 'image'; choice: number; url: string }
  | { type: 'audio-delta'; choice: number; audio: AudioDelta }
  /**
   * A source: `annotation` in the chat API's form, `citation` in Anthropic's form if the provider
   * sent that, `source` in the form of the Responses API for clients of that. Null if the form
   * cannot express the source. `block` is the text that it supports.
   */
  | {
      type: 'annotation'
      choice: number
      annotation: unknown
      citation?: unknown
      source?: unknown
      block?: number
      item?: OutputItem
    }
  /**
   * A complete piece that only clients of this dialect have a type for: a search that the provider
   * ran, and its results. A preview is an event in the making of such a piece, which follows whole:
   * a stage that cannot use it leaves it out.
   */
  | { type: 'other'; choice: number; dialect: TextDialect; value: unknown; isPreview?: true }
  /** The gateway begins to run a tool of its own. Its end follows, with the same id. */
  | ({ type: 'server-tool-start'; choice: number } & ServerToolUse)
  /** What such a tool does meanwhile, for clients whose format shows that. */
  | { type: 'server-tool-progress'; choice: number; id: string; progress: ToolProgress }
  | ({ type: 'server-tool-end'; choice: number } & ServerToolUse & ServerToolOutcome)
  /**
   * `sequence` is the stop sequence that ended the answer, if the provider reports it. `extra` has
   * further fields about the answer, under the provider's own names.
   */
  | {
      type: 'finish'
      choice: number
      reason: FinishReason
      native: string | null
      sequence?: string | null
      extra?: Record<string, unknown>
      /** The provider's word is in no table, so that it counts as an error. */
      isUnknown?: true
    }
  | CommonPart

/**
 * The item of the provider's output that a piece belongs to, for clients whose format has items
 * too.
 */
export interface OutputItem {
  id: string | null
  /** Whether a message announces what the model does next, or is its answer. */
  phase?: string
}

/** One use of one of the gateway's own tools by a model. */
export interface ServerToolUse {
  id: string
  /** The tool: `web_search`. */
  tool: string
  /** The tool as the client named it: `gateway:web_search`. */
  requestedAs: string
  /** The function that the model called, and its arguments as a JSON object. */
  name: string
  input: string
  /** Further fields of its output item, by their names on the wire (wire reference D.4). */
  item: Record<string, unknown>
}

/** What the use of a tool does before it has a result; texts come piece by piece. */
export type ToolProgress =
  | { type: 'text'; text: string }
  | { type: 'panel-start'; model: string }
  | { type: 'panel-text'; model: string; text: string }
  | { type: 'panel-reasoning'; model: string; text: string }
  | { type: 'panel-end'; model: string; text: string }
  | { type: 'panel-failure'; model: string; error: string; status: number | null }
  | { type: 'analysis-start'; model: string }

/** What came of the use of a tool. */
export interface ServerToolOutcome {
  /** What the model reads. */
  output: string
  isError: boolean
  sources: { url: string; title: string | null; text?: string }[]
  /** The names of functions that the model is shown from now on. */
  loads: string[]
}

/** The parts that answers of every kind of work may have besides their content. */
export type CommonPart =
  /** The body sent to one provider, for a caller who asked to see it. */
  | { type: 'echo'; provider: string; model: string; body: unknown }
  /** The provider's own count. At most one, after all content that it counts. */
  | { type: 'usage'; usage: Usage }
  /** The answer broke off here. The parts before it remain valid. */
  | { type: 'error'; error: GatewayError }
  | ReceiptPart

/** The last part: the call is settled and recorded. */
export interface ReceiptPart {
  type: 'receipt'
  receipt: Receipt
  /** When the answer ended, in Unix seconds. */
  ended?: number
  /** Whether a limit has shortened it, which the same call is not later. Told of gathered answers. */
  isShortened?: true
  /** Fields to add next to the answer's own, for a caller who requested them. */
  siblingFields?: Record<string, unknown> | undefined
}

/** What the provider reports before its answer. It is not yet a piece of the answer. */
export interface StartPart {
  type: 'start'
  upstream_id: string | null
  system_fingerprint: string | null
  service_tier: string | null
}

/** The logprobs of a piece of text, in OpenAI's form `{ content, refusal }`. */
export type Logprobs = { content: unknown[] | null; refusal?: unknown[] | null }

export interface AudioDelta {
  id?: string
  data?: string
  transcript?: string
  expires_at?: number
}
