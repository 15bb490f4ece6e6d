import { PERCENTILES, type Percentiles } from '../../language/routing.ts'

/** The last of them are remembered, and no more. */
const MOST = 128

/** Plans look at them far more often than they change: they are counted once in so many milliseconds. */
const FRESH = 1_000

/** What is rare among fewer than these cannot be told: of twenty, nineteen are 95 of a hundred. */
const LEAST = 20

interface Counted {
  at: number
  span: number
  percentiles: Percentiles
  p95: number | null
}

/** The last measurements of one thing. */
export class Samples {
  readonly #values = new Float64Array(MOST)
  readonly #times = new Float64Array(MOST)
  readonly #better: 'less' | 'more'
  #added = 0
  #counted: Counted | null = null

  /** Which values are the better ones. */
  constructor(better: 'less' | 'more') {
    this.#better = better
  }

  /** Remembers one. Times are steady milliseconds. */
  add(now: number, value: number): void {
    const at = this.#added++ % MOST
    this.#values[at] = value
    this.#times[at] = now
  }

  /**
   * What so many of a hundred did at least as well as, of the last `span` milliseconds: as of now, or of at most a second ago. Null where
   * nothing was measured in them.
   */
  percentiles(now: number, span: number): Percentiles | null {
    return this.#lately(now, span)?.percentiles ?? null
  }

  /** The same for 95 of a hundred. Null where fewer than twenty were measured. */
  p95(now: number, span: number): number | null {
    return this.#lately(now, span)?.p95 ?? null
  }

  #lately(now: number, span: number): Counted | null {
    if (this.#counted?.span !== span || now - this.#counted.at >= FRESH) this.#counted = this.#count(now, span)
    return this.#counted
  }

  #count(now: number, span: number): Counted | null {
    const recent = this.#values.subarray(0, Math.min(this.#added, MOST)).filter((_, i) => now - (this.#times[i] ?? 0) <= span)
    if (recent.length === 0) return null
    recent.sort()
    if (this.#better === 'more') recent.reverse()
    const percentiles = Object.fromEntries(PERCENTILES.map(name => [name, at(recent, Number(name.slice(1)) / 100)])) as Percentiles
    return { at: now, span, percentiles, p95: recent.length < LEAST ? null : at(recent, 0.95) }
  }
}

// The nearest rank: a value that was measured, none between two.
const at = (sorted: Float64Array, share: number): number => sorted[Math.ceil(share * sorted.length) - 1] ?? 0
