import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { roundToNanos } from '../../src/base/money.ts'
import {
  createTextUsage,
  UNIT_ROWS,
  UNITS,
  type Unit,
  type Units,
} from '../../src/language/usage.ts'
import { computeCost, priceUnits, toExactPrices } from '../../src/resources/prices.ts'

const NAMES = Object.keys(UNITS) as Unit[]

/** Any selection of units, each up to its maximum count. */
const units = fc.dictionary(
  fc.constantFrom(...NAMES),
  fc.integer({ min: 0, max: 1e9 }),
) as fc.Arbitrary<Units>

/** A price for every unit, up to its maximum, in steps of a millionth of that. */
const steps = fc.array(fc.integer({ min: 0, max: 1_000_000 }), {
  minLength: NAMES.length,
  maxLength: NAMES.length,
})

const listOf = (given: number[]) =>
  Object.fromEntries(
    UNIT_ROWS.map(({ price, maxPrice }, i) => [price, ((given[i] ?? 0) * maxPrice) / 1e6]),
  )

const pricesFrom = (given: number[]) =>
  toExactPrices({ prompt: 0, completion: 0, ...listOf(given) })

/** The sum of both, unit by unit. */
const added = (one: Units, other: Units): Units =>
  Object.fromEntries(NAMES.map(unit => [unit, (one[unit] ?? 0) + (other[unit] ?? 0)]))

describe('the cost of units', () => {
  test('is the sum of count times price over the table', () => {
    fc.assert(
      fc.property(units, steps, (counted, given) => {
        const list = listOf(given)
        const dollars = NAMES.reduce((sum, unit) => {
          const { price, partsPerUnit } = UNITS[unit]
          return sum + ((counted[unit] ?? 0) / partsPerUnit) * (list[price] ?? 0)
        }, 0)
        const cost =
          Number(
            computeCost({ ...createTextUsage(0, 0), units: counted }, pricesFrom(given)).cost,
          ) / 1e9
        expect(Math.abs(cost - dollars)).toBeLessThanOrEqual(1e-9 + dollars * 1e-9)
      }),
    )
  })

  test('is linear', () => {
    fc.assert(
      fc.property(units, units, steps, (one, other, given) => {
        const prices = pricesFrom(given)
        const apart = priceUnits(one, prices) + priceUnits(other, prices)
        expect(priceUnits(added(one, other), prices)).toBe(apart)
      }),
    )
  })

  test('is rounded once, together with the tokens’ cost', () => {
    fc.assert(
      fc.property(units, steps, (counted, given) => {
        const prices = { ...pricesFrom(given), prompt: 300_000_001n, completion: 7n }
        const exact = 11n * prices.prompt + 13n * prices.completion + priceUnits(counted, prices)
        const { cost, cost_details } = computeCost(
          { ...createTextUsage(11, 13), units: counted },
          prices,
        )
        expect(cost).toBe(roundToNanos(exact))
        expect((cost_details?.prompt ?? 0n) + (cost_details?.completion ?? 0n)).toBe(
          roundToNanos(exact),
        )
      }),
    )
  })

  test('is on the side that the table names', () => {
    for (const unit of NAMES) {
      const { price, side, partsPerUnit, maxPrice } = UNITS[unit]
      const prices = toExactPrices({ prompt: 0, completion: 0, [price]: maxPrice })
      const { cost_details } = computeCost(
        { ...createTextUsage(0, 0), units: { [unit]: partsPerUnit } },
        prices,
      )
      const nanos = BigInt(maxPrice * 1e9)
      expect(cost_details).toEqual({
        prompt: side === 'input' ? nanos : 0n,
        completion: side === 'output' ? nanos : 0n,
      })
    }
  })

  test('is zero where they have no price', () => {
    fc.assert(
      fc.property(units, counted => {
        const prices = toExactPrices({ prompt: 1, completion: 1 })
        expect(computeCost({ ...createTextUsage(0, 0), units: counted }, prices).cost).toBe(0n)
      }),
    )
  })
})
