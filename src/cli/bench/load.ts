import { Caller } from './caller.ts'
import { computePercentile } from './statistics.ts'
import { renderRequest, type Target } from './wire.ts'

/**
 * The limits of a closed loop. It ends at the number of calls or at the time, whichever comes
 * first.
 */
export type LoopLimit = { connections: number; calls: number; seconds: number }

/** The result of a loop. `errors` counts failed and missing answers and lost connections. */
export type LoopResult = {
  calls: number
  errors: number
  callsPerSecond: number
  p50Ms: number
  p99Ms: number
  slowestMs: number
}

/** In milliseconds: how long a missing answer may hold the benchmark up, after the time of the loop. */
export const PATIENCE_MS = 3_000
/** A loop with so many errors ends. */
export const MOST_ERRORS = 1_000

/** What the clients of one loop share: the waits of answered calls, in milliseconds. */
export interface Loop {
  waits: number[]
  errors: number
}

/**
 * Sends calls without streaming, one at a time on each connection, each as soon as the one before
 * is answered.
 */
export async function runClosedLoop(
  target: Target,
  limit: LoopLimit,
  request = renderRequest(target, false),
): Promise<LoopResult> {
  const began = performance.now()
  const loop = { waits: [], errors: 0 }
  const callers = Array.from({ length: limit.connections }, () => new Caller(target.url))
  const impatience = leaveLater(callers, limit.seconds)
  let started = 0
  const begin = () => {
    if (started >= limit.calls || loop.errors >= MOST_ERRORS) return false
    if (performance.now() - began >= limit.seconds * 1000) return false
    return ++started > 0
  }
  await Promise.all(callers.map(caller => keepCalling(caller, request, { loop, begin })))
  clearTimeout(impatience)
  for (const caller of callers) caller.leave()
  return summarize(loop, began)
}

/** Makes calls on one connection, as long as another may begin. */
function keepCalling(
  caller: Caller,
  request: Buffer,
  { loop, begin }: { loop: Loop; begin: () => boolean },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const call = () => {
    if (!begin()) return resolve()
    const sentAt = performance.now()
    caller.call(request, isGood => {
      note(loop, isGood, sentAt)
      call()
    })
  }
  call()
  return promise
}

/** Notes how long a call took, or that it failed. */
export function note(loop: Loop, isGood: boolean, since: number): void {
  if (isGood) loop.waits.push(performance.now() - since)
  else loop.errors++
}

// A missing answer must not block the benchmark.
const leaveLater = (callers: Caller[], seconds: number) =>
  setTimeout(
    () => {
      for (const caller of callers) caller.leave()
    },
    seconds * 1000 + PATIENCE_MS,
  )

/** Sums a loop up. */
export function summarize({ waits, errors }: Loop, began: number): LoopResult {
  return {
    calls: waits.length,
    errors,
    callsPerSecond: waits.length / ((performance.now() - began) / 1000),
    p50Ms: computePercentile(waits, 0.5),
    p99Ms: computePercentile(waits, 0.99),
    slowestMs: computePercentile(waits, 1),
  }
}
