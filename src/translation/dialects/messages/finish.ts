import { GatewayError } from '../../../base/errors.ts'
import type { Json } from '../../../base/json.ts'
import type { FinishReason, ReceiptPart, TextPart } from '../../../language/part.ts'
import { readEnd } from '../../protocols/reader.ts'

/** The stop reasons that Anthropic's clients know. */
const NATIVE_REASONS = new Set([
  'end_turn',
  'stop_sequence',
  'pause_turn',
  'compaction',
  'max_tokens',
  'model_context_window_exceeded',
  'tool_use',
  'refusal',
])

const STOP_REASONS: Record<FinishReason, string | null> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  error: null,
}

type Finish = Extract<TextPart, { type: 'finish' }>

/** What the content tells about why the message ended. */
interface ContentOutcome {
  calledTool: boolean
  refused: boolean
}

/**
 * Renders why the message ended, with the provider's own details. The provider's native reason is
 * kept if it is one of Anthropic's and matches the finish reason. They differ if an answer was
 * unwrapped from a forced tool: it did not end in a tool call.
 */
export function renderEnding(finish: Finish | null, outcome: ContentOutcome) {
  const stop_reason = pickStopReason(finish, outcome)
  return {
    stop_reason,
    stop_sequence: finish?.sequence ?? null,
    stop_details:
      stop_reason === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null,
    container: null,
    ...pickFields(finish?.extra, ['stop_details', 'container']),
  }
}

/** Reads the provider's further fields about the whole message, which are siblings of the usage. */
export const readSiblingFields = (finish: Finish | null) =>
  pickFields(finish?.extra, ['context_management', 'safeguard_results', 'input_transformations'])

const pickFields = (fields: Json | undefined, names: string[]): Json =>
  Object.fromEntries(names.flatMap(name => (fields?.[name] == null ? [] : [[name, fields[name]]])))

function pickStopReason(
  finish: Finish | null,
  { calledTool, refused }: ContentOutcome,
): string | null {
  if (refused) return 'refusal'
  if (!finish) return null
  const { reason, native, sequence } = finish
  if (native !== null && NATIVE_REASONS.has(native) && readEnd(native)?.reason === reason)
    return native
  if (reason === 'stop' && typeof sequence === 'string') return 'stop_sequence'
  // Some servers end a tool call with the same reason as a text.
  return reason === 'stop' && calledTool ? 'tool_use' : STOP_REASONS[reason]
}

/**
 * The provider stopped with an error of its own and no details. Anthropic's format has no stop
 * reason for that.
 */
export const providerError = (siblingFields: ReceiptPart['siblingFields']) =>
  new GatewayError('provider_unavailable', 'Provider returned error', { siblingFields })
