import { describe, expect, test } from 'bun:test'
import {
  isPlausible,
  joinPrices,
  readGenaiPrices,
  readPiPrices,
} from '../../../scripts/catalog/prices.ts'
import type { PiModel, PricedModel } from '../../../scripts/catalog/sources.ts'

const pi = (cost: PiModel['cost']): PiModel => ({
  type: 'chat',
  id: 'x',
  name: 'X',
  input: ['text'],
  cost,
})
const priced = (prices: PricedModel['prices']): PricedModel => ({ id: 'x', prices })

describe('pi-ai’s prices', () => {
  test('keep what is known: zero there is no price', () => {
    expect(readPiPrices(pi({ input: 0, output: 0 }))).toBeUndefined()
    expect(readPiPrices(pi({ input: 1, output: 2, cacheRead: 0.1, cacheWrite: 0 }))).toEqual({
      prompt: 1,
      completion: 2,
      cache_read: 0.1,
    })
  })

  test('keep their tiers', () => {
    const tiers = [{ inputTokensAbove: 200_000, input: 2, output: 4, cacheRead: 0, cacheWrite: 0 }]
    expect(readPiPrices(pi({ input: 1, output: 2, tiers }))?.tiers).toEqual([
      { above: 200_000, prompt: 2, completion: 4 },
    ])
  })
})

describe('genai-prices’ prices', () => {
  test('per thousand units become prices of one', () => {
    expect(
      readGenaiPrices(
        priced({ input_mtok: 3, output_mtok: 15, web_searches_kcount: 10, requests_kcount: 5 }),
        '2026-01-01',
      ),
    ).toEqual({
      prompt: 3,
      completion: 15,
      web_search: 0.01,
      request: 0.005,
    })
  })

  test('without a unit here are left out', () => {
    expect(readGenaiPrices(priced({ audio_hours: 0.1 }), '2026-01-01')).toBeUndefined()
  })

  test('with tiers have one for each bound', () => {
    const prices = {
      input_mtok: { base: 1, tiers: [{ start: 10, price: 2 }] },
      output_mtok: { base: 3, tiers: [{ start: 10, price: 4 }] },
    }
    expect(readGenaiPrices(priced(prices), '2026-01-01')).toEqual({
      prompt: 1,
      completion: 3,
      tiers: [{ above: 10, prompt: 2, completion: 4 }],
    })
  })

  test('by date are those of the day, by hour the highest', () => {
    const dated = [
      { prices: { input_mtok: 1, output_mtok: 1 } },
      {
        constraint: { type: 'start_date' as const, start_date: '2026-02-01' },
        prices: { input_mtok: 2, output_mtok: 2 },
      },
    ]
    expect(readGenaiPrices(priced(dated), '2026-01-31')?.prompt).toBe(1)
    expect(readGenaiPrices(priced(dated), '2026-02-01')?.prompt).toBe(2)
    const hourly = [
      { prices: { input_mtok: 1, output_mtok: 1 } },
      { constraint: { type: 'time_of_date' as const }, prices: { input_mtok: 3, output_mtok: 3 } },
    ]
    expect(readGenaiPrices(priced(hourly), '2026-01-01')?.prompt).toBe(3)
  })
})

describe('both', () => {
  test('that agree are joined, with the details of genai-prices', () => {
    const finer = { prompt: 1, completion: 2, cache_write_1h: 2 }
    expect(joinPrices({ prompt: 1, completion: 2, cache_read: 0.1 }, finer)).toEqual({
      prices: { prompt: 1, completion: 2, cache_read: 0.1, cache_write_1h: 2 },
      conflict: false,
    })
  })

  test('that differ are pi-ai’s alone', () => {
    expect(
      joinPrices({ prompt: 1, completion: 2 }, { prompt: 3, completion: 2, web_search: 0.01 }),
    ).toEqual({
      prices: { prompt: 1, completion: 2 },
      conflict: true,
    })
  })
})

test('a price that no model has is implausible', () => {
  expect(isPlausible({ prompt: 150, completion: 600 })).toBe(true)
  for (const prompt of [-1, 1_001, Number.NaN, Number.POSITIVE_INFINITY])
    expect(isPlausible({ prompt, completion: 1 })).toBe(false)
  expect(isPlausible({ prompt: 1, completion: 1, tiers: [{ above: 5_000_000, prompt: 2 }] })).toBe(
    true,
  )
  expect(isPlausible({ prompt: 1, completion: 1, tiers: [{ above: 5, prompt: -2 }] })).toBe(false)
})
