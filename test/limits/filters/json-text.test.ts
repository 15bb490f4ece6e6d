import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { runInTurns } from '../../../src/base/turns.ts'
import { redactJson } from '../../../src/limits/filters/json-text.ts'
import { type FilterRule, openFilters } from '../../../src/limits/filters.ts'

async function left(json: string, ...rules: Partial<FilterRule>[]) {
  const { getInputFilters } = await openFilters(
    rules.map(rule => ({ guardrail_id: 'g', scope: 'key', action: 'redact', ...rule })),
  )
  const screen = getInputFilters('user')
  if (!screen) throw new Error('There is no screen')
  const { text, matches } = await runInTurns(redactJson(json, screen))
  return { text, count: matches.length }
}

describe('redaction in JSON leaves JSON', () => {
  test.each<[json: string, rules: Partial<FilterRule>[], expected: string, count: number]>([
    ['{"to":"bob@example.com"}', [{ slug: 'email' }], '{"to":"[EMAIL]"}', 1],
    ['{"to":"bob\\u0040example.com"}', [{ slug: 'email' }], '{"to":"[EMAIL]"}', 1],
    [
      '{"card": 4111111111111111, "n": 1}',
      [{ slug: 'credit-card' }],
      '{"card": "[CREDIT_CARD]", "n": 1}',
      1,
    ],
    ['{"password": "h8$kQ2!zLp0w"}', [{ slug: 'secrets' }], '{"password": "[SECRET]"}', 1],
    [
      '{"say \\"bob@example.com\\"": "\\n"}',
      [{ slug: 'email' }],
      '{"say \\"[EMAIL]\\"": "\\n"}',
      1,
    ],
    [
      '{"a":"x secret y"}',
      [{ pattern: 'secret', label: 'a "label"\n' }],
      '{"a":"x a \\"label\\"\\n y"}',
      1,
    ],
    // A match over a name and its value replaces the value.
    [
      '{"ssn":"12","b":true}',
      [{ pattern: '"ssn":\\s*"\\d+"' }],
      '{"ssn":"[REDACTED]","b":true}',
      1,
    ],
    ['["ab","cd"]', [{ pattern: 'b","c' }], '["a[REDACTED]","[REDACTED]d"]', 1],
    ['["ab\\n","c"]', [{ pattern: 'n","c' }], '["[REDACTED]","[REDACTED]"]', 1],
    ['{"a":"secret"}', [{ pattern: '^secret$' }], '{"a":"[REDACTED]"}', 1],
    ['{"big":123456789012345678901}', [{ slug: 'email' }], '{"big":123456789012345678901}', 0],
    ['{"cut":"bob@example.com', [{ slug: 'email' }], '{"cut":"[EMAIL]', 1],
    ['', [{ slug: 'email' }], '', 0],
  ])('%p by %j', async (json, rules, expected, count) => {
    expect(await left(json, ...rules)).toEqual({ text: expected, count })
  })

  test('for any JSON', async () => {
    await fc.assert(
      fc.asyncProperty(fc.json(), async json => {
        const { text } = await left(
          json,
          { pattern: '[a-z0-9"\\\\]{1,3}' },
          { pattern: '": ?', label: '"' },
          { pattern: '1.*2' },
        )
        JSON.parse(text)
      }),
      { numRuns: 400 },
    )
  })
})
