import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { countJsonBytes, isLargeJson, parseExact, writeJsonBytes } from '../../src/base/json.ts'
import { runAtOnce } from '../../src/base/turns.ts'
import { decodeOutgoing } from '../support/outgoing.ts'
import { LONG } from '../support/random.ts'
import { generateText } from '../support/texts.ts'

/* What is written piece by piece is what JSON.stringify writes, in pieces of bounded size. */

const RUNS = LONG ? 10_000 : 100

const write = (value: unknown) => decodeOutgoing(runAtOnce(writeJsonBytes(value)))

const long = 'x'.repeat(65_535)
const texts = fc.oneof(
  generateText({ maxLength: 8 }),
  fc.constantFrom('"', '\\', '\u0001', '\u2028', '漢', '😀', '\ud83d', '\ude00', '\ud83d\ude00'),
)
/** Texts with something of interest where a slice may end. */
const longTexts = fc
  .tuple(fc.nat(4), texts, texts, fc.nat(4))
  .map(([cut, first, second, count]) => long.slice(cut) + (first + second + long).repeat(count))
const leaves = fc.oneof(
  texts,
  longTexts,
  fc.constantFrom(undefined, null, true, 1.5, -0, Number.NaN, 1e300, new Date(0)),
  fc.constant(parseExact('12345678901234567890')),
)
const values = fc.letrec(tie => ({
  value: fc.oneof({ maxDepth: 3 }, leaves, tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 5 }),
  object: fc.dictionary(fc.oneof(texts, fc.constant('__proto__')), tie('value'), { maxKeys: 5 }),
})).value

describe('JSON in pieces', () => {
  test(`is what JSON.stringify writes (${RUNS} cases, seed 61)`, () => {
    fc.assert(
      fc.property(values, value => {
        // Large, so that nothing is left to the platform.
        const whole = { value, long: long.repeat(5) }
        const expected = JSON.stringify(whole)
        const written = write(whole)
        expect(written === expected).toBe(true)
        expect(countJsonBytes(whole)).toBe(Buffer.byteLength(expected))
      }),
      { numRuns: RUNS, seed: 61 },
    )
  }, 1_200_000)

  test.each([
    ['members', Object.fromEntries(Array.from({ length: 3_000 }, (_, i) => [`x${i}`, i % 7]))],
    ['texts', Array.from({ length: 3_000 }, (_, i) => 'é"'.repeat(i % 90))],
    ['objects', Array.from({ length: 3_000 }, (_, i) => (i % 5 ? { i, x: undefined } : [i, null]))],
    ['halves of characters', [`${long}\ud83d\ud83d\ude00${long}`, `${long}\ud83d${long}\ude00`]],
    ['numbered members', { 7: 'a', 3: 'b', x: 'c', 1: long.repeat(3), 'x\n': undefined, z: 1 }],
  ])('is what JSON.stringify writes of many %s', (_, many) => {
    const whole = { many, long: long.repeat(5), [long.repeat(2)]: many }
    expect(write(whole) === JSON.stringify(whole)).toBe(true)
    expect(write(many) === JSON.stringify(many)).toBe(true)
  })

  test('has pieces of bounded size, and gives others their turn after each', () => {
    const work = writeJsonBytes({
      text: '漢"'.repeat(1_000_000),
      list: new Array(400_000).fill('x'),
    })
    let steps = 0
    for (let step = work.next(); ; step = work.next(), steps++)
      if (step.done) {
        expect(Math.max(...step.value.map(({ length }) => length))).toBeLessThan(5_000_000)
        expect(steps).toBeGreaterThan(30)
        return
      }
  })

  test.each([
    ['small', { a: 'x'.repeat(1_000), b: [1, 2] }, false],
    ['a long text', { a: [{ b: 'x'.repeat(300_000) }] }, true],
    ['a long name', { ['x'.repeat(300_000)]: 1 }, true],
    ['many items', { a: new Array(300_000).fill(1) }, true],
    ['many texts together', { a: new Array(300).fill('x'.repeat(1_000)) }, true],
  ])('is for large values: %s', (_, value, expected) => {
    expect(isLargeJson(value)).toBe(expected)
  })
})
