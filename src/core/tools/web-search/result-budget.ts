import type { Run } from '../../inference/run.ts'

/** Results that a search may still bring. */
export interface TakenResults {
  count: number
  /** Gives back those that it did not bring. */
  giveBack(count: number): void
}

// How many results each call has taken. Searches of one call may run in parallel.
const counts = new WeakMap<Run, number>()

/** Takes up to `most` of the `total` results that one call may have. */
export function takeResults(run: Run, total: number, most: number): TakenResults {
  const taken = counts.get(run) ?? 0
  const count = Math.max(0, Math.min(most, total - taken))
  counts.set(run, taken + count)
  return {
    count,
    giveBack(unused) {
      counts.set(run, (counts.get(run) ?? 0) - unused)
    },
  }
}
