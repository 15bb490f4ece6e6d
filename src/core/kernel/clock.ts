/** Where time comes from. `now` is the calendar, `ticks` a steady count of milliseconds for durations. */
export interface Clock {
  now(): Date
  ticks(): number
}

/** Resolves when all that this turn of the event loop has brought has been seen. */
export const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

export const systemClock: Clock = { now: () => new Date(), ticks: () => performance.now() }

/** Returns the time as records have it: ISO 8601 in UTC. */
export const isoNow = ({ clock }: { clock: Clock }): string => clock.now().toISOString()

/** The windows in which spending is counted. They begin at midnight UTC; weeks run Monday through Sunday. Nothing is reset: they are read off the clock. */

export const PERIODS = ['daily', 'weekly', 'monthly'] as const
export type Period = (typeof PERIODS)[number]

const DAY = 86_400_000

/** The day of a moment, counted from 1970-01-01 UTC. */
export const dayOf = (moment: Date): number => Math.floor(moment.getTime() / DAY)

/** When the day of a moment began, in UTC. */
export const midnight = (moment: Date): Date => new Date(dayOf(moment) * DAY)

/** The first day of the window that the moment lies in. */
export function firstDayOf(period: Period, moment: Date): number {
  const today = dayOf(moment)
  if (period === 'daily') return today
  if (period === 'monthly') return today - (moment.getUTCDate() - 1)
  return today - ((moment.getUTCDay() + 6) % 7)
}
