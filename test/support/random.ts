const PRIME = 2_147_483_647

/** Numbers from 0 up to 1 that look drawn and are the same each time, by the generator of Lehmer with the multiplier of Park and Miller. */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % PRIME
    return (state - 1) / (PRIME - 1)
  }
}
