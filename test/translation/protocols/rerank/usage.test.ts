import { describe, expect, test } from 'bun:test'
import { createImpossibleUsage } from '../../../../src/language/usage.ts'
import { readAnyUsage } from '../../../../src/translation/protocols/rerank.ts'

describe('the usage of a ranking', () => {
  test.each<[name: string, body: Record<string, unknown>, tokens: number, units: number]>([
    ['tokens', { usage: { total_tokens: 17 } }, 17, 0],
    ['the tokens of a prompt', { usage: { prompt_tokens: 9 } }, 9, 0],
    ['units and tokens', { usage: { search_units: 2, total_tokens: 17 } }, 17, 2],
    ['units alone', { usage: { search_units: 2 } }, 0, 2],
    ['billed units', { meta: { billed_units: { search_units: 3, input_tokens: 8 } } }, 8, 3],
    [
      'tokens, and billed units beside them',
      { usage: { total_tokens: 17 }, meta: { billed_units: { search_units: 3, input_tokens: 8 } } },
      17,
      3,
    ],
    [
      'no count, and billed units beside it',
      { usage: {}, meta: { billed_units: { search_units: 3, input_tokens: 8 } } },
      8,
      3,
    ],
    [
      'units that differ from the billed ones',
      { usage: { search_units: 2 }, meta: { billed_units: { search_units: 3 } } },
      0,
      2,
    ],
  ])('may be %s', (_, body, tokens, units) => {
    const usage = readAnyUsage(body)
    expect([usage?.input.text, usage?.units?.search_unit ?? 0]).toEqual([tokens, units])
  })

  test.each<[name: string, body: Record<string, unknown>]>([
    ['nothing', {}],
    ['no objects', { usage: 'x', meta: 1 }],
    ['empty objects', { usage: {}, meta: { billed_units: {} } }],
  ])('is unknown with %s', (_, body) => {
    expect(readAnyUsage(body)).toBeUndefined()
  })

  test.each<[name: string, body: Record<string, unknown>]>([
    ['units', { usage: { search_units: -1, total_tokens: 17 } }],
    ['tokens', { usage: { search_units: 1, total_tokens: 1.5 } }],
    [
      'units beside good tokens',
      { usage: { total_tokens: 17 }, meta: { billed_units: { search_units: 'many' } } },
    ],
  ])('is impossible with impossible %s', (_, body) => {
    expect(readAnyUsage(body)).toEqual(createImpossibleUsage())
  })
})
