import { expect, test } from 'bun:test'
import {
  filterOwnDetails,
  toReasoningBudget,
  toReasoningEffort,
} from '../../../src/translation/protocols/reasoning.ts'

test('the effort is the requested one, or the one with the nearest share of the output', () => {
  expect(toReasoningEffort({ effort: 'xhigh' }, 100)).toBe('xhigh')
  expect(toReasoningEffort({ enabled: false }, 100)).toBe('none')
  expect(toReasoningEffort({ enabled: true }, 100)).toBe('medium')
  expect(toReasoningEffort({ exclude: true }, 100)).toBeUndefined()
  expect([5, 15, 40, 80, 99].map(max_tokens => toReasoningEffort({ max_tokens }, 100))).toEqual([
    'minimal',
    'low',
    'medium',
    'high',
    'xhigh',
  ])
})

test('C.1 the budget is the effort’s share of the output bound, from 1,024 to 128,000', () => {
  expect(
    ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'].map(effort =>
      toReasoningBudget({ effort }, 20_000),
    ),
  ).toEqual([2_000, 4_000, 10_000, 16_000, 19_000, 19_000])
  expect(toReasoningBudget({ effort: 'minimal' }, 1_000)).toBe(1_024)
  expect(toReasoningBudget({ effort: 'xhigh' }, 1_000_000)).toBe(128_000)
  expect(toReasoningBudget({ max_tokens: 500 }, 1_000)).toBe(500)
  expect([
    toReasoningBudget({ effort: 'none' }, 9_999),
    toReasoningBudget({ enabled: false }, 9_999),
    toReasoningBudget({}, 9_999),
  ]).toEqual([0, 0, undefined])
})

test('trap 96: a provider gets only its own entries back', () => {
  const own = { type: 'reasoning.text', text: 'a', signature: 's', format: 'anthropic-claude-v1' }
  const others = [
    { type: 'reasoning.encrypted', data: 'x', format: 'google-gemini-v1' },
    { type: 'reasoning.text', text: 'b' },
  ]
  expect(filterOwnDetails([...others, own], ['anthropic-claude-v1'])).toEqual([own])
  expect(filterOwnDetails(null, ['anthropic-claude-v1'])).toEqual([])
})
