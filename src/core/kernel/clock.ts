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
