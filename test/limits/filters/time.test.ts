import { afterAll, describe, expect, test } from 'bun:test'
import { runInTurns } from '../../../src/base/turns.ts'
import { redactSegment } from '../../../src/limits/filters/text-segment.ts'
import { readThreadCpu } from '../../support/cpu.ts'
import { LONG } from '../../support/random.ts'
import { CARRIERS, CASES, type Count, openSet, STEPPED, segment } from './time.cases.ts'

/*
 * Work on callers' text is linear in its length, and gives others their turn. Times are of the
 * thread, so that other load on the machine does not count.
 */

/** Returns how long a work took, and how long others waited at most, in milliseconds of CPU. */
async function measure(work: () => Promise<unknown>) {
  let [last, longest, isOver] = [readThreadCpu(), 0, false]
  const tick = () => {
    const now = readThreadCpu()
    longest = Math.max(longest, now - last)
    last = now
    if (!isOver) setImmediate(tick)
  }
  setImmediate(tick)
  const startedAt = readThreadCpu()
  await work()
  isOver = true
  return { took: readThreadCpu() - startedAt, waited: Math.max(longest, readThreadCpu() - last) }
}

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

const worker = new Worker(new URL('./time.cases.ts', import.meta.url))
afterAll(() => worker.terminate())

/** Has a count made, and returns what it finds. */
function askForCount(count: Count): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  worker.onmessage = ({ data }) => resolve(data)
  worker.onerror = ({ message }) => reject(new Error(message))
  worker.postMessage(count)
  return promise
}

test('work on a text twice as long is about twice the work', async () => {
  expect(await askForCount('findGrowing')).toEqual([])
}, 1_200_000)

test(`no step handles all matches of a text (${STEPPED.length} cases)`, async () => {
  expect(await askForCount('findLargeSteps')).toEqual([])
}, 3_600_000)

test('a planted bug is found: the last step handles all matches', async () => {
  expect(await askForCount('findPlanted')).toEqual([null, expect.any(Number)])
}, 600_000)

test('no step reads all of a text', async () => {
  expect(await askForCount('findWholeReads')).toEqual([])
}, 1_200_000)

const SMALL = 12_000
const FACTOR = 8

/**
 * Every case in the long run; in the normal one every 844th, beginning with the seed: growth is counted
 * above, of every rule with a quarter of the units.
 */
const listCases = (seed: number) => (LONG ? CASES : CASES.filter((_, i) => i % 844 === seed))

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
