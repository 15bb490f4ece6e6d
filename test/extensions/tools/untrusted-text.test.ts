import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  cleanText,
  cutBytes,
  cutText,
  markAsData,
} from '../../../src/extensions/tools/untrusted-text.ts'
import { readThreadCpu } from '../../support/cpu.ts'

const pieces = fc.constantFrom(
  ...['<', '/', ' ', '\n', 'untrusted_content', 'UNTRUSTED_CONTENT', '>', '"', 'x', '\u200b', '😀'],
  ...['untrus\u00adted_content', '\u{e0041}untrusted\u202e_content', 'un\u200dtrusted_content'],
)

test('no text closes the mark around it, or opens another', () => {
  fc.assert(
    fc.property(
      fc.array(pieces).map(parts => parts.join('')),
      text => {
        const marked = markAsData(text, text)
        const shown = cleanText(marked).replaceAll('\u200d', '')
        expect(shown.match(/<\s*\/?\s*untrusted_content/gi)).toHaveLength(2)
        expect(marked.startsWith('<untrusted_content source="')).toBe(true)
      },
    ),
  )
})

test('a long text that may become a mark takes linear time', () => {
  for (const piece of ['\u200b', '\ufeff', '\u2028', '/', 'u\u200b', '<', '\u{e0041}']) {
    const text = `<${piece.repeat(500_000)}`
    const start = readThreadCpu()
    markAsData('x', text)
    expect(readThreadCpu() - start).toBeLessThan(2_000)
  }
})

test('what people cannot see is removed, and words stay', () => {
  expect(cleanText('a\u0000b\u001b[31m\u202ec\u{e0041}\u{e007f}\r\nd\te\u00ad')).toBe(
    'ab[31mc\nd\te',
  )
  // A family is one picture, and Persian needs its joiners.
  expect(cleanText('👨‍👩‍👧 می‌خواهم')).toBe('👨‍👩‍👧 می‌خواهم')
})

test('a text is cut between characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.nat(40), (text, most) => {
      const cut = cutBytes(text, most)
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(most)
      expect(text.startsWith(cut)).toBe(true)
      expect(cut.isWellFormed()).toBe(text.isWellFormed())
      const next = text.slice(
        cut.length,
        cut.length + ((text.codePointAt(cut.length) ?? 0) > 0xffff ? 2 : 1),
      )
      if (cut !== text) expect(Buffer.byteLength(cut + next)).toBeGreaterThan(most)
    }),
  )
  expect(cutText('abc', 3)).toBe('abc')
  expect(cutText('abcd', 3)).toBe('abc…')
})
