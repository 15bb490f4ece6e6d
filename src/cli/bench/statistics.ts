/** A figure of several rounds: its median, minimum, maximum and quartiles. */
export type Spread = { median: number; least: number; most: number; q1: number; q3: number }

/** Computes the spread of one figure. No rounds give NaN. */
export function computeSpread(values: number[]): Spread {
  const sorted = Float64Array.from(values).sort()
  return {
    median: computeMedian(sorted),
    least: sorted[0] ?? Number.NaN,
    most: sorted.at(-1) ?? Number.NaN,
    q1: interpolate(sorted, 0.25),
    q3: interpolate(sorted, 0.75),
  }
}

/** Returns the value at a share (0 to 1) of sorted values, between two where it falls there. */
function interpolate(sorted: Float64Array, share: number): number {
  const at = (sorted.length - 1) * share
  const [lower = Number.NaN, upper = lower] = sorted.subarray(Math.floor(at), Math.floor(at) + 2)
  return lower + (upper - lower) * (at - Math.floor(at))
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
