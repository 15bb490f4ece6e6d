import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { countEdits, findNearest, listNearest } from '../../src/base/nearest.ts'

test.each([
  ['assitant', 'assistant'],
  ['assistent', 'assistant'],
  ['User', 'user'],
  ['usre', 'user'],
  ['systems', 'system'],
  ['tol', 'tool'],
])('%j means %j', (word, meant) => {
  expect(findNearest(word, ['system', 'user', 'assistant', 'tool'])).toBe(meant)
})

test.each(['', 'x', 'human', 'gpt', 'a'.repeat(1_000_000)])('%.10j means none', word => {
  expect(findNearest(word, ['system', 'user', 'assistant', 'tool'])).toBeUndefined()
})

test('of two that are as near, the first is meant', () => {
  expect(findNearest('cat', ['bat', 'car'])).toBe('bat')
  expect(findNearest('cat', ['scat', 'cat'])).toBe('cat')
})

test('the nearest come first, at most three, and none that is far', () => {
  const names = ['sonnet', 'sonet', 'bonnet', 'sonnets', 'opus']
  expect(listNearest('sonnet', names)).toEqual(['sonnet', 'sonet', 'bonnet'])
  expect(listNearest('SONNET', ['sonnet'])).toEqual(['sonnet'])
  expect(listNearest('haiku', names)).toEqual([])
})

test('a long name is compared with none', () => {
  const name = 'a'.repeat(101)
  expect(listNearest(name, [name])).toEqual([])
})

test('edits are as many both ways, none between equals, and exact up to the most asked for', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 8 })
  fc.assert(
    fc.property(word, word, fc.nat(8), (a, b, most) => {
      const edits = countEdits(a, b, 100)
      expect(edits === 0).toBe(a === b)
      expect(countEdits(b, a, 100)).toBe(edits)
      expect(Math.min(countEdits(a, b, most), most + 1)).toBe(Math.min(edits, most + 1))
    }),
  )
})
