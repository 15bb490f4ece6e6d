import { expect, test } from 'bun:test'
import { toFinishReason } from '../../../../../src/core/protocols/bedrock-converse/reader.ts'

test.each([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['tool_use', 'tool_calls'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filtered', 'content_filter'],
  ['guardrail_intervened', 'content_filter'],
  ['malformed_model_output', 'error'],
  ['malformed_tool_use', 'error'],
] as const)('trap 69: %s is %s', (native, reason) => {
  expect(toFinishReason(native)).toBe(reason)
})

test.each(['a_reason_of_tomorrow', 'constructor', '__proto__', null])(
  'trap 69: %p is a stop',
  native => {
    expect(toFinishReason(native)).toBe('stop')
  },
)
