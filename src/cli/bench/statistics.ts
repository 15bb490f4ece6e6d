/** A figure of several rounds: its median, minimum and maximum. */
export type Spread = { median: number; least: number; most: number }

/** Computes the spread of one figure. No rounds give NaN. */
export function computeSpread(values: number[]): Spread {
  const sorted = Float64Array.from(values).sort()
  return {
    median: computeMedian(sorted),
    least: sorted[0] ?? Number.NaN,
    most: sorted.at(-1) ?? Number.NaN,
  }
}

/** Computes the value that a share of the values (0 to 1) does not exceed. No values give NaN. */
export function computePercentile(values: number[], share: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Returns the values in random order. */
export function shuffle<T>(values: readonly T[]): T[] {
  return values
    .map(value => ({ value, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value)
}

function computeMedian(sorted: Float64Array): number {
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}
