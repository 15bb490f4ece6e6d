import { GatewayError } from '../../errors.ts'
import type { Json } from '../../kernel/json.ts'
import type { FinishReason, ReceiptPart, TextPart } from '../../language/part.ts'

/** Anthropic's reasons, and what each is in our words. */
const NATIVE: Record<string, FinishReason> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  compaction: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

const REASONS: Record<FinishReason, string | null> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  error: null,
}

type Finish = Extract<TextPart, { type: 'finish' }>

/** What the content says of why it ended. */
interface Said {
  calledTool: boolean
  refused: boolean
}

/**
 * Why the message ended, as Anthropic's clients know it, and what the provider told besides. Its own word stays where it is
 * one of theirs and means what we take it for: an answer that was unwrapped from a forced tool did not end in a call of it.
 */
export function endingOf(finish: Finish | null, said: Said) {
  const stop_reason = reasonOf(finish, said)
  return {
    stop_reason,
    stop_sequence: finish?.sequence ?? null,
    stop_details:
      stop_reason === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null,
    container: null,
    ...pick(finish?.extra, ['stop_details', 'container']),
  }
}

/** What the provider tells of the whole message besides, which stands beside the counts. */
export const besidesOf = (finish: Finish | null) =>
  pick(finish?.extra, ['context_management', 'safeguard_results', 'input_transformations'])

const pick = (from: Json | undefined, names: string[]): Json =>
  Object.fromEntries(names.flatMap(name => (from?.[name] == null ? [] : [[name, from[name]]])))

function reasonOf(finish: Finish | null, { calledTool, refused }: Said): string | null {
  if (refused) return 'refusal'
  if (!finish) return null
  const { reason, native, sequence } = finish
  if (native !== null && Object.hasOwn(NATIVE, native) && NATIVE[native] === reason) return native
  if (reason === 'stop' && typeof sequence === 'string') return 'stop_sequence'
  // Some servers stop after a call as after a text.
  return reason === 'stop' && calledTool ? 'tool_use' : REASONS[reason]
}

/** The provider stopped in an error of its own, and said no more about it. Anthropic's clients have no reason for that. */
export const endedInError = (besides: ReceiptPart['besides']) =>
  new GatewayError('provider_unavailable', 'Provider returned error', { besides })
