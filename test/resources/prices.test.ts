import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { parseConfig } from '../../src/config.ts'
import { type Drawn, UNIT_ROWS } from '../../src/language/usage.ts'
import {
  computeHighestPrices,
  pickPrices,
  sumPrices,
  toExactPrices,
} from '../../src/resources/prices.ts'

const config = (prices: object) =>
  parseConfig(
    JSON.stringify({
      models: [
        { id: 'a/b', endpoints: [{ provider: 'x', model: 'y', usd_per_million_tokens: prices }] },
      ],
    }),
    {},
  )

const yaml = (price: string) => `
models:
  - id: a/b
    endpoints:
      - { provider: x, model: y, usd_per_million_tokens: { prompt: 1, completion: 2, ${price} } }`

function refusal(prices: object): string {
  try {
    config(prices)
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown.message
  }
  throw new Error('expected a refusal')
}

describe('prices', () => {
  test('per million tokens and per unit are exact in atto-dollars', () => {
    expect(
      toExactPrices({ prompt: 0.07, completion: 0.000001, request: 0.005, web_search: 0.01 }),
    ).toEqual({
      prompt: 70_000_000_000n,
      completion: 1_000_000n,
      request: 5_000_000_000_000_000n,
      web_search: 10_000_000_000_000_000n,
    })
  })

  test('of units measured in fractions are per thousandth', () => {
    expect(
      toExactPrices({ prompt: 0, completion: 0, per_second: 0.1, per_image: 0.04 }),
    ).toMatchObject({
      per_second: 100_000_000_000_000n,
      per_image: 40_000_000_000_000_000n,
    })
  })

  test('compare endpoints by tokens and units, without units beside others', () => {
    const sum = (list: object) => sumPrices(toExactPrices({ prompt: 1, completion: 2, ...list }))
    expect(sum({ web_search: 0.01, request: 0.01, cache_read: 1 })).toBe(3_000_000_000_000n)
    expect(sum({ per_image: 0.04 }) - sum({ per_image: 0.03 })).toBe(10_000_000_000_000_000n)
  })

  test('without tiers are the same for every input', () => {
    const prices = toExactPrices({ prompt: 1, completion: 2 })
    expect(pickPrices(prices, 10_000_000)).toBe(prices)
  })

  test('of a tier apply above its bound, not at it', () => {
    const prices = toExactPrices({ prompt: 1, completion: 2, tiers: [{ above: 10, prompt: 3 }] })
    expect(pickPrices(prices, 10).prompt).toBe(1_000_000_000_000n)
    expect(pickPrices(prices, 11)).toMatchObject({
      prompt: 3_000_000_000_000n,
      completion: 2_000_000_000_000n,
    })
  })

  test('of pictures are those of the last variant that is like them', () => {
    const prices = toExactPrices({
      prompt: 0,
      completion: 0,
      per_image: 0.04,
      variants: [
        { resolution: '2K', per_image: 0.06 },
        { quality: 'high', per_image: 0.1 },
        { quality: 'high', resolution: '2K', per_image: 0.2 },
      ],
    })
    const cents = (rates: { per_image?: bigint }) => Number((rates.per_image ?? 0n) / 10n ** 16n)
    const pick = (drawn: Drawn) => cents(pickPrices(prices, 0, drawn))
    expect(pick({})).toBe(4)
    expect(pick({ resolution: '1K', quality: 'low' })).toBe(4)
    expect(pick({ resolution: '2K', quality: 'low' })).toBe(6)
    expect(pick({ resolution: '4K', quality: 'high' })).toBe(10)
    expect(pick({ resolution: '2K', quality: 'high' })).toBe(20)
    // What is not known yet may be the dearest.
    const bound = (drawn?: Drawn) => cents(computeHighestPrices(prices, 0, drawn))
    expect([bound(), bound({ quality: 'low' }), bound({ resolution: '1K' })]).toEqual([20, 6, 10])
    expect(bound({ quality: 'low', resolution: '1K' })).toBe(4)
  })
})

describe('prices in the config', () => {
  const path = 'models.0.endpoints.0.usd_per_million_tokens'
  const good = { prompt: 1, completion: 2 }

  test('may have every class, and tiers', () => {
    const tiers = [{ above: 200_000, prompt: 2, cache_read: 0.2 }]
    const prices = { ...good, cache_write_1h: 2, image: 1, request: 0.01, web_search: 0.01, tiers }
    expect(config(prices).models[0]?.endpoints[0]?.usd_per_million_tokens).toEqual(prices)
  })

  test('may have every unit', () => {
    const perUnit = Object.fromEntries(UNIT_ROWS.map(row => [row.price, row.maxPrice]))
    const prices = { ...good, ...perUnit }
    expect(config(prices).models[0]?.endpoints[0]?.usd_per_million_tokens).toEqual(prices)
  })

  test.each(UNIT_ROWS)('of a unit are from 0 to the dearest: $price', ({ price, maxPrice }) => {
    const bound = `${path}.${price}: expected number from 0 to ${maxPrice}`
    const refused = [-0.01, maxPrice * 1.01]
    const messages = refused.map(given => refusal({ ...good, [price]: given }))
    expect(messages).toEqual(refused.map(given => `${bound}, found ${given}`))
    // JSON has no NaN, but YAML does.
    expect(() => config({ ...good, [price]: Number.NaN })).toThrow(`${path}.${price}`)
    expect(() => parseConfig(yaml(`${price}: .nan`), {})).toThrow(`${path}.${price}`)
    expect(() => parseConfig(yaml(`${price}: .inf`), {})).toThrow(`${path}.${price}`)
  })

  test.each([
    [{ ...good, web_search: 10 }, `${path}.web_search: expected number from 0 to 1, found 10`],
    [{ ...good, request: -0.1 }, `${path}.request: expected number from 0 to 1, found -0.1`],
    [
      { ...good, cache_write_1h: 20_000 },
      `${path}.cache_write_1h: expected number from 0 to 10000, found 20000`,
    ],
    [
      { ...good, tiers: [{ above: 0, prompt: 1 }] },
      `${path}.tiers.0.above: expected integer from 1, found 0`,
    ],
    [
      { ...good, tiers: [{ prompt: 1 }] },
      `${path}.tiers.0.above: expected integer from 1, found nothing`,
    ],
    [
      { ...good, tiers: [{ above: 5, prompt: 10_001 }] },
      `${path}.tiers.0.prompt: expected number from 0 to 10000, found 10001`,
    ],
    [
      { ...good, tiers: [{ above: 5, web_search: 1 }] },
      `${path}.tiers.0.web_search: expected no such field, found a number`,
    ],
  ])('%j is refused with its path', (prices, message) => {
    expect(refusal(prices)).toBe(message)
  })
})
