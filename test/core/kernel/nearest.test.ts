import { expect, test } from 'bun:test'
import { findNearest } from '../../../src/core/kernel/nearest.ts'

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
