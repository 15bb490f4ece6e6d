import { renderDay, toFirstDay, toWeek } from '../rollups.ts'

/** Days in a row that are summed together. Weeks begin on Monday. */
export type Period = 'day' | 'week' | 'month'

/** Returns the first day of the period that a day is in. */
export function findPeriodStart(period: Period, day: number): number {
  if (period === 'day') return day
  if (period === 'week') return toFirstDay(toWeek(day))
  return day - Number(renderDay(day).slice(8)) + 1
}
