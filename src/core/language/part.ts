/** What comes back, piece by piece. */

import type { GatewayError } from '../errors.ts'
import type { TextDialect } from './dialect.ts'
import type { ReasoningDetail } from './reasoning.ts'
import type { Receipt, Usage } from './usage.ts'

export const FINISH_REASONS = ['tool_calls', 'stop', 'length', 'content_filter', 'error'] as const

export type FinishReason = (typeof FINISH_REASONS)[number]

/**
 * Pieces of an answer. `choice` counts the alternatives of one answer, from 0. Where a provider cuts what it says into blocks,
 * `block` counts them, so that a dialect which cuts too can cut in the same places.
 */
export type TextPart =
  | Start
  | { type: 'text-delta'; choice: number; text: string; logprobs?: Logprobs; block?: number }
  | { type: 'refusal-delta'; choice: number; text: string; logprobs?: Logprobs }
  /** Thinking, as words to show and as the structured entries to send back. A provider may give either, or both at once. */
  | { type: 'reasoning-delta'; choice: number; text: string; details: ReasoningDetail[] }
  /** `extra` is what the provider tells of the call besides, by its own names. */
  | {
      type: 'tool-call-start'
      choice: number
      index: number
      id: string
      name: string
      extra?: Record<string, unknown>
    }
  | { type: 'tool-call-delta'; choice: number; index: number; input: string }
  | { type: 'image'; choice: number; url: string }
  | { type: 'audio-delta'; choice: number; audio: AudioDelta }
  /**
   * A source, as the chat API shows it; `citation` as Anthropic's does, where the provider gave that. Null where one has no form
   * for it. `block` is the text that it stands behind.
   */
  | { type: 'annotation'; choice: number; annotation: unknown; citation?: unknown; block?: number }
  /** A piece that only clients of this dialect have a word for, whole: a search that the provider ran, and what it found. */
  | { type: 'other'; choice: number; dialect: TextDialect; value: unknown }
  /** `sequence` is the stop sequence that was met, where the provider tells; `extra` what it tells of the answer besides, by its own names. */
  | {
      type: 'finish'
      choice: number
      reason: FinishReason
      native: string | null
      sequence?: string | null
      extra?: Record<string, unknown>
    }
  | CommonPart

/** What every kind of work tells besides its content. */
export type CommonPart =
  /** What was sent to one provider, for a caller who asked to see it. */
  | { type: 'echo'; provider: string; model: string; body: unknown }
  /** The provider's own count. At most one, after everything it counts. */
  | { type: 'usage'; usage: Usage }
  /** The answer broke off here. What was given before stays given. */
  | { type: 'error'; error: GatewayError }
  | ReceiptPart

/** The last part: the call is settled and recorded. */
export interface ReceiptPart {
  type: 'receipt'
  receipt: Receipt
  /** What stands beside the answer's own members, for a caller who asked for it. */
  besides?: Record<string, unknown> | undefined
}

/** What the provider tells before it answers. Not yet a piece of the answer. */
export interface Start {
  type: 'start'
  upstream_id: string | null
  system_fingerprint: string | null
  service_tier: string | null
}

/** The logprobs of a piece of text, as the provider's OpenAI-shaped `{ content, refusal }`. */
export type Logprobs = { content: unknown[] | null; refusal?: unknown[] | null }

export interface AudioDelta {
  id?: string
  data?: string
  transcript?: string
  expires_at?: number
}
