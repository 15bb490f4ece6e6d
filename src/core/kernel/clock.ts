/** Where time comes from. `now` is the calendar, `ticks` a steady count of milliseconds for durations. */
export interface Clock {
  now(): Date
  ticks(): number
}

export const systemClock: Clock = { now: () => new Date(), ticks: () => performance.now() }
