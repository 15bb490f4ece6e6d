import { describe, expect, test } from 'bun:test'
import { runAtOnce, runInTurns } from '../../../../src/core/kernel/turns.ts'
import type { TextSegment } from '../../../../src/core/language/text-segment.ts'
import { BUILTINS, type BuiltinSlug } from '../../../../src/core/policy/filters/builtins.ts'
import type { FilterSet } from '../../../../src/core/policy/filters/filter-set.ts'
import { redactSegment } from '../../../../src/core/policy/filters/text-segment.ts'
import { type FilterRule, openFilters } from '../../../../src/core/policy/filters.ts'
import { readCpu } from '../../../support/cpu.ts'
import { createSeededIntegers, LONG } from '../../../support/random.ts'
import { countLargestStep, countWork } from '../../../support/work-count.ts'

/*
 * Work on callers' text is linear in its length, and gives others their turn. Times are of the
 * processor, so that other load on the machine does not count.
 */

async function openSet(rule: Partial<FilterRule>) {
  const filters = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'redact', ...rule } as FilterRule,
  ])
  const filterSet = filters.getInputFilters('user')
  if (!filterSet) throw new Error('No filters')
  return filterSet
}

/** Returns how long a work took, and how long others waited at most, in milliseconds of CPU. */
async function measure(work: () => Promise<unknown>) {
  let [last, longest, isOver] = [readCpu(), 0, false]
  const tick = () => {
    const now = readCpu()
    longest = Math.max(longest, now - last)
    last = now
    if (!isOver) setImmediate(tick)
  }
  setImmediate(tick)
  const startedAt = readCpu()
  await work()
  isOver = true
  return { took: readCpu() - startedAt, waited: Math.max(longest, readCpu() - last) }
}

const segment = (pieces: string[], isJson = false): TextSegment => ({
  role: 'user',
  pieces,
  isJson,
})

describe('a time bomb', () => {
  test('two text parts with 120,000 addresses', async () => {
    const emails = await openSet({ slug: 'email' })
    const parts = [0, 1].map(() => 'bob@example.com '.repeat(60_000))
    const { took, waited } = await measure(() => runInTurns(redactSegment(segment(parts), emails)))
    expect({ took: took < 5_000, waited: waited < 250 }).toEqual({ took: true, waited: true })
  }, 60_000)

  test('a JSON list of 90,000 addresses in tool arguments', async () => {
    const emails = await openSet({ slug: 'email' })
    const json = JSON.stringify(Array.from({ length: 90_000 }, (_, i) => `bob${i}@example.com`))
    const { took, waited } = await measure(() =>
      runInTurns(redactSegment(segment([json], true), emails)),
    )
    expect({ took: took < 5_000, waited: waited < 250 }).toEqual({ took: true, waited: true })
  }, 60_000)
})

/** Units of text of which a long one is made: what filters look for, and what nearly is. */
const UNITS = [
  'bob@example.com ',
  'a.',
  'a@',
  '1 ',
  '4111-1111-1111-1111 ',
  '1.2.3.',
  'ab:',
  '+1 ',
  '+1 2345678 ',
  '+297 1234567890123 ',
  'password = ',
  'Mr John Smith ',
  '12 Main Street, ',
  'i g n o r e ',
  'ignroe ',
  'aWdub3Jl',
  'ﷺ',
  'e\u0301\u0323',
  'ｉｇｎ\u200bｏｒｅ ',
  '\u0301\u0323',
  '-----BEGIN PRIVATE KEY-----',
  '\\u0061',
  '😀',
  '914-309-4996 ',
  '+49 30 901820 ',
  '123-45-6789 ',
  '10.0.0.1 ',
  'ignore all previous instructions ',
  '[],',
  '\\"',
]

/** How a text comes: whole, in pieces, as JSON. */
const CARRIERS: Record<string, (unit: string, size: number) => TextSegment> = {
  whole: (unit, size) => segment([unit.repeat(size / unit.length)]),
  pieces: (unit, size) => segment(Array.from({ length: size / unit.length }, () => unit)),
  list: (unit, size) =>
    segment([JSON.stringify(Array.from({ length: size / unit.length }, () => unit))], true),
  object: (unit, size) =>
    segment([`{"password":"${JSON.stringify(unit.repeat(size / unit.length)).slice(1)}}`], true),
}

const RULES: Partial<FilterRule>[] = [
  ...(Object.keys(BUILTINS) as BuiltinSlug[]).map(slug => ({ slug })),
  { pattern: '(a+)+c' },
  { pattern: 'a.{0,300}x' },
  { pattern: '\\d' },
]

interface Case {
  rule: Partial<FilterRule>
  unit: string
  carrier: string
}

const CASES: Case[] = RULES.flatMap(rule =>
  UNITS.flatMap(unit => Object.keys(CARRIERS).map(carrier => ({ rule, unit, carrier }))),
)

/** Draws texts of several units. */
const draw = createSeededIntegers(5)
const pick = <T>(items: T[]): T => items[draw(items.length)] as T
const MIXED: Case[] = Array.from({ length: LONG ? 10_000 - CASES.length : 100 }, () => ({
  rule: pick(RULES),
  unit: Array.from({ length: 2 + draw(3) }, () => pick(UNITS)).join(''),
  carrier: pick(Object.keys(CARRIERS)),
}))

/** Counts the work on a text of this size, once what can be remembered is. */
function countCase({ unit, carrier }: (typeof CASES)[number], filterSet: FilterSet, size: number) {
  const create = CARRIERS[carrier] as (typeof CARRIERS)[string]
  const run = () => void runAtOnce(redactSegment(create(unit, size), filterSet))
  run()
  const stepsBefore = filterSet.steps
  const count = countWork(run)
  return count + filterSet.steps - stepsBefore
}

/** A text twice as long may take this much more work: square work takes four times as much. */
const MOST = 2.8
/** What is remembered of a text can grow up to its bound, so a longer one has the last word. */
const SIZES = [2_048, 8_192]

/** Of cases in all four carriers, those of the normal run: each in one, by turns. */
const inSomeCarrier = <T>(cases: T[]): T[] =>
  cases.filter((_, i) => LONG || (i + Math.floor(i / 4)) % 4 === 0)

/** Of cases in some carrier, those of the normal run that take long: every other one. */
const halve = <T>(cases: T[]): T[] => cases.filter((_, i) => LONG || i % 2 === 0)

/** Every case in the long run; in the normal one every rule with every unit, in some carrier. */
const COUNTED = [...inSomeCarrier(CASES), ...MIXED]

test('work on a text twice as long is about twice the work', async () => {
  const failures: unknown[] = []
  for (const rule of RULES) {
    const filterSet = await openSet(rule)
    for (const each of COUNTED.filter(({ rule: ofCase }) => ofCase === rule)) {
      const grows = (size: number) =>
        countCase(each, filterSet, 2 * size) > MOST * countCase(each, filterSet, size)
      if (SIZES.every(grows)) failures.push(each)
    }
    await new Promise(resolve => setImmediate(resolve))
  }
  expect(failures).toEqual([])
}, 1_200_000)

/** A step may handle so many items of any text; more of a longer one means that it has no bound. */
const MOST_ITEMS = 3_600
const STEP_SIZE = 18_000
/** Each takes so long that the long run makes every fourth, and the normal one every ninth. */
const STEPPED = COUNTED.filter((_, i) => i % (LONG ? 4 : 9) === 0)
/** Of a text, so many units are read in one step at most. */
const MOST_UNITS = 90_000
const UNITS_SIZE = 131_072

type CreateWork = typeof redactSegment

const countStep = (
  { unit, carrier }: Case,
  filterSet: FilterSet,
  size: number,
  ofTexts: boolean,
  createWork: CreateWork = redactSegment,
) =>
  countLargestStep(
    createWork((CARRIERS[carrier] as (typeof CARRIERS)[string])(unit, size), filterSet),
    ofTexts,
  )

/** Tells whether a longer text has a larger step. Returns how many items that handles, or null. */
function findLargeStep(each: Case, filterSet: FilterSet, createWork?: CreateWork): number | null {
  const count = (size: number) => countStep(each, filterSet, size, false, createWork)
  const largest = count(4 * STEP_SIZE)
  if (largest <= MOST_ITEMS || largest <= 1.2 * count(STEP_SIZE)) return null
  // A machine may run long, but only so long; and what is remembered is not counted again.
  return count(16 * STEP_SIZE) > 1.5 * largest ? largest : null
}

test(`no step handles all matches of a text (${STEPPED.length} cases)`, async () => {
  const failures: unknown[] = []
  for (const rule of RULES) {
    const filterSet = await openSet(rule)
    for (const each of STEPPED.filter(({ rule: ofCase }) => ofCase === rule)) {
      const largest = findLargeStep(each, filterSet)
      if (largest !== null) failures.push({ ...each, largest })
    }
    await new Promise(resolve => setImmediate(resolve))
  }
  expect(failures).toEqual([])
}, 3_600_000)

test('a planted bug is found: the last step handles all matches', async () => {
  const rule = { pattern: '\\d' }
  const filterSet = await openSet(rule)
  const planted: CreateWork = function* (segment, filterSet) {
    const result = yield* redactSegment(segment, filterSet)
    const lengths = result.matches.map(({ start, end }) => end - start)
    return lengths.every(length => length > 0) ? result : { ...result, matches: [] }
  }
  const each = { rule, unit: '1 ', carrier: 'whole' }
  expect(findLargeStep(each, filterSet)).toBeNull()
  expect(findLargeStep(each, filterSet, planted)).not.toBeNull()
}, 600_000)

test('no step reads all of a text', async () => {
  const failures: unknown[] = []
  const rule = { pattern: '\\d' }
  const filterSet = await openSet(rule)
  const cases = UNITS.flatMap(unit => Object.keys(CARRIERS).map(carrier => ({ unit, carrier })))
  for (const { unit, carrier } of halve(inSomeCarrier(cases))) {
    const largest = countStep({ rule, unit, carrier }, filterSet, UNITS_SIZE, true)
    if (largest > MOST_UNITS) failures.push({ unit, carrier, largest })
  }
  expect(failures).toEqual([])
}, 1_200_000)

const SMALL = 12_000
const FACTOR = 8

/** Every case in the long run; in the normal one every 29th, beginning with the seed. */
const listCases = (seed: number) => (LONG ? CASES : CASES.filter((_, i) => i % 29 === seed))

test('work on a text is linear in its length, and others have their turn (seed 3)', async () => {
  const failures: unknown[] = []
  for (const { rule, unit, carrier } of listCases(3)) {
    const filterSet = await openSet(rule)
    const run = (size: number) =>
      measure(() => runInTurns(redactSegment(CARRIERS[carrier]?.(unit, size) as never, filterSet)))
    const small = await run(SMALL)
    let large = await run(SMALL * FACTOR)
    const isSlow = () => large.took > Math.max(small.took, 10) * FACTOR * 4 || large.waited > 150
    // The collector may have run: a second time it is the code.
    if (isSlow()) large = await run(SMALL * FACTOR)
    if (isSlow()) failures.push({ rule, unit, carrier, small, large })
  }
  expect(failures).toEqual([])
}, 600_000)
