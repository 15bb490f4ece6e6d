import { describe, expect, test } from 'bun:test'
import { toPrintable } from '../../src/base/printable.ts'

describe('X-41 toPrintable', () => {
  test('keeps readable text in every script', () => {
    for (const text of ['plain', 'é 日本 עברית 😀', '« – »', ''])
      expect(toPrintable(text)).toBe(text)
  })

  test('replaces controls, line breaks and direction marks', () => {
    expect(toPrintable('a\u001b[2Jb\n\r\t\u0000\u007f\u009b\u202e\u2066\u200b\ufeff\u2028')).toBe(
      `a\uFFFD[2Jb${'\uFFFD'.repeat(11)}`,
    )
  })
})
