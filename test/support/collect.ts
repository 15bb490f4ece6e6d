const collect = Bun.gc

/** In bytes: how far memory grows before it is collected. */
const GROWTH = 256 * 1024 ** 2

let least = 0

/** Collects all garbage at once, which takes half a second where a process has run many tests. */
export function collectNow(): void {
  collect(true)
  least = process.memoryUsage.rss()
}

/** Collects all garbage at once if it may be much. */
export function collectGrowth(): void {
  const resident = process.memoryUsage.rss()
  least = Math.min(least || resident, resident)
  if (resident - least >= GROWTH) collectNow()
}
