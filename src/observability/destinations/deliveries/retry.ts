/** How deliveries are paced. Times in milliseconds. */
export interface DeliveryPace {
  /** How long a call waits for others that go with it. */
  linger: number
  /** The first pause after a failure, and the longest. Each is twice the one before. */
  firstPause: number
  longestPause: number
  /** The longest time for one request. */
  timeout: number
}

export const DELIVERY_PACE: DeliveryPace = {
  linger: 250,
  firstPause: 1_000,
  longestPause: 600_000,
  timeout: 10_000,
}

/** No destination may ask for a longer pause. */
const LONGEST_ASKED = 3_600_000

/** After this time a message that fails again is given up, in milliseconds. */
export const LONGEST_RETRY = 86_400_000

/**
 * Computes the pause after so many failures in a row: doubled each time, and drawn between half of
 * that and all of it, so that destinations do not ask at once. A `Retry-After` in seconds or as a
 * date lengthens it, up to an hour.
 */
export function computePause(
  { firstPause, longestPause }: DeliveryPace,
  failures: number,
  retryAfter: string | null,
  { now, random }: { now: number; random: number },
): number {
  const doubled = Math.min(longestPause, firstPause * 2 ** Math.min(failures - 1, 30))
  const own = doubled * (0.5 + random / 2)
  return Math.max(own, Math.min(LONGEST_ASKED, readRetryAfter(retryAfter, now)))
}

function readRetryAfter(header: string | null, now: number): number {
  if (header === null) return 0
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000
  // JavaScript reads `-5` as a date, too.
  const date = /^[A-Za-z]{3}/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(date) ? 0 : Math.max(0, date - now)
}
