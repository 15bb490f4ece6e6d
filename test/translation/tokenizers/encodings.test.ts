import { describe, expect, test } from 'bun:test'
import { countEncodedTokens, splitLongRuns } from '../../../src/translation/tokenizers/encodings.ts'

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
  ['runs just short of the limit', `${'b'.repeat(LONGEST_RUN)} `.repeat(MEGABYTE / LONGEST_RUN)],
]

/** Returns the work of encoding a text if each run takes the square of its length. */
const work = (text: string) => splitLongRuns(text).reduce((sum, piece) => sum + workOf(piece), 0)
const workOf = (piece: string) =>
  (piece.match(/\S+|\s+/g) ?? []).reduce((sum, run) => sum + run.length ** 2, 0)

describe('splitLongRuns', () => {
  test.each(ATTACKS)('bounds the work for %s by the length', (_, text) => {
    expect(splitLongRuns(text).join('')).toBe(text)
    expect(work(text)).toBeLessThanOrEqual(LONGEST_RUN * text.length)
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
