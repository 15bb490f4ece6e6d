import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { checkPattern } from '../../src/limits/filters.ts'
import { Machine } from '../../src/limits/patterns/machine.ts'
import { getPatternProgram, LARGEST_PROGRAM, LONGEST_PATTERN } from '../../src/limits/patterns.ts'

const matches = (pattern: string, text: string): string[] => {
  const found: string[] = []
  const machine = new Machine(getPatternProgram(pattern), (start, end) =>
    found.push(text.slice(start, end)),
  )
  machine.feed(text)
  machine.end()
  return found
}

describe('a pattern is refused', () => {
  test.each([
    ['(?=a)b', 'look-ahead and look-behind are not supported'],
    ['(?!a)b', 'look-ahead and look-behind are not supported'],
    ['(?<=a)b', 'look-ahead and look-behind are not supported'],
    ['(?<!a)b', 'look-ahead and look-behind are not supported'],
    ['(a)\\1', 'back-references are not supported'],
    ['(?<x>a)\\k<x>', 'back-references are not supported'],
    ['[', 'the pattern is not a valid regular expression (missing closing ])'],
    ['(', 'the pattern is not a valid regular expression (missing closing ))'],
    [
      '*a',
      'the pattern is not a valid regular expression (missing argument to repetition operator)',
    ],
    ['a\\', 'the pattern is not a valid regular expression'],
    ['a{1001}', 'a counted repetition goes from a smaller to a larger number'],
    ['(?:a{30}){40}', 'a counted repetition goes from a smaller to a larger number'],
    [`${'[a-z]{0,900}'}b{0,900}`, `and ${LARGEST_PROGRAM} are allowed`],
    [
      'a'.repeat(LONGEST_PATTERN + 1),
      `expected a pattern of at most ${LONGEST_PATTERN} characters`,
    ],
  ])('%p', async (pattern, message) => {
    const error = await checkPattern(pattern, 'content_filters.0.pattern').catch(
      (thrown: unknown) => thrown,
    )
    if (!(error instanceof GatewayError)) throw new Error('It was taken')
    expect(error.message).toStartWith('content_filters.0.pattern: ')
    expect(error.message).toContain(message)
    expect({ status: error.status, type: error.type, metadata: error.metadata }).toEqual({
      status: 400,
      type: 'invalid_request',
      metadata: { field: 'content_filters.0.pattern', code: 'invalid_regex_pattern' },
    })
  })
})

describe('a pattern has its JavaScript meaning', () => {
  test.each([
    ['(a+)+b', 'aaab', ['aaab']],
    ['(?<name>a)b', 'ab', ['ab']],
    ['\\u00e9+', 'éé', ['éé']],
    ['\\/x', '/x', ['/x']],
    ['[(?=]+', '(?=', ['(?=']],
    ['\\(\\?=', '(?=', ['(?=']],
    ['a\\sb', 'a\u00a0b a\u2003b', ['a\u00a0b', 'a\u2003b']],
    ['a[\\s]b', 'a\u00a0b', ['a\u00a0b']],
    ['a\\Sb', 'a\u00a0b', []],
    ['[^]', '\n', ['\n']],
    ['".*?"', '"a" and "b"', ['"a"', '"b"']],
    ['^a$', 'a\n', []],
    ['secret', 'Secret', []],
    ['(?i)secret', 'Secret', ['Secret']],
  ])('%p', (pattern, text, expected) => {
    expect(matches(pattern, text)).toEqual(expected)
  })

  test('and is compiled once', () => {
    expect(getPatternProgram('once[0-9]')).toBe(getPatternProgram('once[0-9]'))
  })
})
