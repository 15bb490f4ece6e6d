import { describe, expect, test } from 'bun:test'
import {
  createTextUsage,
  getSearchCount,
  hasNoWork,
  hasOutput,
  readUnits,
  sumUnits,
  UNIT_ROWS,
  UNITS,
} from '../../src/language/usage.ts'

describe('the table of units', () => {
  test('has a different price name for each unit', () => {
    expect(new Set(UNIT_ROWS.map(({ price }) => price)).size).toBe(UNIT_ROWS.length)
  })

  test('has a different public name for each listed price', () => {
    const listed = UNIT_ROWS.flatMap(({ publicPriceName }) => publicPriceName ?? [])
    expect(new Set(listed).size).toBe(listed.length)
  })
})

describe('amounts of units', () => {
  test('are whole if they are counted, and thousandths if they are measured', () => {
    expect(readUnits({ search: 2, image: 4, second: 1.5, megapixel: 1.048576 })).toEqual({
      units: { search: 2, image: 4, second: 1_500, megapixel: 1_049 },
    })
  })

  test('are distinguished from units that were not counted', () => {
    expect(readUnits({ search: 0 })).toEqual({ units: { search: 0 } })
    expect(readUnits({ search: undefined, image: null })).toEqual({})
  })

  const HOSTILE = [
    -1,
    -0.0001,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    1e308,
    2 ** 63,
    '10',
    true,
    [5],
    {},
  ]

  test('are left out if no answer can have them', () => {
    for (const unit of Object.keys(UNITS))
      for (const amount of HOSTILE) expect(readUnits({ [unit]: amount })).toEqual({})
  })

  test('are never fractions of whole units, and have the same limit as token counts', () => {
    expect(readUnits({ image: 0.5, search: 1e9 + 1, character: 1e9 })).toEqual({
      units: { character: 1e9 },
    })
    expect(readUnits({ second: 1e6 + 1, megapixel: 1e6 })).toEqual({ units: { megapixel: 1e9 } })
  })
})

test('units of several steps are added up, and absent if no step has any', () => {
  expect(sumUnits({ search: 2, image: 1 }, { search: 3 })).toEqual({
    units: { search: 5, image: 1 },
  })
  expect([sumUnits(undefined, { second: 5 }), sumUnits()]).toEqual([{ units: { second: 5 } }, {}])
})

describe('a usage', () => {
  const nothing = createTextUsage(0, 0)

  test('has the number of web searches, or null if it was not reported', () => {
    expect(
      [{}, { search: 0 }, { search: 3 }].map(units => getSearchCount({ ...nothing, units })),
    ).toEqual([null, 0, 3])
    expect(getSearchCount(nothing)).toBeNull()
  })

  test('has no work without tokens and units; searches alone are not work', () => {
    const counted = [{}, { search: 3 }, { image: 0 }, { image: 1 }, { input_second: 1 }]
    expect(counted.map(units => hasNoWork({ ...nothing, units }))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
    expect([createTextUsage(1, 0), createTextUsage(0, 1)].map(hasNoWork)).toEqual([false, false])
  })

  test('has output in tokens or in output units', () => {
    const counted = [{ input_second: 1 }, { search: 1 }, { second: 1 }, { image: 1 }]
    expect(counted.map(units => hasOutput({ ...nothing, units }))).toEqual([
      false,
      false,
      true,
      true,
    ])
    expect([createTextUsage(1, 0), createTextUsage(0, 1)].map(hasOutput)).toEqual([false, true])
  })
})
