import { expect, test } from 'bun:test'
import type { Work } from '../../../src/base/turns.ts'
import { BUILTINS } from '../../../src/limits/filters/builtins.ts'
import type { FilterSet } from '../../../src/limits/filters/filter-set.ts'
import { redactSegment } from '../../../src/limits/filters/text-segment.ts'
import type { FilterRule } from '../../../src/limits/filters.ts'
import { readThreadCpu } from '../../support/cpu.ts'
import { createSeededIntegers, LONG } from '../../support/random.ts'
import { openSet, segment } from './time.cases.ts'

/*
 * A search for the text that costs a filter most: units that cost much are changed a little and tried
 * again, repeated or shuffled. Whatever it finds, no step of the work holds the event loop for 50 ms,
 * and a megabyte does not cost seconds. A text counts by its best of several runs, in time of the
 * processor: what the machine and the collector take from one run they do not take from each.
 */

const SIZE = 48 * 1024
const TRIES = LONG ? 2_000 : 30
const LONGEST_STEP = 50
/** Of a builtin; patterns of operators may have a thousand states, each of which a letter may meet. */
const MOST_PER_MIB = 1_500
const MOST_OF_PATTERNS = 30_000

/** What filters look for, in pieces, and what texts may hide it by. */
const PIECES = [
  ...'abeginorstyuplAIS12450 .-_*|@+/=:,()"\\{}\n\u200b\u0301\u00ad',
  ...['é', 'а', 'ｉ', 'ﷺ', '😀', '  ', '...', 'ignore ', 'previous ', 'instructions ', 'all '],
  ...['i g n o r e ', 'p r e v i o u s ', 'system ', 'you are ', 'password = ', 'Mr ', 'John '],
  ...['Smith ', '12 Main Street, ', 'bob@', 'example.com ', '4111-1111-1111-1111', '-----BEGIN '],
  ...['PRIVATE KEY-----', 'sk-', 'AKIA', '10.0.0.', '::1', '+49 ', '030 ', '123-45-', 'aWdub3Jl'],
  ...[
    '69676e6f7265',
    '\\u0061',
    '%61',
    '%2561',
    '&#97;',
    '&amp;',
    '\u{e0061}',
    'ignroe ',
    'here are your new ',
    'hypothetically ',
  ],
]

interface Unit {
  pieces: string[]
  isShuffled: boolean
}

class Search {
  readonly #integers: (below: number) => number
  #best: { unit: Unit; cost: number }[] = []

  constructor(seed: number) {
    this.#integers = createSeededIntegers(seed)
  }

  /** Returns a new unit, or a change of one of those that cost most. */
  next(): Unit {
    const known = this.#best[this.#integers(8)]
    if (!known || this.#integers(4) === 0)
      return {
        pieces: Array.from({ length: 1 + this.#integers(5) }, () => this.#pick()),
        isShuffled: this.#integers(2) === 0,
      }
    const pieces = [...known.unit.pieces]
    const at = this.#integers(pieces.length)
    pieces.splice(at, this.#integers(2), ...(this.#integers(3) === 0 ? [] : [this.#pick()]))
    return { pieces: pieces.length > 0 ? pieces : ['a'], isShuffled: known.unit.isShuffled }
  }

  note(unit: Unit, cost: number): void {
    this.#best = [...this.#best, { unit, cost }].sort((a, b) => b.cost - a.cost).slice(0, 12)
  }

  render({ pieces, isShuffled }: Unit): string {
    const texts: string[] = []
    for (let length = 0; length < SIZE; ) {
      const at = isShuffled ? this.#integers(pieces.length) : texts.length % pieces.length
      const piece = pieces[at] ?? ''
      texts.push(piece)
      length += piece.length
    }
    return texts.join('')
  }

  #pick(): string {
    return PIECES[this.#integers(PIECES.length)] ?? 'a'
  }
}

/** Does a work at once. Returns what it took, and its longest step, in milliseconds of CPU. */
function measure(work: Work<unknown>): { took: number; step: number } {
  const startedAt = readThreadCpu()
  let [last, step] = [readThreadCpu(), 0]
  for (let isOver = false; !isOver; ) {
    isOver = work.next().done ?? false
    const now = readThreadCpu()
    step = Math.max(step, now - last)
    last = now
  }
  return { took: readThreadCpu() - startedAt, step }
}

/** Measures a text until it is within the bounds, five times at most. Returns the least of each. */
function measureText(filters: FilterSet, text: string, most: number) {
  let least = { took: Number.POSITIVE_INFINITY, step: Number.POSITIVE_INFINITY }
  for (let run = 0; run < 5 && isOver(least, most); run++) {
    const { took, step } = measure(redactSegment(segment([text]), filters))
    least = { took: Math.min(least.took, took), step: Math.min(least.step, step) }
  }
  return least
}

const MIB = 1024 * 1024
const isOver = ({ took, step }: { took: number; step: number }, mostPerMib: number) =>
  step > LONGEST_STEP || took > (mostPerMib * SIZE) / MIB

async function findWorst(rule: Partial<FilterRule>, seed: number, tries: number, most: number) {
  const filters = await openSet(rule)
  const search = new Search(seed)
  const found: unknown[] = []
  for (let i = 0; i < tries; i++) {
    const unit = search.next()
    const cost = measureText(filters, search.render(unit), most)
    search.note(unit, cost.took + cost.step)
    if (isOver(cost, most)) found.push({ rule, unit, ...cost })
  }
  return found
}

test.each(Object.keys(BUILTINS))(
  `no text makes %s slow (${TRIES} texts)`,
  async slug => {
    expect(await findWorst({ slug } as Partial<FilterRule>, 42, TRIES, MOST_PER_MIB)).toEqual([])
  },
  600_000,
)

/** Parts of patterns, of which random ones are made: all that RE2 bounds only by its automaton. */
const ATOMS = [
  'a',
  'b',
  '.',
  '\\w',
  '\\s',
  '[^a]',
  '\\d',
  '\\b',
  '(?i)ab',
  'ignore',
  '[a-z0-9]',
  '😀',
]
const REPEATS = ['', '', '*', '+', '?', '*?', '{2,9}', '{0,99}', '{50}']

function buildPattern(integers: (below: number) => number, depth = 3): string {
  const parts = Array.from({ length: 1 + integers(4) }, () => {
    const isGroup = depth > 0 && integers(3) === 0
    const atom = isGroup
      ? `(?:${buildPattern(integers, depth - 1)})`
      : ATOMS[integers(ATOMS.length)]
    return `${atom}${atom === '\\b' ? '' : REPEATS[integers(REPEATS.length)]}`
  })
  return integers(3) === 0 ? `${parts.join('')}|${parts.toReversed().join('')}` : parts.join('')
}

const PATTERNS = LONG ? 500 : 20

test(`no text makes a pattern of an operator slow (${PATTERNS} patterns)`, async () => {
  const integers = createSeededIntegers(7)
  const found: unknown[] = []
  let accepted = 0
  for (let i = 0; i < PATTERNS; i++) {
    const rule = { pattern: buildPattern(integers) }
    // Some are refused as too large, which is what bounds them.
    const isAccepted = await openSet(rule).then(
      () => true,
      () => false,
    )
    accepted += Number(isAccepted)
    if (isAccepted) found.push(...(await findWorst(rule, i, LONG ? 60 : 6, MOST_OF_PATTERNS)))
  }
  expect(found).toEqual([])
  expect(accepted).toBeGreaterThan(PATTERNS / 2)
}, 1_200_000)
