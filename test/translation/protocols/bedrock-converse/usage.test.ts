import { describe, expect, test } from 'bun:test'
import { countInputTokens, countOutputTokens } from '../../../../src/language/usage.ts'
import { readUsage } from '../../../../src/translation/protocols/bedrock-converse.ts'

describe('usage', () => {
  test('trap 85: adds cache reads and writes, which the input excludes', () => {
    const usage = readUsage({
      inputTokens: 10,
      outputTokens: 5,
      totalTokens: 45,
      cacheReadInputTokens: 20,
      cacheWriteInputTokens: 10,
    })
    expect(usage).toEqual({
      input: { text: 10, cache_read: 20, cache_write: 10, cache_write_1h: 0, audio: 0, video: 0 },
      output: { text: 5, reasoning: 0, audio: 0, image: 0 },
      prediction: null,
    })
    expect(usage && [countInputTokens(usage), countOutputTokens(usage)]).toEqual([40, 5])
  })

  test('trap 88: counts one-hour writes separately, and never beyond the total', () => {
    const cacheDetails = [
      { inputTokens: 30, ttl: '1h' },
      { inputTokens: 10, ttl: '5m' },
    ]
    const written = (tokens: number) =>
      readUsage({ inputTokens: 1, outputTokens: 1, cacheWriteInputTokens: tokens, cacheDetails })
        ?.input
    expect(written(40)).toMatchObject({ cache_write: 10, cache_write_1h: 30 })
    expect(written(20)).toMatchObject({ cache_write: 0, cache_write_1h: 20 })
  })

  test.each([
    [null],
    ['many'],
    [[]],
    [{}],
    [{ inputTokens: 1 }],
    [{ inputTokens: -1, outputTokens: 1 }],
    [{ inputTokens: 1, outputTokens: 1.5 }],
    [{ inputTokens: 1e12, outputTokens: 1 }],
  ])('%p is no usage, or an impossible one', given => {
    expect(readUsage(given) ?? { isImpossible: true }).toMatchObject({ isImpossible: true })
  })

  test('ignores an invalid detail', () => {
    const given = {
      inputTokens: 3,
      outputTokens: 2,
      cacheWriteInputTokens: 4,
      cacheDetails: [null, { ttl: '1h' }],
    }
    expect(readUsage(given)?.input).toMatchObject({
      text: 3,
      cache_read: 0,
      cache_write: 4,
      cache_write_1h: 0,
    })
  })
})
