import { describe, expect, test } from 'bun:test'
import type { FinishReason } from '../../../../src/language/part.ts'
import { readSiblingFields, renderEnding } from '../../../../src/translation/dialects/messages.ts'

const NOTHING = { calledTool: false, refused: false }
const finish = (reason: FinishReason, native: string | null, more: object = {}) => ({
  type: 'finish' as const,
  choice: 0,
  reason,
  native,
  ...more,
})
const reasonOf = (reason: FinishReason, native: string | null, said = NOTHING) =>
  renderEnding(finish(reason, native), said).stop_reason

describe('the reason', () => {
  test.each<[native: string, reason: FinishReason]>([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['pause_turn', 'stop'],
    ['compaction', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['tool_use', 'tool_calls'],
    ['refusal', 'content_filter'],
  ])('trap 69: %s stays as it is', (native, reason) => {
    expect(reasonOf(reason, native)).toBe(native)
  })

  test.each<[reason: FinishReason, native: string | null, expected: string]>([
    ['stop', 'stop', 'end_turn'],
    ['stop', 'STOP', 'end_turn'],
    ['length', 'MAX_TOKENS', 'max_tokens'],
    ['tool_calls', 'tool_calls', 'tool_use'],
    ['content_filter', 'SAFETY', 'refusal'],
    ['stop', 'toString', 'end_turn'],
    ['stop', null, 'end_turn'],
  ])('%s that another called %s is %s', (reason, native, expected) => {
    expect(reasonOf(reason, native)).toBe(expected)
  })

  test('trap 46: a forced tool call that was unwrapped into the answer is not the reason', () => {
    expect(reasonOf('stop', 'tool_use')).toBe('end_turn')
  })

  test('trap 68: a stop after a tool call becomes tool_use', () => {
    expect(reasonOf('stop', 'stop', { calledTool: true, refused: false })).toBe('tool_use')
    expect(reasonOf('length', 'length', { calledTool: true, refused: false })).toBe('max_tokens')
  })

  test('of an unfinished answer is null', () => {
    expect(renderEnding(null, NOTHING)).toEqual({
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
    })
  })
})

test('a stop sequence is included, and determines the reason', () => {
  expect(renderEnding(finish('stop', 'stop', { sequence: 'END' }), NOTHING)).toMatchObject({
    stop_reason: 'stop_sequence',
    stop_sequence: 'END',
  })
})

test('a refusal has details, the provider’s own if there are any', () => {
  const stop_details = { type: 'refusal', category: null, explanation: null }
  expect(renderEnding(finish('stop', 'stop'), { calledTool: false, refused: true })).toMatchObject({
    stop_reason: 'refusal',
    stop_details,
  })
  const told = { type: 'refusal', category: 'cyber', explanation: 'No' }
  expect(
    renderEnding(finish('content_filter', 'refusal', { extra: { stop_details: told } }), NOTHING),
  ).toMatchObject({ stop_details: told })
})

test('known further fields of the provider are kept, unknown ones are not', () => {
  const extra = {
    container: { id: 'c', expires_at: 'x' },
    context_management: { applied_edits: [] },
    secret: 'x',
  }
  expect(renderEnding(finish('stop', 'end_turn', { extra }), NOTHING)).toMatchObject({
    container: extra.container,
  })
  expect(readSiblingFields(finish('stop', 'end_turn', { extra }))).toEqual({
    context_management: extra.context_management,
  })
})
