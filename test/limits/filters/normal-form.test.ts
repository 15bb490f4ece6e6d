import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { runAtOnce } from '../../../src/base/turns.ts'
import { findUnusual, isPlainAscii } from '../../../src/limits/filters/normal-form.ts'
import { redactText } from '../../../src/limits/filters/redact.ts'
import { type FilterRule, openFilters } from '../../../src/limits/filters.ts'
import { LONG } from '../../support/random.ts'

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
})

test('what is taken for its own normal form at a glance has nothing that may change', () => {
  for (let code = 0; code < 0x10000; code++) {
    const text = `plain ${String.fromCharCode(code)} words`
    const isUsual = findUnusual(text, 0, text.length) === text.length
    expect(isPlainAscii(text)).toBe(code < 128 && isUsual)
  }
})

test('NUL within ASCII hides nothing', async () => {
  expect(await redact('b\0ob@example.c\0om', { slug: 'email' })).toBe('[EMAIL]')
})

const RUNS = LONG ? 10_000 : 60

/** Texts are normalised in slices and searched in blocks of so many units. */
const [SLICE, BLOCK] = [16_384, 1_048_576]

const fillers = fc.constantFrom(
  ...[
    'word ',
    'ﷺ ',
    'é ',
    'e\u0301 ',
    '😀 ',
    '漢字 ',
    'ﬁ ',
    '\u200b',
    '한 ',
    '\u1112\u1161\u11ab ',
  ],
)
const hidden = fc.constantFrom(
  ...['Mu\u0308ller', 'Ｍüｌｌｅｒ', 'M\u200büller', 'Mül\u00adler', 'Müller', '𝐌ü𝐥𝐥𝐞𝐫'],
)
/** Where the word begins: anywhere, or a few units before a slice, and now and then a block, ends. */
const places = fc.oneof(
  { weight: 30, arbitrary: fc.nat(2_000) },
  { weight: 60, arbitrary: fc.tuple(fc.constantFrom(SLICE, 2 * SLICE), fc.nat(16)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant(BLOCK), fc.nat(16)) },
)
const findStart = (place: number | [number, number]): number =>
  typeof place === 'number' ? place : place[0] - place[1]

const cases = fc
  .record({ units: fc.array(fillers, { minLength: 1, maxLength: 8 }), hidden, place: places })
  .map(({ units, hidden, place }) => {
    const [unit, start] = [units.join(''), findStart(place)]
    const filler = unit.repeat(Math.floor(start / unit.length))
    const before = `${filler}${'.'.repeat(start - filler.length)} `
    return { before, hidden, after: ` ${unit}` }
  })

type Redact = (text: string) => string

/** Returns how a redaction fails first: it leaves the word, or changes something else. */
function findFailure(redact: Redact, seed: number): string | null {
  const property = fc.property(cases, ({ before, hidden, after }) => {
    if (redact(before + hidden + after) !== `${before}X${after}`) throw new Error('Not redacted')
  })
  const { failed, numRuns } = fc.check(property, { numRuns: RUNS, seed, endOnFailure: true })
  return failed ? `case ${numRuns}` : null
}

async function createRedact(): Promise<Redact> {
  const { getInputFilters } = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'redact', ...MULLER },
  ])
  const filterSet = getInputFilters('user')
  return text => runAtOnce(redactText(text, filterSet?.find(text) ?? []))
}

const cutEvery = (size: number, redact: Redact) => (text: string) =>
  (text.match(new RegExp(`[^]{1,${size}}`, 'gu')) ?? []).map(redact).join('')

/** Mistakes that a normal form can make, each as a redaction that makes it. */
const PLANTS: Record<string, (redact: Redact) => Redact> = {
  'a slice knows nothing of the one before': redact => cutEvery(SLICE, redact),
  'nothing is normalised': () => text => text.replaceAll('Müller', 'X'),
  'the text becomes its normal form': redact => text => redact(text.normalize('NFKC')),
  'what is not seen stays': redact => text => (text.includes('\u00ad') ? text : redact(text)),
  'marks are not joined to their letters': redact => text =>
    text.includes('u\u0308') ? text : redact(text),
  'offsets are those of the normal form': redact => text => {
    const end = redact(text).indexOf('X')
    const shift = text.slice(0, end).length - text.slice(0, end).normalize('NFKC').length
    return shift === 0 ? redact(text) : text.slice(0, end - shift)
  },
}

describe('wherever it stands in a long text, whatever surrounds it', () => {
  test(`it is cut, and nothing else (${RUNS} cases, seed 11)`, async () => {
    expect(findFailure(await createRedact(), 11)).toBeNull()
  }, 600_000)

  test.each(Object.keys(PLANTS))(
    'a planted bug is found: %s',
    async bug => {
      const redact = await createRedact()
      expect(findFailure(PLANTS[bug]?.(redact) ?? redact, 11)).not.toBeNull()
    },
    600_000,
  )
})
