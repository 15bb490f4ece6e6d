import type { Period } from '../../base/clock.ts'
import { invalid } from '../../base/errors.ts'

/** The windows of budgets, broadest first. */
export const INTERVALS = ['lifetime', 'monthly', 'weekly', 'daily'] as const
export type Interval = (typeof INTERVALS)[number]

/** Parses the interval in a path. Throws 400. */
export function parseInterval(text: string): Interval {
  const interval = INTERVALS.find(candidate => candidate === text)
  if (!interval) throw invalid(`interval: expected one of ${INTERVALS.join(', ')}`, 'interval')
  return interval
}

/** Returns the period after which an interval starts again; null where it never does. */
export const toPeriod = (interval: Interval): Period | null =>
  interval === 'lifetime' ? null : interval
