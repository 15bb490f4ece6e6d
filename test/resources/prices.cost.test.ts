import { describe, expect, test } from 'bun:test'
import { createTextUsage, type Usage } from '../../src/language/usage.ts'
import { computeCost, toExactPrices } from '../../src/resources/prices.ts'

const everyClass: Usage = {
  input: {
    text: 1,
    cache_read: 10,
    cache_write: 100,
    cache_write_1h: 0,
    audio: 1_000,
    video: 10_000,
  },
  output: { text: 2, reasoning: 20, audio: 200, image: 2_000 },
  prediction: { accepted: 5, rejected: 5 },
}

describe('cost', () => {
  test('charges every class of tokens at its own price', () => {
    const prices = toExactPrices({
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
    expect(computeCost(everyClass, prices)).toEqual({
      cost: BigInt((prompt + completion) * 1_000),
      cost_details: { prompt: BigInt(prompt * 1_000), completion: BigInt(completion * 1_000) },
    })
  })

  test('charges a class without a price of its own like its parent', () => {
    const { cost_details } = computeCost(everyClass, toExactPrices({ prompt: 1, completion: 2 }))
    expect(cost_details).toEqual({ prompt: 11_111_000n, completion: 4_444_000n })
  })

  test('an endpoint without prices has an unknown cost, not a cost of zero', () => {
    expect(computeCost(createTextUsage(10, 5), null)).toEqual({ cost: null, cost_details: null })
  })

  test('a free endpoint costs nothing', () => {
    expect(computeCost(everyClass, toExactPrices({ prompt: 0, completion: 0 }))).toEqual({
      cost: 0n,
      cost_details: { prompt: 0n, completion: 0n },
    })
  })

  test('counts prices per request and per search in the prompt’s cost', () => {
    const prices = toExactPrices({ prompt: 1, completion: 1, request: 0.001, web_search: 0.01 })
    expect(computeCost(createTextUsage(1, 1), prices)).toEqual({
      cost: 1_002_000n,
      cost_details: { prompt: 1_001_000n, completion: 1_000n },
    })
    const searching = { ...createTextUsage(1, 1), units: { search: 3 } }
    expect(computeCost(searching, prices).cost).toBe(31_002_000n)
    expect(computeCost(searching, toExactPrices({ prompt: 1, completion: 1 })).cost).toBe(2_000n)
  })

  test('a one-hour cache write falls back to the shorter one’s price, then the prompt’s', () => {
    const hour = {
      ...createTextUsage(0, 0),
      input: { ...createTextUsage(0, 0).input, cache_write_1h: 1_000 },
    }
    expect(
      computeCost(
        hour,
        toExactPrices({ prompt: 3, completion: 15, cache_write: 3.75, cache_write_1h: 6 }),
      ).cost,
    ).toBe(6_000_000n)
    expect(
      computeCost(hour, toExactPrices({ prompt: 3, completion: 15, cache_write: 3.75 })).cost,
    ).toBe(3_750_000n)
    expect(computeCost(hour, toExactPrices({ prompt: 3, completion: 15 })).cost).toBe(3_000_000n)
  })

  describe('with price tiers', () => {
    const prices = toExactPrices({
      prompt: 1,
      completion: 10,
      cache_read: 0.1,
      tiers: [
        { above: 400, prompt: 4 },
        { above: 200, prompt: 2, completion: 15 },
      ],
    })
    const input = (text: number, cache_read: number) => ({
      ...createTextUsage(0, 1),
      input: { ...createTextUsage(0, 0).input, text, cache_read },
    })

    test('the whole input, cached or not, selects the tier for every class', () => {
      expect(computeCost(input(200, 0), prices).cost).toBe(BigInt(200 * 1_000 + 10_000))
      expect(computeCost(input(1, 199), prices).cost).toBe(BigInt(1_000 + 199 * 100 + 10_000))
      expect(computeCost(input(1, 200), prices).cost).toBe(BigInt(2_000 + 200 * 100 + 15_000))
    })

    test('the highest reached tier applies, and inherits missing prices from the one below', () => {
      expect(computeCost(input(401, 0), prices).cost).toBe(BigInt(401 * 4_000 + 15_000))
    })
  })

  test('rounds a charge once, and its parts add up to it', () => {
    const prices = toExactPrices({ prompt: 0.0004, completion: 0.0003 })
    expect(computeCost(createTextUsage(1, 0), prices).cost).toBe(0n)
    expect(computeCost(createTextUsage(1, 1), prices)).toEqual({
      cost: 1n,
      cost_details: { prompt: 0n, completion: 1n },
    })
    expect(computeCost(createTextUsage(1_000_000, 0), prices).cost).toBe(400_000n)
  })

  test('the mean of many small charges is their true price', () => {
    const prices = toExactPrices({ prompt: 0.15, completion: 0.6, cache_read: 0.075 })
    expect(computeCost(createTextUsage(10, 5), prices).cost).toBe(4_500n)
    expect(computeCost(createTextUsage(1_000_000_000, 0), prices).cost).toBe(150_000_000_000n)
  })
})

test('tokens that a provider counts but does not charge cost nothing', () => {
  const prices = toExactPrices({ prompt: 1, completion: 2 })
  const usage = { ...createTextUsage(1_683, 63), billed: createTextUsage(39, 20) }
  expect(computeCost(usage, prices).cost).toBe(39_000n + 40_000n)
})
