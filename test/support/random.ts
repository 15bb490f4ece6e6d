const PRIME = 2_147_483_647

/**
 * Creates a reproducible source of numbers in [0, 1): Lehmer's generator with Park and Miller's
 * multiplier.
 */
export function createSeededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % PRIME
    return (state - 1) / (PRIME - 1)
  }
}

/** Creates a reproducible source of whole numbers from 0 up to a bound, without it. */
export function createSeededIntegers(seed: number): (below: number) => number {
  const random = createSeededRandom(seed)
  return below => Math.floor(random() * below)
}
