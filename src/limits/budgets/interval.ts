import type { Period } from '../../base/clock.ts'

/** The windows of budgets, broadest first. */
export const INTERVALS = ['lifetime', 'monthly', 'weekly', 'daily'] as const
export type Interval = (typeof INTERVALS)[number]

/** Returns the period after which an interval starts again; null where it never does. */
export const toPeriod = (interval: Interval): Period | null =>
  interval === 'lifetime' ? null : interval
