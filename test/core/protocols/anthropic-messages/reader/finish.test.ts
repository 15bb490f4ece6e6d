import { expect, test } from 'bun:test'
import type { FinishReason } from '../../../../../src/core/language/part.ts'
import { toFinishReason } from '../../../../../src/core/protocols/anthropic-messages/reader.ts'

test.each<[string | null, FinishReason]>([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['compaction', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
  ['brand_new', 'stop'],
  ['constructor', 'stop'],
  [null, 'stop'],
])('trap 69: %p is %p', (native, expected) => {
  expect(toFinishReason(native)).toBe(expected)
})
