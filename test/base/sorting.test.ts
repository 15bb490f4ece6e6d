import { describe, expect, test } from 'bun:test'
import { pickFirst } from '../../src/base/sorting.ts'
import { createSeededIntegers } from '../support/random.ts'

const byValue = (a: number, b: number) => a - b

describe('the first items of a list', () => {
  const integers = createSeededIntegers(7)
  const lists = {
    ascending: Array.from({ length: 3_000 }, (_, n) => n),
    descending: Array.from({ length: 3_000 }, (_, n) => 3_000 - n),
    'in any order, many of them equal': Array.from({ length: 3_000 }, () => integers(50)),
    'of one item': [1],
    empty: [],
  }

  test.each(Object.entries(lists))('are those of the sorted list: %s', (_, list) => {
    for (const count of [0, 1, 2, 50, 999, 1_500, 5_000])
      expect(pickFirst(list, count, byValue)).toEqual(list.toSorted(byValue).slice(0, count))
  })

  test('leave the list as it was', () => {
    const list = [3, 1, 2]
    pickFirst(list, 2, byValue)
    expect(list).toEqual([3, 1, 2])
  })

  test('are looked for without sorting the rest', () => {
    let compared = 0
    const count = (a: number, b: number) => {
      compared += 1
      return a - b
    }
    pickFirst(lists.ascending, 50, count)
    expect(compared).toBeLessThan(lists.ascending.length * 1.5)
  })
})
