import { own } from '../../kernel/json.ts'
import type { FinishReason } from '../../language/part.ts'

const REASONS: Record<string, FinishReason> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
  // The provider's own tools paused, or the conversation was summed up: the native reason tells that one may go on.
  pause_turn: 'stop',
  compaction: 'stop',
}

/** Why the model stopped, in our words. A reason that nobody knows is a stop: the provider's own word stays beside it. */
export const finishReason = (native: string | null): FinishReason => own(REASONS, native) ?? 'stop'
