import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { runAtOnce } from '../../../src/base/turns.ts'
import { Machine } from '../../../src/limits/patterns/machine.ts'
import { compileProgram } from '../../../src/limits/patterns/program.ts'
import { searchText } from '../../../src/limits/patterns/search.ts'
import { LONG } from '../../support/random.ts'

type Spans = [number, number][]

function findByMachine(pattern: string, text: string): Spans {
  const spans: Spans = []
  const machine = new Machine(compileProgram(pattern), (start, end) => spans.push([start, end]))
  machine.feed(text)
  machine.end()
  return spans
}

function findBySearch(program: ReturnType<typeof compileProgram>, text: string): Spans {
  const spans: Spans = []
  runAtOnce(searchText(program, text, (start, end) => spans.push([start, end])))
  return spans
}

const PARTS = [
  'a',
  '[ab]',
  '[^a]',
  '.',
  '(?:ab)',
  '(ab|a)',
  'é',
  '\\s',
  '😀',
  '\\b',
  '^',
  '$',
  '\\B',
]
const MORE = ['', '', '*', '+', '?', '*?', '{1,3}', '{2}']
const pattern = fc
  .array(fc.tuple(fc.constantFrom(...PARTS), fc.constantFrom(...MORE)), {
    minLength: 1,
    maxLength: 6,
  })
  .map(parts => parts.map(([part, more]) => (/^(?:\\[bB]|[$^])$/.test(part) ? part : part + more)))
  .map(parts => parts.join(''))
const text = fc
  .array(fc.constantFrom('a', 'a', 'b', 'c', ' ', '\n', 'é', '😀', '\ud83d'), { maxLength: 40 })
  .map(units => units.join(''))

test('a search finds what a machine finds that reads the whole text', () => {
  const numRuns = LONG ? 20_000 : 800
  fc.assert(
    fc.property(pattern, fc.array(text, { minLength: 1, maxLength: 4 }), (pattern, texts) => {
      // One program for several texts: what it has learnt of one must hold for the next.
      const program = compileProgram(pattern)
      for (const text of texts)
        expect(findBySearch(program, text)).toEqual(findByMachine(pattern, text))
    }),
    { numRuns },
  )
})

test('a search finds the same when it meets more states than it keeps', () => {
  const pattern = 'a.{0,30}x'
  let value = 7
  const units = Array.from({ length: 30_000 }, (_, i) => {
    value = (value * 1_103_515_245 + 12_345) % 2_147_483_648
    return i % 5_000 === 4_999 ? 'x' : 'abcd'[(value >> 16) & 3]
  })
  const text = units.join('')
  const program = compileProgram(pattern)
  expect(findBySearch(program, text)).toEqual(findByMachine(pattern, text))
  expect(findByMachine(pattern, text).length).toBeGreaterThan(3)
})
