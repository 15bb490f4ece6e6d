import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { runAtOnce } from '../../../../src/core/kernel/turns.ts'
import { redactText } from '../../../../src/core/policy/filters/redact.ts'
import { type FilterRule, openFilters } from '../../../../src/core/policy/filters.ts'
import { LONG } from '../../../support/random.ts'

async function redact(text: string, rule: Partial<FilterRule>): Promise<string> {
  const { getInputFilters } = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'redact', ...rule },
  ])
  return runAtOnce(redactText(text, (await getInputFilters('user')?.search(text)) ?? []))
}

const MULLER = { pattern: 'Müller', label: 'X' }

describe('text is compared in its normal form, and the right characters are cut', () => {
  test.each([
    ['decomposed', 'Mr Mu\u0308ller!', 'Mr X!'],
    ['zero-width', 'Mr M\u200bü\u200dll\ufeffer!', 'Mr X!'],
    ['soft hyphens', 'Mr Mül\u00adler!', 'Mr X!'],
    ['full width', 'Mr Ｍüｌｌｅｒ!', 'Mr X!'],
    ['variation selectors', 'Mr Mü\ufe0fller!', 'Mr X!'],
    ['tags', 'Mr M\u{e0041}üller!', 'Mr X!'],
    ['NUL', 'M\0ü\0l\0l\0e\0r\0 is', 'X is'],
    ['mathematical letters', '😀 𝐌ü𝐥𝐥𝐞𝐫 😀', '😀 X 😀'],
    ['ligatures before it', 'ﬃ ﷺ Ｍüller ﬃ', 'ﬃ ﷺ X ﬃ'],
    ['nothing of it', 'ﬃ ﷺ Möller ﬃ', 'ﬃ ﷺ Möller ﬃ'],
  ])('%s: %p', async (_, text, expected) => {
    expect(await redact(text, MULLER)).toBe(expected)
  })

  test('a pattern in decomposed letters too', async () => {
    expect(await redact('Müller', { pattern: 'Mu\u0308ller', label: 'X' })).toBe('X')
  })

  test('a pattern for what the normal form has not still finds it', async () => {
    expect(await redact('a\u200bb™', { pattern: '\\x{200B}|™', label: '_' })).toBe('a_b_')
  })

  test('builtins', async () => {
    expect(await redact('bob\u200b@exam\u00adple.com', { slug: 'email' })).toBe('[EMAIL]')
    expect(await redact('４１１１ １１１１ １１１１ １１１１', { slug: 'credit-card' })).toBe(
      '[CREDIT_CARD]',
    )
  })

  test('wherever it stands in a long text, whatever surrounds it', async () => {
    const filler = fc.constantFrom('word ', 'ﷺ ', 'é ', 'e\u0301 ', '😀 ', '漢字 ', 'ﬁ ', '\u200b')
    const hidden = fc.constantFrom('Mu\u0308ller', 'Ｍüｌｌｅｒ', 'M\u200büller', 'Mül\u00adler')
    await fc.assert(
      fc.asyncProperty(
        fc.array(filler, { minLength: 1, maxLength: 8 }),
        hidden,
        fc.integer({ min: 0, max: 6_000 }),
        async (units, word, count) => {
          const before = `${units.join('').repeat(count)} `
          const after = ` ${units.join('')}`
          expect(await redact(before + word + after, MULLER)).toBe(`${before}X${after}`)
        },
      ),
      { numRuns: LONG ? 2_000 : 60 },
    )
  }, 120_000)
})
