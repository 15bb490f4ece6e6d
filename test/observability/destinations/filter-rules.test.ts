import { describe, expect, test } from 'bun:test'
import {
  type FilterValues,
  matchesRules,
} from '../../../src/observability/destinations/deliveries/renderer/render-batch.ts'
import type { FilterRules } from '../../../src/observability/destinations/schema.ts'
import { isSampled } from '../../../src/observability/destinations/subscribers.ts'

const CALL: FilterValues = {
  model: 'openai/gpt-4o',
  provider: 'OpenAI',
  session_id: null,
  user_id: 'ada',
  api_key_name: 'ci',
  finish_reason: 'stop',
  input: 'Hello there',
  output: '',
  total_cost: 0.5,
  total_tokens: 12,
  prompt_tokens: 10,
  completion_tokens: 2,
}
type Rule = FilterRules['groups'][number]['rules'][number]
const rule = (field: string, operator: string, value?: string | number) =>
  ({ field, operator, ...(value === undefined ? {} : { value }) }) as Rule
const matches = (...rules: Rule[]) => matchesRules({ groups: [{ rules }] }, CALL)

describe('a rule', () => {
  test.each<[string, string, string | number | undefined, boolean]>([
    ['model', 'equals', 'openai/gpt-4o', true],
    ['model', 'equals', 'openai/gpt-4', false],
    ['model', 'not_equals', 'openai/gpt-4', true],
    ['model', 'contains', 'gpt', true],
    ['model', 'not_contains', 'gpt', false],
    ['model', 'starts_with', 'openai/', true],
    ['model', 'ends_with', '4o', true],
    ['model', 'ends_with', '4', false],
    ['model', 'regex', '^open.*4o$', true],
    ['model', 'regex', '^gpt', false],
    ['input', 'regex', '(l+)+x', false],
    ['model', 'exists', undefined, true],
    ['session_id', 'exists', undefined, false],
    ['session_id', 'not_exists', undefined, true],
    ['session_id', 'equals', 'a', false],
    ['session_id', 'not_equals', 'a', true],
    ['session_id', 'contains', '', false],
    ['session_id', 'not_contains', 'a', true],
    ['session_id', 'regex', '.*', false],
    ['output', 'not_exists', undefined, true],
    ['total_cost', 'gt', 0.4, true],
    ['total_cost', 'gt', 0.5, false],
    ['total_cost', 'gte', 0.5, true],
    ['total_tokens', 'lt', 12, false],
    ['total_tokens', 'lte', 12, true],
    ['prompt_tokens', 'equals', 10, true],
    ['completion_tokens', 'not_equals', 2, false],
  ])('%s %s %p: %p', async (field, operator, value, expected) => {
    expect(await matches(rule(field, operator, value))).toBe(expected)
  })
})

test('rules of a group are joined by its logic, groups by OR; none, or off, means every call', async () => {
  const [yes, no] = [rule('model', 'exists'), rule('session_id', 'exists')]
  expect(await matches(yes, no)).toBe(false)
  expect(await matches(yes, yes)).toBe(true)
  const groups = (...given: FilterRules['groups']) => matchesRules({ groups: given }, CALL)
  expect(await groups({ logic: 'or', rules: [no, yes] })).toBe(true)
  expect(await groups({ logic: 'or', rules: [no, no] })).toBe(false)
  expect(await groups({ rules: [no] }, { rules: [yes] })).toBe(true)
  expect(await groups({ rules: [no] }, { rules: [no] })).toBe(false)
  expect(await groups()).toBe(true)
  expect(await matchesRules(null, CALL)).toBe(true)
  expect(await matchesRules({ enabled: false, groups: [{ rules: [no] }] }, CALL)).toBe(true)
})

describe('D-07 a sample', () => {
  const id = '0198aa00-0000-7000-8000-000000000001'
  const countSampled = (sampling_rate: number, total: number) =>
    Array.from({ length: total }, (_, i) =>
      isSampled({ id, sampling_rate }, `session-${i}`),
    ).filter(Boolean).length

  test('has the share of sessions that it should have, always the same', () => {
    expect(countSampled(1, 1_000)).toBe(1_000)
    // Within four standard deviations: 200.
    expect(Math.abs(countSampled(0.5, 10_000) - 5_000)).toBeLessThan(200)
    expect(countSampled(0.0001, 10_000)).toBeLessThan(5)
    expect(isSampled({ id, sampling_rate: 0.5 }, 'session-1')).toBe(
      isSampled({ id, sampling_rate: 0.5 }, 'session-1'),
    )
  })

  test('of a larger share has all of a smaller one; another destination has others', () => {
    const sampled = (rate: number, of = id) =>
      Array.from({ length: 200 }, (_, i) => `s${i}`).filter(session =>
        isSampled({ id: of, sampling_rate: rate }, session),
      )
    expect(sampled(0.5)).toEqual(expect.arrayContaining(sampled(0.2)))
    expect(sampled(0.5)).not.toEqual(sampled(0.5, `${id.slice(0, -1)}2`))
  })
})
