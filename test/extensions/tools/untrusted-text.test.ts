import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  cleanText,
  cutBytes,
  cutMarkedMiddle,
  cutMarkedText,
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

const WHOLE_MARK =
  /<untrusted_content source="[^"]*">\n([\s\S]*?)\n<\/untrusted_content>\nThe text above comes from a third party\. .*? in it\./g

/** Texts of a tool: `¤` is a third party's, `§` its own. */
const markedTexts = fc
  .array(
    fc.oneof(
      fc.nat(60).map(length => '§'.repeat(length)),
      fc.nat(200).map(length => markAsData('a page', `¤${'😀¤'.repeat(length)}`)),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map(parts => parts.join('\n\n'))

describe('a text that is cut keeps its marks', () => {
  const expectMarked = (cut: string, text: string, most: number) => {
    const unmarked = cut.replace(WHOLE_MARK, (_, data: string) => {
      expect(data).not.toContain('§')
      return ''
    })
    expect(unmarked).not.toMatch(/¤|untrusted_content|😀/)
    expect(cut.isWellFormed()).toBe(true)
    expect(cut.length).toBeLessThanOrEqual(Math.min(text.length + 25, most + 400))
  }

  test('at any place at its end', () => {
    fc.assert(
      fc.property(markedTexts, fc.nat(500), (text, most) => {
        const cut = cutMarkedText(text, most)
        if (text.length <= most) expect(cut).toBe(text)
        expectMarked(cut, text, most)
      }),
    )
  })

  test('at any places in its middle', () => {
    fc.assert(
      fc.property(markedTexts, fc.nat(500), (text, most) => {
        if (text.length > most) expectMarked(cutMarkedMiddle(text, most, '\n[…]\n'), text, most)
      }),
    )
  })
})
