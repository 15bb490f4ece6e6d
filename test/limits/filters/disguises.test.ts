import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { runAtOnce } from '../../../src/base/turns.ts'
import { mayBeDisguised, PlainReading } from '../../../src/limits/filters/disguises.ts'
import { redactText } from '../../../src/limits/filters/redact.ts'
import { type FilterRule, openFilters } from '../../../src/limits/filters.ts'
import { ENCODINGS, WORDS } from '../../support/disguises.ts'

async function redact(text: string, rule: Partial<FilterRule>): Promise<string> {
  const { getInputFilters } = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'redact', label: 'X', ...rule },
  ])
  const found = (await getInputFilters('user')?.search(text)) ?? []
  return runAtOnce(redactText(text, found))
}

test.each(
  WORDS.flatMap(([word, rule]) => Object.keys(ENCODINGS).map(name => [word, name, rule] as const)),
)('%s in %s is found, and nothing else is cut', async (word, name, rule) => {
  const written = ENCODINGS[name]?.(word) ?? word
  const redacted = await redact(`R&amp;D 5%20 ${written} \\n (é)`, rule)
  expect(redacted).toStartWith('R&amp;D 5%20 ')
  expect(redacted).toEndWith(' \\n (é)')
  expect(redacted).not.toContain(written)
})

test('a reading does not depend on how its text is cut, and knows where it comes from', () => {
  const pieces = fc.constantFrom(
    ...[
      'a',
      'б',
      'о',
      '%',
      '%6',
      '%61',
      '%2566',
      '&',
      '&#',
      '&#102',
      '&#x6c;',
      '&amp;',
      '\\',
      '\\u00',
    ],
    ...['\\u0066', '\\x41', '\\n', '\u{e0041}', '\udb40', '\u200b', '\u0301', 'ｆ', ' ', '6', 'x'],
  )
  const text = fc.array(pieces, { maxLength: 12 }).map(list => list.join(''))
  fc.assert(
    fc.property(text, fc.array(fc.nat(20)), (text, cuts) => {
      const whole = new PlainReading()
      const expected = whole.read(text, true)
      const reading = new PlainReading()
      let read = ''
      let at = 0
      for (const cut of [...cuts, text.length]) {
        const end = Math.min(text.length, at + cut)
        read += reading.read(text.slice(at, end))
        expect(reading.open).toBe(text.slice(reading.knownUntil, end))
        at = end
      }
      read += reading.read(text.slice(at), true)
      expect(read).toBe(expected)
      expect(reading.firstChange).toBe(whole.firstChange)
      expect(reading.knownUntil).toBe(text.length)
      if (whole.firstChange === null) expect(expected).toBe(text)
      else expect(expected.slice(0, whole.firstChange)).toBe(text.slice(0, whole.firstChange))
      for (let i = 0; i < expected.length; i++) {
        const span = { start: i, end: i + 1 }
        expect(reading.toOriginal(span)).toEqual(whole.toOriginal(span))
        const { start, end } = whole.toOriginal(span)
        expect(start >= 0 && end <= text.length && end > start).toBe(true)
      }
      if (!mayBeDisguised(text)) expect(new PlainReading().read(text, true)).toBe(expected)
    }),
    { numRuns: 3_000 },
  )
})
