import { randomInt } from 'node:crypto'

const PRIME = 2_147_483_647
const { GATEWAY_TEST_LONG, GATEWAY_TEST_SEED } = process.env

/** Whether many more cases are wanted than one change needs: `bun run test:long`. */
export const LONG = Boolean(GATEWAY_TEST_LONG)

/**
 * The seed of all random cases, from 1 to `PRIME` - 1. It is always the same, so that no change is
 * refused for a case that another one brought to light; the long run draws one, and
 * `GATEWAY_TEST_SEED` repeats it.
 */
export const SEED = Number(GATEWAY_TEST_SEED ?? (LONG ? randomInt(1, PRIME) : 20_261_122))

/**
 * Takes of a table's cases, whose rows have this width, those of the normal run: one of so many, by
 * turns, so that every row and every column is among them. The long run has all.
 */
export const takeTurns = <T>(cases: T[], width: number, one: number): T[] =>
  LONG ? cases : cases.filter((_, i) => (Math.floor(i / width) + (i % width)) % one === 0)

/**
 * Creates a reproducible source of numbers in [0, 1): Lehmer's generator with Park and Miller's
 * multiplier.
 */
export function createSeededRandom(seed: number): () => number {
  let state = seed % PRIME || 1
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
