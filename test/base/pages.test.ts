import { describe, expect, test } from 'bun:test'
import { PageQuery, pageQuery, toPage } from '../../src/base/pages.ts'
import { matchesSchema } from '../../src/base/schema.ts'
import { compareNewestFirst, compareOldestFirst, compareTexts } from '../../src/base/sorting.ts'

const numbers = Array.from({ length: 120 }, (_, i) => i)

describe('a page', () => {
  test.each<[object, number[]]>([
    [{}, numbers.slice(0, 50)],
    [{ offset: 100 }, numbers.slice(100)],
    [{ offset: 1, limit: 2 }, [1, 2]],
    [{ offset: 500 }, []],
  ])('of %j', (query, data) => {
    expect(toPage(numbers, query, number => number)).toEqual({ data, total_count: 120 })
  })

  test('shows its own items only', () => {
    const shown: number[] = []
    toPage(numbers, { offset: 3, limit: 2 }, number => shown.push(number))
    expect(shown).toEqual([3, 4])
  })

  test.each<[object, boolean]>([
    [{}, true],
    [{ offset: 0, limit: 100 }, true],
    [{ limit: 101 }, false],
    [{ limit: 0 }, false],
    [{ offset: -1 }, false],
  ])('accepts the query %j: %p', (query, isFine) => {
    expect(matchesSchema(PageQuery, query)).toBe(isFine)
  })

  test('may be larger if its list allows it', () => {
    expect([
      matchesSchema(pageQuery(1000), { limit: 1000 }),
      matchesSchema(pageQuery(1000), { limit: 1001 }),
    ]).toEqual([true, false])
  })
})

describe('the order of a list', () => {
  const at = (created_at: string, id: string) => ({ created_at, id })
  const all = [at('2', 'b'), at('1', 'c'), at('2', 'a')]

  test('is by creation, and by id for equal times', () => {
    expect(all.toSorted(compareOldestFirst)).toEqual([at('1', 'c'), at('2', 'a'), at('2', 'b')])
    expect(all.toSorted(compareNewestFirst('created_at', 'id'))).toEqual([
      at('2', 'a'),
      at('2', 'b'),
      at('1', 'c'),
    ])
  })

  test('is by code unit, independent of the locale', () => {
    expect(['ä', 'z', 'Z', 'a'].toSorted(compareTexts)).toEqual(['Z', 'a', 'z', 'ä'])
    expect(compareTexts('a', 'a')).toBe(0)
  })
})
