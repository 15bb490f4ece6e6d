import { describe, expect, test } from 'bun:test'
import { countInputTokens, countOutputTokens } from '../../../../src/language/usage.ts'
import { readUsage } from '../../../../src/translation/protocols/openai-responses/reader.ts'

describe('readUsage', () => {
  test('trap 85: cache reads and cache writes are subtracted from the input', () => {
    const given = {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
      output_tokens: 50,
      output_tokens_details: { reasoning_tokens: 30 },
    }
    expect(readUsage(given, 2)).toEqual({
      input: { text: 30, cache_read: 60, cache_write: 10, cache_write_1h: 0, audio: 0, video: 0 },
      output: { text: 20, reasoning: 30, audio: 0, image: 0 },
      prediction: null,
      units: { search: 2 },
    })
  })

  test('more cached tokens than input tokens means that they are counted separately', () => {
    const usage = readUsage(
      { input_tokens: 10, input_tokens_details: { cached_tokens: 25 }, output_tokens: 1 },
      0,
    )
    expect(usage?.input).toMatchObject({ text: 10, cache_read: 25 })
    expect(usage && countInputTokens(usage)).toBe(35)
  })

  test('more reasoning than output counts only as much as the output', () => {
    const usage = readUsage(
      { input_tokens: 1, output_tokens: 5, output_tokens_details: { reasoning_tokens: 9 } },
      0,
    )
    expect(usage?.output).toMatchObject({ text: 0, reasoning: 5 })
    expect(usage && countOutputTokens(usage)).toBe(5)
  })

  test.each([
    undefined,
    null,
    'x',
    {},
    { input_tokens: -1, output_tokens: 2 },
    { input_tokens: 1.5, output_tokens: 2 },
    { input_tokens: 1 },
  ])('%j is no usage, or an impossible one', given => {
    expect(readUsage(given, 0) ?? { isImpossible: true }).toMatchObject({ isImpossible: true })
  })
})
