import { own } from '../../kernel/json.ts'
import type { FinishReason } from '../../language/part.ts'

const REASONS: Record<string, FinishReason> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  error: 'error',
  // Mistral, Together and DeepSeek say these.
  model_length: 'length',
  eos: 'stop',
  insufficient_system_resource: 'error',
}

/** Why the model stopped, in our words. A reason that nobody knows is a stop: the provider's own word stays beside it. */
export const finishReason = (native: string): FinishReason => own(REASONS, native) ?? 'stop'
