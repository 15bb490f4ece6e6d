import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { RE2JS } from 're2js'
import { Machine } from '../../../src/limits/patterns/machine.ts'
import { compileProgram } from '../../../src/limits/patterns/program.ts'
import { createSeededIntegers, LONG } from '../../support/random.ts'

const found = (pattern: string, pieces: string[]) => {
  const spans: [number, number][] = []
  const machine = new Machine(compileProgram(pattern), (start, end) => spans.push([start, end]))
  for (const piece of pieces) machine.feed(piece)
  machine.end()
  return { spans, steps: machine.steps }
}

const asRe2 = (pattern: string, text: string): [number, number][] =>
  [...RE2JS.compile(pattern).matchAll(text)].map(({ 0: match, index = 0 }) => [
    index,
    index + match.length,
  ])

const ATOMS = [
  'a',
  'b',
  'c',
  '[ab]',
  '[^a]',
  '.',
  '(?:ab)',
  '(a|ab)',
  '(ab|a)',
  '(a|b)',
  '(?i:B)',
  'é',
  '\\s',
  '😀',
]
const EDGES = ['\\b', '\\B', '^', '$', '(?m:^)', '(?m:$)']
const MORE = ['', '', '', '*', '+', '?', '*?', '+?', '??', '{1,3}', '{2}', '{0,2}?']

const atom = fc
  .tuple(fc.constantFrom(...ATOMS), fc.constantFrom(...MORE))
  .map(([one, more]) => one + more)
const branch = fc.array(fc.oneof({ weight: 5, arbitrary: atom }, fc.constantFrom(...EDGES)), {
  minLength: 1,
  maxLength: 5,
})
const pattern = fc
  .array(branch, { minLength: 1, maxLength: 3 })
  .map(branches => branches.map(parts => parts.join('')).join('|'))
const text = fc
  .array(fc.constantFrom('a', 'a', 'b', 'B', 'c', ' ', '\n', 'é', '😀', '\ud83d'), {
    maxLength: 16,
  })
  .map(units => units.join(''))

describe('a machine', () => {
  test('finds what RE2 finds when it restarts after each match, also unit by unit', () => {
    const numRuns = LONG ? 20_000 : 1_500
    let compared = 0
    fc.assert(
      fc.property(pattern, text, (pattern, text) => {
        const whole = found(pattern, [text]).spans
        expect(found(pattern, text.split('')).spans).toEqual(whole)
        const expected = asRe2(pattern, text)
        // RE2 reports empty matches and continues after them; the machine reports none.
        if (expected.some(([start, end]) => start === end)) return
        compared += 1
        expect(whole).toEqual(expected)
      }),
      { numRuns },
    )
    expect(compared).toBeGreaterThan(0.4 * numRuns)
  })

  test.each([
    ['(a+)+$', 0],
    ['(a+)+c|SECRET-\\d+', 1],
    ['(a|aa)+$', 0],
    ['(.*a){10}x', 0],
    // A search that restarts after each match reads the rest of the text each time.
    ['a[^z]*z|a', 1],
    ['.*x', 0],
    ['\\w+@\\w+\\.com', 0],
  ])('X-47 %p costs the same for each character of 10 kB, 100 kB and 1 MB', (pattern, least) => {
    const [small = 0, medium = 0, large = 0] = [10_000, 100_000, 1_000_000].map(size => {
      const { steps, spans } = found(pattern, [`${'a'.repeat(size)} SECRET-1234`])
      expect(spans.length).toBeGreaterThanOrEqual(least)
      return steps / size
    })
    expect(medium).toBeLessThan(small * 1.5)
    expect(large).toBeLessThan(small * 1.5)
  })

  test.each([
    ['(?:[a-z]{1,9} ){2,4}[a-z]+,', 'one two three four, '],
    ['\\b\\d{1,3}(?:\\.\\d{1,3}){3}\\b|\\w+:\\w*:[\\w:]*', '10.0.0.1 a:b:c '],
    ['\\p{Lu}\\p{L}*(?: \\p{Lu}\\p{L}*){1,4}', 'Anna Berg and Øle Ås '],
  ])('%p costs a look-up for each character of a text that repeats itself', (pattern, unit) => {
    const size = 30_000
    const { steps, spans } = found(pattern, [unit.repeat(size / unit.length)])
    expect(spans.length).toBeGreaterThan(size / 25)
    // A match counts as sixty-four.
    expect((steps - 64 * spans.length) / size).toBeLessThan(2)
  })

  test('a machine that learns all the time runs threads, and finds the same', () => {
    const pattern = '(?:a.{1,9}b|c.{2,8}d)[ef]|g'
    const draw = createSeededIntegers(367)
    const text = Array.from({ length: 60_000 }, () => 'aabcdefg hé'[draw(11)]).join('')
    const whole = found(pattern, [text])
    const pieces = found(pattern, text.match(/.{1,700}/gs) ?? [])
    expect(pieces.spans).toEqual(whole.spans)
    expect(whole.spans).toEqual(asRe2(pattern, text))
  })

  test('a counted repetition costs at most its size for a character', () => {
    const program = compileProgram('.{0,300}x')
    const { steps } = found('.{0,300}x', ['a'.repeat(20_000)])
    expect(steps / 20_000).toBeLessThan(program.size)
  })

  test('F1 finds a text that makes other engines give up', () => {
    expect(found('(a+)+c|SECRET-\\d+', [`${'a'.repeat(40)} SECRET-1234`]).spans).toEqual([[41, 52]])
  })

  test('returns the start of the earliest possible match', () => {
    const machine = new Machine(compileProgram('sk-[a-z]{4}\\b|\\d+x'), () => {})
    const openAfter = (text: string) => {
      machine.feed(text)
      return machine.earliestOpen
    }
    expect(openAfter('words, word')).toBe(11)
    expect(openAfter(' s')).toBe(12)
    expect(openAfter('k-ab')).toBe(12)
    expect(openAfter('! 12')).toBe(19)
    expect(openAfter(' ')).toBe(22)
  })

  test('reports a match that began too long ago although a longer one may come', () => {
    const told: number[] = []
    const machine = new Machine(compileProgram('a.*z|bc'), start => told.push(start), 10)
    machine.feed('a bc')
    expect(told).toEqual([])
    machine.feed('-'.repeat(12))
    expect(told).toEqual([2])
  })
})
