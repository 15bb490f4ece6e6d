import { describe, expect, test } from 'bun:test'
import { readUnits, sumUnits, UNIT_ROWS, UNITS } from '../../../src/core/language/units.ts'
import {
  countsNothing,
  countsOutput,
  searchesIn,
  textUsage,
} from '../../../src/core/language/usage.ts'

describe('the table of units', () => {
  test('gives each unit a price of its own', () => {
    expect(new Set(UNIT_ROWS.map(({ price }) => price)).size).toBe(UNIT_ROWS.length)
  })

  test('gives each listed price a name of its own', () => {
    const listed = UNIT_ROWS.flatMap(({ listedAs }) => listedAs ?? [])
    expect(new Set(listed).size).toBe(listed.length)
  })
})

describe('amounts of units', () => {
  test('are whole where they are counted, and thousandths where they are measured', () => {
    expect(readUnits({ search: 2, image: 4, second: 1.5, megapixel: 1.048576 })).toEqual({
      units: { search: 2, image: 4, second: 1_500, megapixel: 1_049 },
    })
  })

  test('are told from what was not counted', () => {
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

  test('that no answer can have are left out', () => {
    for (const unit of Object.keys(UNITS))
      for (const amount of HOSTILE) expect(readUnits({ [unit]: amount })).toEqual({})
  })

  test('are no fractions of what has none, and as few as token counts may be', () => {
    expect(readUnits({ image: 0.5, search: 1e9 + 1, character: 1e9 })).toEqual({
      units: { character: 1e9 },
    })
    expect(readUnits({ second: 1e6 + 1, megapixel: 1e6 })).toEqual({ units: { megapixel: 1e9 } })
  })
})

test('units of several steps are added up, and absent where none has any', () => {
  expect(sumUnits({ search: 2, image: 1 }, { search: 3 })).toEqual({
    units: { search: 5, image: 1 },
  })
  expect([sumUnits(undefined, { second: 5 }), sumUnits()]).toEqual([{ units: { second: 5 } }, {}])
})

describe('a usage', () => {
  const nothing = textUsage(0, 0)

  test('tells how often the web was searched, and where nobody said', () => {
    expect(
      [{}, { search: 0 }, { search: 3 }].map(units => searchesIn({ ...nothing, units })),
    ).toEqual([null, 0, 3])
    expect(searchesIn(nothing)).toBeNull()
  })

  test('counts nothing without tokens and units; searches come beside and are no work', () => {
    const counted = [{}, { search: 3 }, { image: 0 }, { image: 1 }, { input_second: 1 }]
    expect(counted.map(units => countsNothing({ ...nothing, units }))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
    expect([textUsage(1, 0), textUsage(0, 1)].map(countsNothing)).toEqual([false, false])
  })

  test('counts output in tokens or in units of output', () => {
    const counted = [{ input_second: 1 }, { search: 1 }, { second: 1 }, { image: 1 }]
    expect(counted.map(units => countsOutput({ ...nothing, units }))).toEqual([
      false,
      false,
      true,
      true,
    ])
    expect([textUsage(1, 0), textUsage(0, 1)].map(countsOutput)).toEqual([false, true])
  })
})
