import { describe, expect, test } from 'bun:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants'
import { countEncodedTokens, splitLongRuns } from '../../../src/translation/tokenizers/encodings.ts'
import { createSeededIntegers, SEED } from '../../support/random.ts'

const LONGEST_RUN = 1_000
const MEGABYTE = 1_000_000

/** Texts whose merges take quadratic time in the length of a run. */
const ATTACKS: [name: string, text: string][] = [
  ['one letter', 'a'.repeat(MEGABYTE)],
  [
    'letters that never merge',
    Array.from({ length: MEGABYTE }, (_, i) =>
      String.fromCharCode(97 + ((i * i * 7919) % 26)),
    ).join(''),
  ],
  ['spaces', ' '.repeat(MEGABYTE)],
  ['lines', '\n'.repeat(MEGABYTE)],
  ['dots', '.'.repeat(MEGABYTE)],
  ['hanzi', '我'.repeat(MEGABYTE)],
  ['emoji', '😀'.repeat(MEGABYTE / 2)],
  ['slashes', '/'.repeat(MEGABYTE)],
  ['lines of a slash each', '\n/'.repeat(MEGABYTE / 2)],
  ['Windows lines of a slash each', '/\r\n'.repeat(MEGABYTE / 4)],
  ['lines of a slash each, a word now and then', `a${'\n/\n/'.repeat(25_000)} `.repeat(10)],
  ['runs just short of the limit', `${'b'.repeat(LONGEST_RUN)} `.repeat(MEGABYTE / LONGEST_RUN)],
]

/** What either encoding merges as one: the pattern of o200k's package, and a bound of the other's. */
const MERGED = [O200K_TOKEN_SPLIT_REGEX, /\S+|\s+/g]

/** Returns the work of encoding a text if what is merged as one takes the square of its length. */
const work = (text: string) =>
  splitLongRuns(text).reduce((sum, piece) => sum + Math.max(...MERGED.map(workOf(piece))), 0)
const workOf = (piece: string) => (merged: RegExp) =>
  (piece.match(merged) ?? []).reduce((sum, run) => sum + run.length ** 2, 0)

/** The most characters of one merge: signs, and the line ends and slashes after them. */
const LONGEST_MERGE = 2 * LONGEST_RUN + 1

describe('splitLongRuns', () => {
  test.each(ATTACKS)('bounds the work for %s by the length', (_, text) => {
    expect(splitLongRuns(text).join('')).toBe(text)
    expect(work(text)).toBeLessThanOrEqual(LONGEST_MERGE * text.length)
  })

  test('bounds the work for any runs by the length', () => {
    for (let i = 0; i < 300; i++) {
      const text = makeText(6, 4_000)
      expect(splitLongRuns(text).join('')).toBe(text)
      expect(work(text)).toBeLessThanOrEqual(LONGEST_MERGE * text.length)
    }
  })

  test('leaves an ordinary text whole', () => {
    const text = `${'An ordinary sentence.\n\n'.repeat(10_000)}${'a'.repeat(LONGEST_RUN)}`
    expect(splitLongRuns(text)).toEqual([text])
  })

  test('cuts only runs that are too long', () => {
    const text = `before ${'x'.repeat(2_500)} after ${' '.repeat(1_001)}end`
    expect(splitLongRuns(text).map(piece => piece.length)).toEqual([
      7 + 1_000,
      1_000,
      500 + 6 + 1_000,
      2 + 3,
    ])
  })

  test('keeps an empty text empty', () => {
    expect(splitLongRuns('').join('')).toBe('')
  })
})

test('the tokens of texts without long runs are those of the whole text', async () => {
  for (let i = 0; i < 300; i++) {
    const text = makeText(40, 6)
    expect(splitLongRuns(text)).toEqual([text])
    expect(await countEncodedTokens('o200k', [text])).toBe(countTokens(text))
  }
})

describe('adversarial text', () => {
  test.each(ATTACKS)('of %s is counted in either encoding', async (_, text) => {
    const attack = text.slice(0, 200_000)
    for (const encoding of ['o200k', 'claude'] as const) {
      const tokens = await countEncodedTokens(encoding, [attack])
      expect(tokens).toBeGreaterThan(0)
      expect(tokens).toBeLessThanOrEqual(3 * attack.length)
    }
  })
})

const integers = createSeededIntegers(SEED)

const UNITS = ['/', '\n', '\r', '\r\n', '\n/', '//\n', ' ', '\t', '\u00a0', '.', '#', 'a', 'B', '7']
const OTHER_UNITS = ["'s", 'a\u0301', '\u0301', '我', '😀', ' a', '. ', 'word ', '\u2028', '\ud800']
const ALL_UNITS = [...UNITS, ...OTHER_UNITS]

/** Makes a text of a few units, each repeated. */
function makeText(units: number, most: number): string {
  const parts = Array.from({ length: 1 + integers(units) }, () =>
    (ALL_UNITS[integers(ALL_UNITS.length)] ?? '').repeat(1 + integers(most)),
  )
  return parts.join('')
}
