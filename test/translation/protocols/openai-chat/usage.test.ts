import { describe, expect, test } from 'bun:test'
import {
  countInputTokens,
  countOutputTokens,
  createTextUsage,
  getSearchCount,
} from '../../../../src/language/usage.ts'
import { readUsage } from '../../../../src/translation/protocols/openai-chat/reader.ts'

describe('readUsage', () => {
  test('plain counts are text', () => {
    expect(readUsage({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 })).toEqual(
      createTextUsage(10, 5),
    )
  })

  test('details are subtracted from their totals, so that the classes add up', () => {
    const usage = readUsage({
      prompt_tokens: 100,
      completion_tokens: 50,
      prompt_tokens_details: {
        cached_tokens: 40,
        cache_write_tokens: 10,
        audio_tokens: 5,
        video_tokens: 3,
      },
      completion_tokens_details: { reasoning_tokens: 20, audio_tokens: 4, image_tokens: 6 },
    })
    expect(usage).toMatchObject({
      input: { text: 42, cache_read: 40, cache_write: 10, cache_write_1h: 0, audio: 5, video: 3 },
      output: { text: 20, reasoning: 20, audio: 4, image: 6 },
    })
  })

  test.each([
    [{ server_tool_use: { web_search_requests: 2 } }, 2],
    [{ num_search_queries: 18 }, 18],
    [{ num_search_queries: -1, server_tool_use: null }, null],
    [{}, null],
  ])('searches are counted if reported: %j', (given, searches) => {
    const usage = readUsage({ prompt_tokens: 10, completion_tokens: 5, ...given })
    expect(usage && getSearchCount(usage)).toBe(searches)
  })

  test('cached tokens are read under DeepSeek’s name too', () => {
    expect(
      readUsage({ prompt_tokens: 10, completion_tokens: 1, prompt_cache_hit_tokens: 6 })?.input,
    ).toMatchObject({
      text: 4,
      cache_read: 6,
    })
  })

  test('cached tokens are read under Moonshot’s name too', () => {
    expect(
      readUsage({ prompt_tokens: 20, completion_tokens: 1, cached_tokens: 10 })?.input,
    ).toMatchObject({ text: 10, cache_read: 10 })
  })

  test.each([
    [{ num_cached_tokens: 6 }],
    [{ prompt_token_details: { cached_tokens: 6 } }],
    [{ prompt_tokens_details: { cached_tokens: 6 }, num_cached_tokens: null }],
  ])('cached tokens are read under each of Mistral’s names: %j', given => {
    expect(readUsage({ prompt_tokens: 10, completion_tokens: 1, ...given })?.input).toMatchObject({
      text: 4,
      cache_read: 6,
    })
  })

  test('Moonshot’s name for cached tokens goes before details without any', () => {
    const given = {
      prompt_tokens: 20,
      completion_tokens: 1,
      cached_tokens: 10,
      prompt_tokens_details: { cached_tokens: 0 },
    }
    expect(readUsage(given)?.input).toMatchObject({ text: 10, cache_read: 10 })
  })

  test('cache writes are read under Alibaba’s name too', () => {
    const details = { cached_tokens: 3, cache_creation_input_tokens: 5 }
    expect(
      readUsage({ prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: details })?.input,
    ).toMatchObject({
      text: 2,
      cache_read: 3,
      cache_write: 5,
    })
  })

  test.each([
    [{ ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 3 }, 2, 3],
    [{ ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 9 }, 0, 5],
    [null, 5, 0],
  ])(
    'cache writes are read under LiteLLM’s name too, those of an hour apart: %j',
    (ages, five, hour) => {
      const details = {
        cached_tokens: 3,
        cache_creation_tokens: 5,
        cache_creation_token_details: ages,
      }
      expect(
        readUsage({ prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: details })
          ?.input,
      ).toMatchObject({ text: 2, cache_read: 3, cache_write: five, cache_write_1h: hour })
    },
  )

  test('Perplexity’s reasoning is added; that of unknown servers is not', () => {
    const given = {
      prompt_tokens: 33,
      completion_tokens: 7163,
      total_tokens: 7196,
      reasoning_tokens: 73_997,
    }
    expect(
      readUsage({ ...given, citation_tokens: 20_016, num_search_queries: 18 })?.output,
    ).toMatchObject({ text: 7163, reasoning: 73_997 })
    expect(readUsage(given)?.output).toMatchObject({ text: 7163, reasoning: 0 })
  })

  test('reasoning is added if the total shows that it is separate', () => {
    const given = {
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 35,
      completion_tokens_details: { reasoning_tokens: 20 },
    }
    expect(readUsage(given)?.output).toMatchObject({ text: 5, reasoning: 20 })
  })

  test('prediction tokens are read if there are any', () => {
    const details = (accepted: number, rejected: number) => ({
      prompt_tokens: 1,
      completion_tokens: 9,
      completion_tokens_details: {
        accepted_prediction_tokens: accepted,
        rejected_prediction_tokens: rejected,
      },
    })
    expect(readUsage(details(3, 2))?.prediction).toEqual({ accepted: 3, rejected: 2 })
    expect(readUsage(details(0, 0))?.prediction).toBeNull()
  })

  test.each([
    [null],
    ['usage'],
    [[]],
    [{}],
    [{ prompt_tokens: 10 }],
    [{ prompt_tokens: -1, completion_tokens: 5 }],
    [{ prompt_tokens: 1.5, completion_tokens: 5 }],
    [{ prompt_tokens: 10, completion_tokens: 1e12 }],
    [{ prompt_tokens: '10', completion_tokens: '5' }],
    [{ prompt_tokens: Number.NaN, completion_tokens: Number.POSITIVE_INFINITY }],
  ])('%j is no usage, or an impossible one', given => {
    expect(readUsage(given) ?? { isImpossible: true }).toMatchObject({ isImpossible: true })
  })

  test.each([
    { cached_tokens: -5 },
    { audio_tokens: 'x' },
    { image_tokens: 1.5 },
    { cached_tokens: Number.POSITIVE_INFINITY },
  ])('%j makes a usage impossible', prompt_tokens_details => {
    const given = { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details }
    expect(readUsage(given)?.isImpossible).toBe(true)
  })

  test('details that contradict their total make no class negative and keep the sum', () => {
    const hostile = [
      { cached_tokens: 1_000, audio_tokens: 1_000, reasoning_tokens: 1_000, image_tokens: 1_000 },
      {
        cached_tokens: 7,
        cache_write_tokens: 7,
        audio_tokens: 7,
        video_tokens: 7,
        reasoning_tokens: 4,
        image_tokens: 4,
      },
    ]
    for (const details of hostile) {
      const usage = readUsage({
        prompt_tokens: 10,
        completion_tokens: 5,
        prompt_tokens_details: details,
        completion_tokens_details: details,
      })
      if (!usage) throw new Error('expected a count')
      expect([countInputTokens(usage), countOutputTokens(usage)]).toEqual([10, 5])
      expect(
        Math.min(...Object.values(usage.input), ...Object.values(usage.output)),
      ).toBeGreaterThanOrEqual(0)
    }
  })
})
