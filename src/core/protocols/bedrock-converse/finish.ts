import { own } from '../../kernel/json.ts'
import type { FinishReason } from '../../language/part.ts'

const REASONS: Record<string, FinishReason> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  content_filtered: 'content_filter',
  guardrail_intervened: 'content_filter',
  malformed_model_output: 'error',
  malformed_tool_use: 'error',
}

/** Why the model stopped, in our words. A reason that nobody knows is a stop: Bedrock's own word stays beside it. */
export const finishReason = (native: string | null): FinishReason => own(REASONS, native) ?? 'stop'
