import type { Sequence } from '../base/iterate.ts'
import type { AnswerPart, Kind } from './work.ts'

/**
 * An answer on its way to the client. Reading it to the end, or abandoning it, settles the call:
 * always, and once.
 */
export interface Answer<K extends Kind> {
  id: string
  /** The slug of the model that serves the call, as the gateway names it. */
  model: string
  provider: string
  /** Unix seconds. */
  created: number
  /** Whether the provider gives it whole. */
  isWhole?: true
  /** The parameters and tools that were left out, as the model has none of them. */
  ignored?: string[]
  /** The most tokens that it may have, if that is fewer than asked for: a limit pays for no more. */
  maxTokens?: number
  /** Whether guardrails limit how often its caller calls. */
  isRated?: true
  parts: Sequence<AnswerPart<K>[]>
}
