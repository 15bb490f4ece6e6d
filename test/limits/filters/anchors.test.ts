import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { runAtOnce } from '../../../src/base/turns.ts'
import { BUILTINS, type BuiltinSlug } from '../../../src/limits/filters/builtins.ts'
import { type CompiledDetector, listSpans } from '../../../src/limits/filters/rule.ts'
import { SECRET_FORMS } from '../../../src/limits/filters/secrets.ts'
import { openFilters } from '../../../src/limits/filters.ts'
import { searchText, TextSearch } from '../../../src/limits/patterns/search.ts'
import { type Anchor, SOUGHT, StartSearch } from '../../../src/limits/patterns/start-search.ts'
import { LONG } from '../../support/random.ts'

/*
 * A builtin is sought only around its anchors, and a text may be searched in windows. Neither
 * changes what is found.
 */

const RUNS = LONG ? 10_000 : 150

async function openSet(slug: BuiltinSlug) {
  const { getInputFilters } = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'redact', slug },
  ])
  const filterSet = getInputFilters('user')
  if (!filterSet) throw new Error('No filters')
  return filterSet
}

const SLUGS = Object.keys(BUILTINS) as BuiltinSlug[]
const detectors = new Map(
  await Promise.all(
    SLUGS.map(
      async slug => [slug, (await openSet(slug)).rules.flatMap(rule => rule.detectors)] as const,
    ),
  ),
)
const ANCHORED = SLUGS.filter(slug => detectors.get(slug)?.some(({ anchor }) => anchor))

/** Finds what a detector finds, with or without its anchor. */
function findSpans(detector: CompiledDetector, text: string, anchor?: Anchor) {
  const found: string[] = []
  const onMatch = (start: number, end: number) =>
    found.push(...nameSpans(detector, text, start, end))
  runAtOnce(searchText(detector.program, text, onMatch, anchor))
  return found
}

function nameSpans(detector: CompiledDetector, text: string, start: number, end: number) {
  const spans = listSpans(detector, text.slice(start, end))
  return [...spans].flatMap(span => (span ? `${start + span.start}-${start + span.end}` : []))
}

/** What builtins find, pieces of it, and what nearly is it. */
const UNITS = [
  'bob@example.com',
  'a@b',
  '@',
  'é',
  '.',
  '914-309-4996',
  '(914) 309-4996',
  '1-914',
  '+1 914 309 4996',
  '+49 30 901820',
  '123-45-6789',
  '123 45 6789',
  'ssn',
  'Social Security number is ',
  'ſſn ',
  '123456789',
  '4111 1111 1111 1111',
  '4111',
  '4222222222222',
  'ssn 123456789',
  '12 2026',
  '10.0.0.1',
  '1.2.3.4.5',
  'v1.2.3.4',
  '::1',
  '2001:db8::ff00:42:8329',
  ':',
  'fe80',
  'John Smith',
  'John',
  'Dr. ',
  'Maria de la Cruz',
  'van ',
  'my name is ',
  'ich heiße ',
  'mein name iſt ',
  'A',
  'Xiu',
  '12 Oak Street',
  '221B Baker Street, London',
  'Hauptstraße 12, 10115 Berlin',
  '12 rue de la Paix',
  '5 bis, rue ',
  'P.O. Box 12',
  'NY 10118',
  'SW1A 1AA',
  'AKIAIOSFODNN7EXAMPLE',
  'sk-',
  'xoxb-',
  'password',
  '=',
  ' := ',
  '"',
  'h8$kQ2!zLp0w',
  'postgres://app:s3cr3tpw@db',
  '://',
  'x:\u00a0y@',
  '-----BEGIN PRIVATE KEY-----',
  'MIIEow',
  ' ',
  ' ',
  ' ',
  '-',
  ',',
  '\n',
  'a',
  'Z',
  '0',
  '7',
  '\\',
  '😀',
  '\ud83d',
  '\u00a0',
  '\u212a',
  'K\u0301',
  '漢字',
  // Longer than what is read before the engine's own search takes over.
  'plain words '.repeat(7),
]
/** The same in other letters: an anchor must not know more of a match than its pattern does. */
const CHANGES: ((unit: string) => string)[] = [
  unit => unit,
  unit => unit,
  unit => unit.toUpperCase(),
  unit => unit.toLowerCase(),
  unit => unit.replace(/(?<=[^a-zA-Z])[a-z]/g, letter => letter.toUpperCase()),
  unit => unit.replace(/(?<=[^a-zA-Z0-9])[a-zA-Z]/g, '7'),
  unit => unit.replace(/\d/g, digit => String(9 - Number(digit))),
  unit => unit.replaceAll(' ', '\u00a0'),
  unit => unit.replaceAll(' ', '-'),
  unit => unit.replaceAll(/[ -]/g, ''),
]
const units = fc
  .tuple(fc.constantFrom(...UNITS), fc.constantFrom(...CHANGES))
  .map(([unit, change]) => change(unit))
const texts = fc
  .array(fc.oneof(units, fc.string({ maxLength: 3 })), { maxLength: 40 })
  .map(units => units.join(''))

/** Few enough units that some have nothing of what is sought. */
const shortTexts = fc
  .array(fc.oneof(units, fc.string({ maxLength: 3 })), { maxLength: 4 })
  .map(units => units.join(''))

describe('anchors change nothing of what is found by', () => {
  test.each(ANCHORED)(
    '%s',
    slug => {
      fc.assert(
        fc.property(texts, text => {
          for (const detector of detectors.get(slug) ?? [])
            expect(findSpans(detector, text, detector.anchor)).toEqual(findSpans(detector, text))
        }),
        { numRuns: RUNS },
      )
    },
    600_000,
  )
})

describe('a text that is clean at one look has nothing that is found by', () => {
  test.each(SLUGS)(
    '%s',
    async slug => {
      const filterSet = await openSet(slug)
      let count = 0
      fc.assert(
        fc.property(shortTexts, text => {
          if (!filterSet.isClean(text)) return
          count += 1
          expect(filterSet.find(text)).toEqual([])
        }),
        { numRuns: RUNS * 4 },
      )
      if (ANCHORED.includes(slug)) expect(count).toBeGreaterThan(RUNS / 4)
    },
    600_000,
  )

  test('builtins beside a pattern, which has no anchor', async () => {
    const rule = { guardrail_id: 'g', scope: 'key', action: 'redact' } as const
    const { getInputFilters } = await openFilters([
      { ...rule, slug: 'email' },
      { ...rule, pattern: 'sesame' },
    ])
    const filterSet = getInputFilters('user')
    expect(filterSet?.isClean('plain words')).toBe(false)
    expect(filterSet?.find('open sesame')).toHaveLength(1)
  })
})

const PROSE = 'plain words '.repeat(SOUGHT / 10)

describe('where one piece of a long text ends and the next begins, the same is found by', () => {
  test.each(ANCHORED)(
    '%s',
    slug => {
      fc.assert(
        fc.property(texts, fc.nat(), (text, place) => {
          const before = PROSE.slice(0, SOUGHT - (place % (text.length + 1)))
          const long = `${before}${text} ${PROSE.slice(0, 200)}`
          for (const detector of detectors.get(slug) ?? [])
            expect(findSpans(detector, long, detector.anchor)).toEqual(findSpans(detector, long))
        }),
        { numRuns: LONG ? 3_000 : 300 },
      )
    },
    600_000,
  )
})

/** Finds what trying places finds without a machine, with a pause after so many steps. */
function tryPlaces(detector: CompiledDetector, text: string, mostSteps?: number) {
  const found: string[] = []
  const search = new StartSearch(
    detector.program,
    detector.anchor as Anchor,
    (start, end) => found.push(`${start}-${end}`),
    mostSteps,
  )
  search.jumpTo(0)
  for (let isOver = false; !isOver; ) isOver = search.run(text, 0, true)
  return { found, offset: search.offset, needsMachine: search.needsMachine }
}

test('a search that pauses anywhere finds the same', () => {
  const all = [...detectors.values()].flat().filter(({ anchor }) => anchor)
  fc.assert(
    fc.property(texts, fc.integer({ min: 1, max: 40 }), fc.nat(), (text, mostSteps, which) => {
      const detector = all[which % all.length] as CompiledDetector
      expect(tryPlaces(detector, text, mostSteps)).toEqual(tryPlaces(detector, text))
    }),
    { numRuns: RUNS * 4 },
  )
}, 600_000)

test('many tries that find nothing are left to a machine, and it finds the same', () => {
  const [email] = detectors.get('email') ?? []
  const text = `${'a'.repeat(20_000)}@ bob@example.com `.repeat(3)
  const { needsMachine } = tryPlaces(email as CompiledDetector, text)
  expect(needsMachine).toBe(true)
  const found = findSpans(email as CompiledDetector, text, email?.anchor)
  expect(found).toEqual(findSpans(email as CompiledDetector, text))
  expect(found).toHaveLength(3)
})

test('every form of a secret is found', async () => {
  const secrets = await openSet('secrets')
  for (const form of Object.values(SECRET_FORMS))
    fc.assert(
      fc.property(fc.stringMatching(new RegExp(`^(?:${form})$`)), secret => {
        expect(secrets.find(` ${secret} `)).not.toEqual([])
      }),
      { numRuns: 20 },
    )
})

test('windows of a text change nothing of what is found', () => {
  const all = [...detectors.values()].flat()
  fc.assert(
    fc.property(texts, fc.array(fc.nat(), { maxLength: 6 }), fc.nat(), (text, places, which) => {
      const detector = all[which % all.length] as CompiledDetector
      for (const anchor of [detector.anchor, undefined])
        expect(searchWindows(detector, text, places, anchor)).toEqual(
          searchWindows(detector, text, [], anchor),
        )
    }),
    { numRuns: RUNS * 5 },
  )
}, 600_000)

function searchWindows(
  detector: CompiledDetector,
  text: string,
  places: number[],
  anchor: Anchor | undefined,
): string[] {
  const found: string[] = []
  const search = new TextSearch(
    detector.program,
    (start, end) => found.push(...nameSpans(detector, text, start, end)),
    anchor,
  )
  const ends = [...places.map(place => place % (text.length + 1)), text.length]
  for (const end of ends.toSorted((a, b) => a - b)) {
    const base = Math.max(0, search.position - 1)
    runAtOnce(search.read(text.slice(base, end), base, end === text.length))
  }
  return found
}
