import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { findNearest, measureDistance } from '../../../src/core/kernel/nearest.ts'

test('the nearest come first, at most three, and none that is far', () => {
  const names = ['sonnet', 'sonet', 'bonnet', 'sonnets', 'opus']
  expect(findNearest('sonnet', names)).toEqual(['sonnet', 'sonet', 'bonnet'])
  expect(findNearest('SONNET', ['sonnet'])).toEqual(['sonnet'])
  expect(findNearest('haiku', names)).toEqual([])
})

test('a long name is compared with nothing', () => {
  const name = 'a'.repeat(101)
  expect(findNearest(name, [name])).toEqual([])
})

test('a distance is a metric: zero for equals, the same both ways, no detour is shorter', () => {
  const word = fc.string({ maxLength: 12 })
  fc.assert(
    fc.property(word, word, word, (a, b, c) => {
      const far = (x: string, y: string) => measureDistance(x, y, 100)
      expect(far(a, b) === 0).toBe(a === b)
      expect(far(a, b)).toBe(far(b, a))
      expect(far(a, c)).toBeLessThanOrEqual(far(a, b) + far(b, c))
    }),
  )
})
