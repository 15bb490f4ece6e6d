import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  cleanText,
  cutBytes,
  cutText,
  markAsData,
} from '../../../src/extensions/tools/untrusted-text.ts'

const pieces = fc.constantFrom(
  ...['<', '/', ' ', '\n', 'untrusted_content', 'UNTRUSTED_CONTENT', '>', '"', 'x', '\u200b', '😀'],
)

test('no text closes the mark around it, or opens another', () => {
  fc.assert(
    fc.property(
      fc.array(pieces).map(parts => parts.join('')),
      text => {
        const marked = markAsData(text, text)
        expect(marked.match(/<\s*\/?\s*untrusted_content/gi)).toHaveLength(2)
        expect(marked.startsWith('<untrusted_content source="')).toBe(true)
      },
    ),
  )
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
