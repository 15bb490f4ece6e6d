import { collectNow } from './collect.ts'
import { readThreadCpu } from './cpu.ts'

/** What some work did to everyone else. */
export interface LoopUse<Result> {
  result: Result
  /** The longest time for which no other callback ran, in milliseconds. */
  longest: number
  /** How far the memory of the process rose above what it was before, in bytes. */
  memory: number
}

/**
 * Runs work and measures, from within the process, how long a ticking timer had to wait for it. A
 * wait counts only as far as this thread worked: on a busy machine others make it wait too, and
 * compilers and collectors of the same process, which has run other tests before, work beside it.
 */
export async function measureLoopUse<Result>(
  work: () => Promise<Result>,
): Promise<LoopUse<Result>> {
  collectGarbage()
  return watchLoop(work)
}

/** As `measureLoopUse`, but what others have left is not collected before: it may be meanwhile. */
export async function watchLoop<Result>(work: () => Promise<Result>): Promise<LoopUse<Result>> {
  const idle = process.memoryUsage.rss()
  let [longest, peak] = [0, idle]
  let last = readThreadCpu()
  const tick = () => {
    longest = Math.max(longest, readThreadCpu() - last)
    peak = Math.max(peak, process.memoryUsage.rss())
    last = readThreadCpu()
  }
  const timer = setInterval(tick, 1)
  try {
    const result = await work()
    // The work may end in the middle of a turn.
    await new Promise(resolve => setImmediate(resolve))
    tick()
    return { result, longest, memory: peak - idle }
  } finally {
    clearInterval(timer)
  }
}

/** How often work is done at most, to tell its own waits from what others cause. */
const MOST_RUNS = 12

/**
 * Does work again while others had to wait for it as long as this, in milliseconds, and returns its
 * best run: the process collects garbage of all its tests in the middle of one, but what the work
 * itself needs shows in each. Only before it is done again is that garbage collected, which takes
 * as long as most works do.
 */
export async function measureBestLoopUse<Result>(
  most: number,
  work: () => Promise<Result>,
): Promise<LoopUse<Result>> {
  let best = await watchLoop(work)
  for (let run = 1; run < MOST_RUNS && best.longest >= most; run++) {
    const next = await measureLoopUse(work)
    if (next.longest < best.longest) best = next
  }
  return best
}

/** Garbage that may be left: it is collected within a case, and takes no time worth measuring. */
const MOST_GARBAGE = 16 * 1024 * 1024

let collected = 0

/** Collects what was left by others, whose collection would count as a case's own time. */
function collectGarbage(): void {
  if (process.memoryUsage().heapUsed - collected < MOST_GARBAGE) return
  collectNow()
  collected = process.memoryUsage().heapUsed
}
