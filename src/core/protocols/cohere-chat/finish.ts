import { own } from '../../kernel/json.ts'
import type { FinishReason } from '../../language/part.ts'

/** Cohere's words; the last three are of version 1, which some hosts of its models still say. */
const REASONS: Record<string, FinishReason> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool_calls',
  ERROR: 'error',
  TIMEOUT: 'error',
  ERROR_TOXIC: 'content_filter',
  ERROR_LIMIT: 'length',
  USER_CANCEL: 'stop',
}

/** Why the model stopped, in our words. A reason that nobody knows is a stop: Cohere's own word stays beside it. */
export const finishReason = (native: string | null): FinishReason => own(REASONS, native) ?? 'stop'
