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
