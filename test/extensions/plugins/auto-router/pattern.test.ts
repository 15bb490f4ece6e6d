import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type Characters,
  matchesPattern,
  parsePattern,
} from '../../../../src/extensions/plugins/auto-router.ts'

const like = (text: string, pattern: string) => matchesPattern(text, parsePattern(pattern))

test.each([
  ['anthropic/claude-opus-5', 'anthropic/*', true],
  ['anthropic/claude-opus-5', '*opus*', true],
  ['anthropic/claude-opus-5', '*/claude-*-5', true],
  ['anthropic/claude-opus-5', 'anthropic/claude-opus-5', true],
  ['anthropic/claude-opus-5', 'anthropic/claude-opus', false],
  ['anthropic/claude-opus-5', 'claude*', false],
  ['anthropic/claude-opus-5', '*opus', false],
  ['anthropic/claude-opus-5', '**', true],
  ['aba', 'ab*ba', false],
  ['openai/gpt.5', 'openai/gpt?5', false],
  ['openai/gpt-5', 'openai/[a-z]*', false],
  ['x', '', false],
  ['', '*', true],
])('%p and %p: %p', (text, pattern, expected) => {
  expect(like(text, pattern)).toBe(expected)
})

/** The oracle: a slow match by dynamic programming. */
function oracle(text: string, pattern: string): boolean {
  let reached = new Set([0])
  for (const sign of pattern) {
    const next = new Set<number>()
    for (const at of reached)
      if (sign === '*') for (let i = at; i <= text.length; i++) next.add(i)
      else if (text[at] === sign) next.add(at + 1)
    reached = next
  }
  return reached.has(text.length)
}

test('the match equals that of a slow oracle for any text and pattern', () => {
  const word = (signs: string) => fc.string({ unit: fc.constantFrom(...signs), maxLength: 12 })
  fc.assert(
    fc.property(word('ab'), word('ab**'), (text, pattern) => {
      expect(like(text, pattern)).toBe(oracle(text, pattern))
    }),
    { numRuns: 5_000 },
  )
})

/** A text that counts how often it is read. */
function counted(text: string): { text: Characters; looks: () => number } {
  let looks = 0
  const look = <T>(found: T): T => {
    looks += 1
    return found
  }
  return {
    text: {
      length: text.length,
      startsWith: part => look(text.startsWith(part)),
      endsWith: part => look(text.endsWith(part)),
      indexOf: (part, at) => look(text.indexOf(part, at)),
    },
    looks: () => looks,
  }
}

test('a hostile pattern is searched once per piece, and not at all if it is too long', () => {
  const pattern = parsePattern(`${'a*'.repeat(511)}b`)
  const short = counted('a'.repeat(60))
  expect([matchesPattern(short.text, pattern), short.looks()]).toEqual([false, 0])
  const long = counted(`${'a'.repeat(5_000)}cb`)
  expect([matchesPattern(long.text, pattern), long.looks()]).toEqual([true, 512])
  const almost = counted('a'.repeat(5_000))
  expect(matchesPattern(almost.text, pattern)).toBe(false)
  expect(almost.looks()).toBeLessThan(10)
})
