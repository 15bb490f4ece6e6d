import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { runAtOnce } from '../../../src/base/turns.ts'
import type { FilterSet } from '../../../src/limits/filters/filter-set.ts'
import { redactText } from '../../../src/limits/filters/redact.ts'
import type { Match } from '../../../src/limits/filters/rule.ts'
import { LONGEST_DISGUISED, LONGEST_HELD } from '../../../src/limits/filters/stream-scanner.ts'
import { type FilterRule, openFilters } from '../../../src/limits/filters.ts'
import { ENCODINGS, WORDS as FORBIDDEN } from '../../support/disguises.ts'
import { LONG } from '../../support/random.ts'

const rule = (more: Partial<FilterRule>): FilterRule => ({
  guardrail_id: 'g',
  scope: 'key',
  action: 'redact',
  output: true,
  ...more,
})

async function screenOf(...rules: Partial<FilterRule>[]): Promise<FilterSet> {
  const { outputFilters } = await openFilters(rules.map(rule))
  if (!outputFilters) throw new Error('There is no screen')
  return outputFilters
}

/**
 * Returns the output of a text that comes in these pieces, released as early as possible, and the
 * matches.
 */
function through(screen: FilterSet, pieces: string[]) {
  const matches: Match[] = []
  const lane = screen.createScanner(match => matches.push(match))
  const out: string[] = []
  let mostHeld = 0
  for (const piece of pieces) {
    lane.feed(piece)
    out.push(lane.take(lane.decidedUntil))
    mostHeld = Math.max(mostHeld, lane.length - lane.decidedUntil)
  }
  lane.end()
  out.push(lane.take(lane.decidedUntil))
  return {
    text: out.join(''),
    out,
    mostHeld,
    found: matches.map(({ rule, start, end }) => `${rule.filter} ${start}-${end}`).toSorted(),
  }
}

const cut = (text: string, places: number[]): string[] => {
  const ordered = [
    0,
    ...places.map(place => place % (text.length + 1)).toSorted((a, b) => a - b),
    text.length,
  ]
  return ordered.slice(1).map((to, i) => text.slice(ordered[i], to))
}

const WORDS = [
  'Hello',
  ' ',
  ' ',
  '.',
  ',',
  '\n',
  'bob@example.com',
  '914-309-4996',
  '4111 1111 1111 1111',
  '123-45-6789',
  '10.0.0.1',
  '::1',
  'John Smith',
  '12 Oak Street',
  'AKIAIOSFODNN7EXAMPLE',
  'password=',
  'h8kQ2zLp0w',
  '"a',
  'b"',
  'aaaa',
  'z',
  '1',
  '-',
  '@',
  '😀',
  '\ud83d',
  'é',
  ':',
  'sk-',
  'eyJ',
  'ｂｏｂ＠ｅｘａｍｐｌｅ．ｃｏｍ',
  'b\u200bob@exam\u00adple.com',
  '４１１１ １１１１ １１１１ １１１１',
  '1\u200b0.0.0.1',
  'Mu\u0308ller',
  'M\u200bü\u00adl\0ler',
  'Müll',
  '\u0308',
  '\u0301\u0323',
  '\u200b',
  '\u200d',
  '…',
  'ﬃ',
  'ﷺ',
  '가',
  'ᄀ',
  '\u1161',
  '\u11a8',
  '\u{e0041}',
  '\u{1d165}',
  '𝐌',
  '１',
  'u',
  '%',
  '%6',
  '%61',
  '%40',
  '%2531',
  '&',
  '&#49;',
  '&#x1',
  '&amp;',
  '#49;',
  '\\',
  '\\u00',
  '\\u0061',
  '\\"',
  'а',
  'Мüller',
  '\u{e0031}',
  '\udb40',
]
const words = fc
  .array(fc.oneof(fc.constantFrom(...WORDS), fc.string({ maxLength: 4 })), { maxLength: 30 })
  .map(parts => parts.join(''))
const EVERY: Partial<FilterRule>[] = [
  ...(
    [
      'email',
      'phone',
      'ssn',
      'credit-card',
      'ip-address',
      'person-name',
      'address',
      'secrets',
    ] as const
  ).map(slug => ({ slug })),
  { pattern: '".*?"', label: '[QUOTED]' },
  { pattern: 'a[^z]*z|a', label: '[A]' },
  { pattern: '(a+)+$', action: 'flag' },
  { pattern: 'Müller|f[fi]|각', label: '[M]' },
]

describe('a streamed text', () => {
  test('has the output and matches of the whole text', async () => {
    const screen = await screenOf(...EVERY)
    fc.assert(
      fc.property(words, fc.array(fc.nat(), { maxLength: 6 }), (text, places) => {
        const whole = through(screen, [text])
        const { text: pieces, found } = through(screen, cut(text, places))
        const units = through(screen, text.split(''))
        expect([pieces, found]).toEqual([whole.text, whole.found])
        expect([units.text, units.found]).toEqual([whole.text, whole.found])
        // Calls are searched as whole texts, with the same result.
        expect(runAtOnce(redactText(text, screen.find(text)))).toBe(whole.text)
      }),
      { numRuns: LONG ? 30_000 : 500 },
    )
  }, 600_000)

  // Answers are not searched for prompt injections.
  const inAnswers = FORBIDDEN.filter(([, { slug }]) => slug !== 'regex-prompt-injection')
  test.each(Object.entries(ENCODINGS))('is read as its receiver reads it: %s', async (_, write) => {
    for (const [word, { slug, pattern }] of inAnswers) {
      const screen = await screenOf(slug ? { slug } : { pattern: pattern ?? '' })
      const text = `R&amp;D 5%20 ${write(word)} \\n (é)`
      const whole = runAtOnce(redactText(text, screen.find(text)))
      expect(whole).toMatch(/^R&amp;D 5%20 \[[A-Z_]+\] \\n \(é\)$/)
      for (const size of [1, 2, 5, 100]) {
        const pieces = cut(
          text,
          Array.from({ length: Math.ceil(text.length / size) }, (_, i) => i * size),
        )
        const { text: redacted, out } = through(screen, pieces)
        expect(redacted).toBe(whole)
        expect(out[0]).not.toContain(write(word).slice(0, 1))
      }
    }
  })

  test('is held back for as many letters of a disguise, but not without a bound', async () => {
    const screen = await screenOf({ pattern: 'a.*z' })
    const pieces = Array.from({ length: 1_000 }, () => '%2561'.repeat(20))
    const { text, mostHeld } = through(screen, pieces)
    expect(text).toBe(pieces.join(''))
    expect(mostHeld).toBe(5 * (LONGEST_HELD + 1))
    const marks = `a${'\u200b'.repeat(100)}`.repeat(10)
    const long = through(
      screen,
      Array.from({ length: 100 }, () => marks),
    )
    expect([long.text, long.mostHeld]).toEqual([marks.repeat(100), LONGEST_DISGUISED])
  })

  test('is redacted from where it has not gone out yet', async () => {
    const screen = await screenOf({ pattern: 'a[^z]*z', label: '[A]' })
    const text = `!${`a${'\u200b'.repeat(100)}`.repeat(1_000)}z!`
    const { text: redacted, found } = through(screen, cut(text, [50_000, 100_000]))
    expect(redacted).toBe(`${text.slice(0, 100_000 - LONGEST_DISGUISED)}[A]!`)
    expect(found).toEqual([
      `[A] 1-${text.length - 1}`,
      `[A] ${text.length - 1 - LONGEST_HELD}-${text.length - 1}`,
    ])
  })

  test('is released at once as far as nothing in it can match', async () => {
    const screen = await screenOf({ pattern: 'SECRET-\\d+' })
    expect(
      through(screen, ['Good morning. ', 'SEC', 'OND, SECRET-', '12', '34 ok', '']).out,
    ).toEqual(['Good morning. ', '', 'SECOND, ', '', '[REDACTED] ok', '', ''])
  })

  test('is held back for at most 4,096 units', async () => {
    const screen = await screenOf({ pattern: 'a.*z' })
    const pieces = Array.from({ length: 100 }, () => 'a'.repeat(100))
    const { text, mostHeld } = through(screen, pieces)
    expect(text).toBe('a'.repeat(10_000))
    expect(mostHeld).toBe(LONGEST_HELD)
  })

  test('has the last 4,096 units of a longer match redacted, wherever it is cut', async () => {
    const screen = await screenOf({ pattern: 'a[^z]*z', label: '[A]' })
    const text = `${'a'.repeat(6_000)}z!`
    const whole = through(screen, [text])
    expect(whole.text).toBe(`${'a'.repeat(6_001 - LONGEST_HELD)}[A]!`)
    for (const size of [1, 7, 1_000, 4_095, 4_097]) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
        text.slice(i * size, (i + 1) * size),
      )
      expect(through(screen, pieces).text).toBe(whole.text)
    }
  })

  test('a long match that never ends does not hide shorter ones', async () => {
    const screen = await screenOf({ pattern: 'a.*z' }, { pattern: 'b[^z]*z|cc', label: '[C]' })
    const text = `ab${'-'.repeat(50)}cc${'-'.repeat(9_000)}`
    const whole = through(screen, [text])
    expect(whole.text).toContain('[C]')
    expect(whole.text).not.toContain('cc')
    expect(through(screen, text.split('')).text).toBe(whole.text)
  })
})

describe('overlapping matches', () => {
  test.each([
    [
      [
        { pattern: 'ab', label: '[1]' },
        { pattern: 'bc', label: '[2]' },
      ],
      'xabcx',
      'x[1]x',
    ],
    [
      [
        { pattern: 'b', label: '[1]' },
        { pattern: 'abc', label: '[2]' },
      ],
      'xabcx',
      'x[2]x',
    ],
    [
      [
        { pattern: 'ab', label: '[1]' },
        { pattern: 'abc', label: '[2]' },
      ],
      'xabcx',
      'x[2]x',
    ],
    [
      [
        { pattern: 'ab', label: '[1]' },
        { pattern: 'cd', label: '[2]' },
      ],
      'abcd',
      '[1][2]',
    ],
    [
      [
        { pattern: 'ab', label: '[1]' },
        { pattern: 'bc', label: '[2]' },
        { pattern: 'cd', label: '[3]' },
      ],
      'abcde',
      '[1]e',
    ],
  ])('%j of %p leaves %p', async (rules, text, expected) => {
    const screen = await screenOf(...rules)
    expect(through(screen, [text]).text).toBe(expected)
    expect(through(screen, text.split('')).text).toBe(expected)
    expect(runAtOnce(redactText(text, screen.find(text)))).toBe(expected)
  })
})

describe('several rules for one thing', () => {
  test('are the strictest of them', async () => {
    const { getInputFilters } = await openFilters([
      rule({ slug: 'email', action: 'flag', guardrail_id: 'a' }),
      rule({ slug: 'email', action: 'block', guardrail_id: 'b' }),
      rule({ slug: 'email', action: 'redact', guardrail_id: 'c' }),
    ])
    expect(
      getInputFilters('user')?.rules.map(({ guardrail_id, action }) => [guardrail_id, action]),
    ).toEqual([['b', 'block']])
  })

  test('apply only where they are set to', async () => {
    const { getInputFilters, outputFilters } = await openFilters([
      rule({
        slug: 'regex-prompt-injection',
        action: 'block',
        scan_scope: 'user_only',
        guardrail_id: 'a',
      }),
      rule({ slug: 'regex-prompt-injection', action: 'flag', guardrail_id: 'b' }),
      rule({ slug: 'email', action: 'block', guardrail_id: 'c', output: false }),
      rule({ slug: 'email', action: 'flag', guardrail_id: 'd', scan_scope: 'user_only' }),
    ])
    const whose = (screen: FilterSet | null) =>
      screen?.rules.map(({ guardrail_id, action }) => `${guardrail_id} ${action}`)
    expect([
      whose(getInputFilters('user')),
      whose(getInputFilters('tool')),
      whose(outputFilters),
    ]).toEqual([['a block', 'c block'], ['b flag', 'c block'], ['d flag']])
  })

  test('that apply nowhere make no filter set', async () => {
    const { getInputFilters, outputFilters } = await openFilters([
      rule({ slug: 'regex-prompt-injection', scan_scope: 'user_only' }),
    ])
    expect([getInputFilters('user') === null, getInputFilters('system'), outputFilters]).toEqual([
      false,
      null,
      null,
    ])
  })

  test('with an invalid pattern are refused', async () => {
    expect(openFilters([rule({ pattern: '(?=a)' })])).rejects.toMatchObject({
      status: 400,
      metadata: { code: 'invalid_regex_pattern' },
    })
  })
})

describe('F1 and P11', () => {
  test.each([10_000, 100_000])('padding of %p characters changes no verdict', async size => {
    const screen = await screenOf(
      { pattern: '(a+)+c|SECRET-\\d+' },
      { pattern: '(a+)+$', label: '[END]' },
    )
    const text = `${'a'.repeat(size)} SECRET-1234`
    expect(runAtOnce(redactText(text, screen.find(text))).slice(size)).toBe(' [REDACTED]')
    expect(runAtOnce(redactText(`x${'a'.repeat(size)}`, screen.find(`x${'a'.repeat(size)}`)))).toBe(
      'x[END]',
    )
    expect(through(screen, cut(text, [size, size + 3, size + 5])).text.slice(size)).toBe(
      ' [REDACTED]',
    )
  })

  test('other work runs while a long text is searched', async () => {
    const screen = await screenOf({ pattern: 'a.{0,300}x' })
    let turns = 0
    const timer = setInterval(() => turns++, 0)
    // No state comes twice, so that nothing can be remembered.
    let value = 7
    const units = Array.from({ length: 100_000 }, () => {
      value = (value * 1_103_515_245 + 12_345) % 2_147_483_648
      return 'ab'[(value >> 16) & 1]
    })
    await screen.search(units.join(''))
    clearInterval(timer)
    expect(turns).toBeGreaterThan(3)
  })
})
