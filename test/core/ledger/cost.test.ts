import { describe, expect, test } from 'bun:test'
import { pricesOf } from '../../../src/core/catalog/prices.ts'
import { textUsage, type Usage } from '../../../src/core/inference/call.ts'
import { costOf } from '../../../src/core/ledger/cost.ts'

const everyClass: Usage = {
  input: { text: 1, cache_read: 10, cache_write: 100, cache_write_1h: 0, audio: 1_000, video: 10_000 },
  output: { text: 2, reasoning: 20, audio: 200, image: 2_000 },
  prediction: { accepted: 5, rejected: 5 },
  web_search_requests: null,
}

describe('cost', () => {
  test('every class of tokens is charged at its own price', () => {
    const prices = pricesOf({
      prompt: 1,
      completion: 2,
      cache_read: 0.1,
      cache_write: 1.25,
      reasoning: 3,
      audio: 4,
      audio_output: 5,
      image_output: 6,
    })
    const prompt = 10_001 * 1 + 10 * 0.1 + 100 * 1.25 + 1_000 * 4
    const completion = 2 * 2 + 20 * 3 + 200 * 5 + 2_000 * 6
    expect(costOf(everyClass, prices)).toEqual({
      cost: BigInt((prompt + completion) * 1_000),
      cost_details: { prompt: BigInt(prompt * 1_000), completion: BigInt(completion * 1_000) },
    })
  })

  test('a class without a price of its own costs what its parent costs', () => {
    const { cost_details } = costOf(everyClass, pricesOf({ prompt: 1, completion: 2 }))
    expect(cost_details).toEqual({ prompt: 11_111_000n, completion: 4_444_000n })
  })

  test('an endpoint without prices has an unknown cost, which is not zero', () => {
    expect(costOf(textUsage(10, 5), null)).toEqual({ cost: null, cost_details: null })
  })

  test('a free endpoint costs nothing', () => {
    expect(costOf(everyClass, pricesOf({ prompt: 0, completion: 0 }))).toEqual({ cost: 0n, cost_details: { prompt: 0n, completion: 0n } })
  })

  test('a price per request is part of the prompt’s cost', () => {
    const prices = { ...pricesOf({ prompt: 1, completion: 1 }), request: 10n ** 15n }
    expect(costOf(textUsage(1, 1), prices)).toEqual({ cost: 1_002_000n, cost_details: { prompt: 1_001_000n, completion: 1_000n } })
  })

  test('a charge is rounded once, and its parts add up to it', () => {
    const prices = pricesOf({ prompt: 0.0004, completion: 0.0003 })
    expect(costOf(textUsage(1, 0), prices).cost).toBe(0n)
    expect(costOf(textUsage(1, 1), prices)).toEqual({ cost: 1n, cost_details: { prompt: 0n, completion: 1n } })
    expect(costOf(textUsage(1_000_000, 0), prices).cost).toBe(400_000n)
  })

  test('the mean of many small charges is their true price', () => {
    const prices = pricesOf({ prompt: 0.15, completion: 0.6, cache_read: 0.075 })
    expect(costOf(textUsage(10, 5), prices).cost).toBe(4_500n)
    expect(costOf(textUsage(1_000_000_000, 0), prices).cost).toBe(150_000_000_000n)
  })
})
