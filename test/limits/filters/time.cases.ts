import { runAtOnce } from '../../../src/base/turns.ts'
import type { TextSegment } from '../../../src/language/text-segment.ts'
import { BUILTINS, type BuiltinSlug } from '../../../src/limits/filters/builtins.ts'
import type { FilterSet } from '../../../src/limits/filters/filter-set.ts'
import { redactSegment } from '../../../src/limits/filters/text-segment.ts'
import { type FilterRule, openFilters } from '../../../src/limits/filters.ts'
import { createSeededIntegers, LONG, takeTurns } from '../../support/random.ts'
import { countLargestStep, countWork } from '../../support/work-count.ts'

/*
 * The texts of `time.test.ts`, and the counts of work on them. Work is counted by methods of every
 * text and list, and where lists have once had another `next`, the platform iterates all of them
 * slowly for as long as it runs. So the counts are made in a Worker, which ends with them.
 */

export async function openSet(rule: Partial<FilterRule>) {
  const filters = await openFilters([
    { guardrail_id: 'g', scope: 'key', action: 'redact', ...rule } as FilterRule,
  ])
  const filterSet = filters.getInputFilters('user')
  if (!filterSet) throw new Error('No filters')
  return filterSet
}

export const segment = (pieces: string[], isJson = false): TextSegment => ({
  role: 'user',
  pieces,
  isJson,
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
export const CARRIERS: Record<string, (unit: string, size: number) => TextSegment> = {
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

export interface Case {
  rule: Partial<FilterRule>
  unit: string
  carrier: string
}

export const CASES: Case[] = RULES.flatMap(rule =>
  UNITS.flatMap(unit => Object.keys(CARRIERS).map(carrier => ({ rule, unit, carrier }))),
)

/** Draws texts of several units. */
const draw = createSeededIntegers(5)
const pick = <T>(items: T[]): T => items[draw(items.length)] as T
const MIXED: Case[] = Array.from({ length: LONG ? 10_000 - CASES.length : 30 }, () => ({
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

/** Of cases in all four carriers, those of the normal run: a quarter in one, by turns. */
const inSomeCarrier = <T>(cases: T[]): T[] => takeTurns(cases, Object.keys(CARRIERS).length, 16)

/** Every case in the long run; in the normal one every rule with a quarter of the units, in some carrier. */
const COUNTED = [...inSomeCarrier(CASES), ...MIXED]

/** Finds the cases whose work grows by more than the length of their text. */
async function findGrowing(): Promise<unknown[]> {
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
  return failures
}

/** A step may handle so many items of any text; more of a longer one means that it has no bound. */
const MOST_ITEMS = 3_600
const STEP_SIZE = 18_000
/** Each takes so long that the long run makes every fourth, and the normal one every sixth. */
export const STEPPED = COUNTED.filter((_, i) => i % (LONG ? 4 : 6) === 0)
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

/** Finds the cases with a step that grows with the text. */
async function findLargeSteps(): Promise<unknown[]> {
  const failures: unknown[] = []
  for (const rule of RULES) {
    const filterSet = await openSet(rule)
    for (const each of STEPPED.filter(({ rule: ofCase }) => ofCase === rule)) {
      const largest = findLargeStep(each, filterSet)
      if (largest !== null) failures.push({ ...each, largest })
    }
    await new Promise(resolve => setImmediate(resolve))
  }
  return failures
}

/** Finds the large step of a work that has none, and of one whose last step handles all matches. */
async function findPlanted(): Promise<(number | null)[]> {
  const rule = { pattern: '\\d' }
  const filterSet = await openSet(rule)
  const planted: CreateWork = function* (segment, filterSet) {
    const result = yield* redactSegment(segment, filterSet)
    const lengths = result.matches.map(({ start, end }) => end - start)
    return lengths.every(length => length > 0) ? result : { ...result, matches: [] }
  }
  const each = { rule, unit: '1 ', carrier: 'whole' }
  return [findLargeStep(each, filterSet), findLargeStep(each, filterSet, planted)]
}

/** Finds the cases with a step that reads all of a text. */
async function findWholeReads(): Promise<unknown[]> {
  const failures: unknown[] = []
  const rule = { pattern: '\\d' }
  const filterSet = await openSet(rule)
  const cases = UNITS.flatMap(unit => Object.keys(CARRIERS).map(carrier => ({ unit, carrier })))
  for (const { unit, carrier } of inSomeCarrier(cases)) {
    const largest = countStep({ rule, unit, carrier }, filterSet, UNITS_SIZE, true)
    if (largest > MOST_UNITS) failures.push({ unit, carrier, largest })
  }
  return failures
}

const COUNTS = { findGrowing, findLargeSteps, findPlanted, findWholeReads }
export type Count = keyof typeof COUNTS

// The test imports the texts; as a Worker this counts what it is asked for.
if (!Bun.isMainThread)
  self.onmessage = async ({ data }: MessageEvent<Count>) => postMessage(await COUNTS[data]())
