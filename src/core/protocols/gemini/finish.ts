import { own } from '../../kernel/json.ts'
import type { FinishReason } from '../../language/part.ts'

/** Google's finish reasons and reasons for blocking a prompt (`Candidate.FinishReason`, `PromptFeedback.BlockReason`). */
const REASONS: Record<string, FinishReason> = {
  STOP: 'stop',
  // Some that speak like Google say so.
  FUNCTION_CALL: 'tool_calls',
  MAX_TOKENS: 'length',
  // A very long answer stops at the bound of one request.
  CONTINUATION: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  MODEL_ARMOR: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  IMAGE_PROHIBITED_CONTENT: 'content_filter',
  IMAGE_RECITATION: 'content_filter',
}

/**
 * Why the model stopped, in our words. Google says STOP of calls too, also when they came in an earlier event. Every reason but
 * these is a failure of the model (MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, LANGUAGE, OTHER), and so is one that nobody knows.
 */
export function finishReason(native: string, hasCalls: boolean): FinishReason {
  if (native === 'STOP' && hasCalls) return 'tool_calls'
  return own(REASONS, native) ?? 'error'
}

/** Why the prompt was refused before any answer, if it was. */
export const blockReason = (given: unknown): string | undefined =>
  typeof given === 'string' && given !== '' && !given.endsWith('_UNSPECIFIED') ? given : undefined
