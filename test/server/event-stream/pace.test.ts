import { expect, test } from 'bun:test'
import { ReaderPace } from '../../../src/server/event-stream/pace.ts'

const LIMITS = { milliseconds: 60_000, bytes: 60_000 }

/** Hands over a piece at each time, takes it after `delay`, and tells when that was too slow. */
function findCut(bytes: number, every: number, delay: number): number | null {
  const pace = new ReaderPace(LIMITS, 0)
  for (let now = 0; now < 600_000; now += every) {
    pace.hand(bytes, now)
    if (delay < every && pace.take(now + delay)) return now + delay
    if (pace.isTooSlow(now + every - 1)) return now + every - 1
    if (pace.take(now + every)) return now + every
  }
  return null
}

test.each<[name: string, bytes: number, every: number, delay: number, isCut: boolean]>([
  ['a byte a second that is waited for', 1, 1_000, 1_000, true],
  ['nothing at all', 0, 10_000, 10_000, true],
  ['just below the rate', 9_990, 10_000, 10_000, true],
  ['just the rate', 10_100, 10_000, 10_000, false],
  ['a byte a second of a provider that gives no more', 1, 1_000, 1, false],
  ['a byte now and then that is taken at once', 1, 30_000, 10, false],
])('%s', (_, bytes, every, delay, isCut) => {
  const cut = findCut(bytes, every, delay)
  expect(cut !== null).toBe(isCut)
  if (cut !== null) expect(cut).toBeLessThan(3 * LIMITS.milliseconds)
})

test('a slow window is forgiven by no later one, and a fast one counts for itself only', () => {
  const pace = new ReaderPace(LIMITS, 0)
  pace.hand(1_000_000, 0)
  expect(pace.isTooSlow(59_999)).toBe(false)
  expect(pace.isTooSlow(60_000)).toBe(false)
  expect(pace.isTooSlow(119_999)).toBe(false)
  expect(pace.isTooSlow(120_000)).toBe(true)
})
