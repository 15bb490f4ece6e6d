import { type Json, member, own, text } from '../../kernel/json.ts'
import type { FinishReason } from '../../language/part.ts'

/** What cut an answer short: OpenAI's words, then xAI's. */
const CUTS: Record<string, FinishReason> = {
  max_output_tokens: 'length',
  content_filter: 'content_filter',
  max_tokens: 'length',
  length: 'length',
  stop: 'stop',
}

/** What the answer held that its end depends on. */
export interface Held {
  calls: boolean
  refused: boolean
}

/** Why the model stopped, in our words and in the provider's: here a response has a status, and a reason only when it is incomplete. */
export function finishOf(response: Json, { calls, refused }: Held): { reason: FinishReason; native: string | null } {
  const cut = text(member(response, 'incomplete_details').reason)
  const status = text(response.status)
  const native = cut ?? status
  const known = own(CUTS, cut)
  if (known !== undefined) return { reason: known, native }
  if (calls) return { reason: 'tool_calls', native }
  if (cut !== null || status === 'incomplete') return { reason: 'length', native }
  return { reason: refused ? 'content_filter' : 'stop', native }
}
