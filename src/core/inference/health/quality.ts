import { type Count, Tally } from './tally.ts'

/** What one endpoint is called good for is of a day, in slices of an hour. */
const SPAN = 24 * 60 * 60_000
const SLICES = 24

/** Fewer answers than this say nothing. */
const LEAST = 20

/** Plans look at them far more often than they change: what is older than so many milliseconds is counted anew. */
const FRESH = 1_000

/** Between which shares the true one lies, as far as so many answers tell. */
export interface Bounds {
  lower: number
  upper: number
}

/** How many answers of an endpoint called tools as they were offered. */
export class Quality {
  readonly #answers = new Tally(SPAN, SLICES)
  #counted: { at: number; bounds: Bounds | null } | null = null

  /** Counts one. Times are steady milliseconds. */
  add(now: number, ok: boolean): void {
    this.#answers.add(now, ok)
    this.#counted = null
  }

  /** The share of those that did so. Null where too few were judged. */
  bounds(now: number): Bounds | null {
    if (!this.#counted || now - this.#counted.at >= FRESH) this.#counted = { at: now, bounds: boundsOf(this.#answers.sum(now)) }
    return this.#counted.bounds
  }
}

/** The normal distribution has 95 of a hundred within so many deviations. */
const Z = 1.96

/**
 * The score interval of a share (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927): it stays
 * between 0 and 1 and is wide where little is known. Null for fewer than twenty.
 */
export function boundsOf({ ok, failed }: Count): Bounds | null {
  const all = ok + failed
  if (all < LEAST) return null
  const share = ok / all
  const centre = share + Z ** 2 / (2 * all)
  const spread = Z * Math.sqrt((share * (1 - share)) / all + Z ** 2 / (4 * all ** 2))
  const scale = 1 + Z ** 2 / all
  return { lower: Math.max((centre - spread) / scale, 0), upper: Math.min((centre + spread) / scale, 1) }
}
