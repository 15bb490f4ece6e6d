import { describe, expect, test } from 'bun:test'
import {
  multiplyPrice,
  pickLarger,
  renderUsdPerToken,
  roundToNanos,
  toAttosPerToken,
  toNanos,
  toUsd,
} from '../../src/base/money.ts'
import { createSeededRandom, SEED } from '../support/random.ts'

describe('money', () => {
  test('a decimal number of dollars is an exact number of nano-dollars', () => {
    expect(toNanos(0)).toBe(0n)
    expect(toNanos(5)).toBe(5_000_000_000n)
    expect(toNanos(0.07)).toBe(70_000_000n)
    expect(toNanos(0.1 + 0.2)).toBe(300_000_000n)
    expect(toNanos(1.005)).toBe(1_005_000_000n)
    expect(toNanos(1e-9)).toBe(1n)
    expect(toNanos(1_000_000_000)).toBe(10n ** 18n)
    expect(toNanos(1e21)).toBe(10n ** 30n)
  })

  test('multiplies a count by a price, and picks the larger of two amounts', () => {
    expect([0, 1, 2, 1_000_000].map(count => multiplyPrice(count, 600_000_000_000n))).toEqual([
      0n,
      600_000_000_000n,
      1_200_000_000_000n,
      600_000_000_000_000_000n,
    ])
    expect([
      pickLarger(3n, 2n),
      pickLarger(2n, 3n),
      pickLarger(3n, 3n),
      pickLarger(0n, undefined),
    ]).toEqual([3n, 3n, 3n, 0n])
  })

  test('fractions of a nano-dollar are rounded half up', () => {
    expect(toNanos(4.9e-10)).toBe(0n)
    expect(toNanos(5e-10)).toBe(1n)
    expect(toNanos(1.5e-9)).toBe(2n)
    expect(toNanos(1e-20)).toBe(0n)
    expect(roundToNanos(499_999_999n)).toBe(0n)
    expect(roundToNanos(500_000_000n)).toBe(1n)
    expect(roundToNanos(1_500_000_000n)).toBe(2n)
  })

  test('a million charges of $0.0000007 add up to exactly $0.70', () => {
    let sum = 0n
    for (let i = 0; i < 1_000_000; i++) sum += toNanos(0.0000007)
    expect(sum).toBe(700_000_000n)
    expect(toUsd(sum)).toBe(0.7)
    expect(JSON.stringify(toUsd(sum))).toBe('0.7')
  })

  test('prices per million tokens are exact for one token', () => {
    expect(toAttosPerToken(0.07)).toBe(70_000_000_000n)
    expect(toAttosPerToken(0.1875)).toBe(187_500_000_000n)
    expect(toAttosPerToken(15)).toBe(15_000_000_000_000n)
    expect(toAttosPerToken(0.000001)).toBe(1_000_000n)
    expect(toAttosPerToken(10_000)).toBe(10n ** 16n)
  })

  test('a price is shown as a plain decimal of USD per token', () => {
    expect(renderUsdPerToken(toAttosPerToken(0.15))).toBe('0.00000015')
    expect(renderUsdPerToken(toAttosPerToken(0))).toBe('0')
    expect(renderUsdPerToken(toAttosPerToken(10_000))).toBe('0.01')
    expect(renderUsdPerToken(10n ** 18n)).toBe('1')
    expect(renderUsdPerToken(1n)).toBe('0.000000000000000001')
  })

  test('dollars survive the conversion to nano-dollars and back, up to a billion', () => {
    const next = createSeededRandom(SEED)
    const wrong: [number, number][] = []
    for (let i = 0; i < 20_000; i++) {
      const nanos = BigInt(Math.floor(next() * 10 ** (1 + (i % 15))))
      const shown = toUsd(nanos)
      if (toNanos(shown) !== nanos) wrong.push([Number(nanos), shown])
    }
    expect(wrong).toEqual([])
  })

  test('a sum is shown as its decimal, without artefacts of binary fractions', () => {
    const next = createSeededRandom(SEED)
    const wrong: [string, string][] = []
    for (let i = 0; i < 20_000; i++) {
      const nanos = BigInt(Math.floor(next() * 10 ** (1 + (i % 15))))
      const fraction = (nanos % 1_000_000_000n).toString().padStart(9, '0')
      const text = `${nanos / 1_000_000_000n}.${fraction}`
      const shown = toUsd(nanos)
      if (shown !== Number(text)) wrong.push([text, String(shown)])
    }
    expect(wrong.slice(0, 3)).toEqual([])
  })
})
