import { describe, expect, test } from 'bun:test'
import { countInputTokens, countOutputTokens } from '../../../../src/language/usage.ts'
import { mergeUsage, readUsage } from '../../../../src/translation/protocols/anthropic-messages.ts'

const totals = (given: unknown) => {
  const usage = readUsage(given)
  return usage && [countInputTokens(usage), countOutputTokens(usage)]
}

describe('usage', () => {
  test('trap 85, 88: counts cache reads and writes separately from the input', () => {
    expect(
      readUsage({
        input_tokens: 10,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 },
        output_tokens: 7,
        output_tokens_details: { thinking_tokens: 5 },
        server_tool_use: { web_search_requests: 2 },
      }),
    ).toEqual({
      input: { text: 10, cache_read: 100, cache_write: 20, cache_write_1h: 30, audio: 0, video: 0 },
      output: { text: 2, reasoning: 5, audio: 0, image: 0 },
      prediction: null,
      units: { search: 2 },
    })
  })

  test('trap 72: later counts replace earlier ones, and missing ones stay', () => {
    const start = mergeUsage(
      {},
      {
        input_tokens: 2,
        cache_creation_input_tokens: 30,
        cache_creation: { ephemeral_1h_input_tokens: 30 },
        output_tokens: 1,
      },
    )
    const end = mergeUsage(start, {
      input_tokens: 6,
      cache_creation_input_tokens: 40,
      cache_read_input_tokens: null,
      output_tokens: 9,
    })
    expect(readUsage(end)).toMatchObject({
      input: { text: 6, cache_read: 0, cache_write: 10, cache_write_1h: 30 },
      output: { text: 9 },
    })
    expect(mergeUsage(end, null)).toBe(end)
    expect(mergeUsage({}, { odd: 1 })).toEqual({})
  })

  test('counts the model runs that the totals leave out', () => {
    const run = (type: string, input_tokens: number, output_tokens: number) => ({
      type,
      input_tokens,
      output_tokens,
    })
    const last = { input_tokens: 5, output_tokens: 6 }
    expect(
      totals({ ...last, iterations: [run('compaction', 100, 20), run('message', 5, 6)] }),
    ).toEqual([105, 26])
    expect(
      totals({ ...last, iterations: [run('message', 5, 6), run('advisor_message', 900, 90)] }),
    ).toEqual([5, 6])
    expect(
      totals({ ...last, iterations: [run('message', 4, 0), run('fallback_message', 5, 6)] }),
    ).toEqual([5, 6])
    expect(totals({ ...last, iterations: [] })).toEqual([5, 6])
    // An impossible sum counts as little as a single impossible number.
    expect(
      totals({ ...last, iterations: Array.from({ length: 3 }, () => run('message', 9e8, 9e8)) }),
    ).toEqual([5, 6])
  })

  test.each([
    [undefined],
    [null],
    [7],
    [[]],
    [{}],
    [{ input_tokens: 5 }],
    [{ input_tokens: 5, output_tokens: -1 }],
    [{ output_tokens: '7' }],
  ])('%j is no usage, or an impossible one', given => {
    expect(readUsage(given) ?? { isImpossible: true }).toMatchObject({ isImpossible: true })
  })

  test('trap 92: returns undefined if nothing was counted', () => {
    expect(readUsage({ input_tokens: 0, output_tokens: 0 })).toBeUndefined()
    expect(totals({ input_tokens: 0, output_tokens: 1 })).toEqual([0, 1])
  })

  test('parts never exceed their total', () => {
    expect(
      readUsage({
        input_tokens: 1,
        output_tokens: 2,
        output_tokens_details: { thinking_tokens: 9 },
      })?.output,
    ).toMatchObject({
      text: 0,
      reasoning: 2,
    })
    const cache_creation = { ephemeral_1h_input_tokens: 9 }
    expect(
      readUsage({
        input_tokens: 1,
        output_tokens: 2,
        cache_creation_input_tokens: 3,
        cache_creation,
      })?.input,
    ).toMatchObject({
      cache_write: 0,
      cache_write_1h: 3,
    })
  })
})
