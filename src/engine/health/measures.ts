import { PERCENTILES, type Percentiles } from '../../language/routing.ts'

/** How many measurements are kept. */
const MAX_SAMPLES = 128

/**
 * Plans read percentiles far more often than they change: they are computed at most once in this
 * many milliseconds.
 */
const FRESH = 1_000

/** A rare event cannot be seen in fewer samples: of twenty, nineteen are 95 of 100. */
const MIN_SAMPLES = 20

interface CachedPercentiles {
  at: number
  span: number
  percentiles: Percentiles
  p95: number | null
}

/** The latest measurements of one metric. */
export class Samples {
  readonly #values = new Float64Array(MAX_SAMPLES)
  readonly #times = new Float64Array(MAX_SAMPLES)
  readonly #better: 'less' | 'more'
  #addedCount = 0
  #cached: CachedPercentiles | null = null

  /** Takes which values are the better ones. */
  constructor(better: 'less' | 'more') {
    this.#better = better
  }

  /** Adds a measurement. Times are steady milliseconds. */
  add(now: number, value: number): void {
    const at = this.#addedCount++ % MAX_SAMPLES
    this.#values[at] = value
    this.#times[at] = now
  }

  /**
   * Returns the values that a given share of the last `span` milliseconds did at least as well as.
   * They are at most a second old. Null without measurements.
   */
  getPercentiles(now: number, span: number): Percentiles | null {
    return this.#getCached(now, span)?.percentiles ?? null
  }

  /**
   * Returns the value that 95 of 100 did at least as well as. Null for fewer than twenty
   * measurements.
   */
  getP95(now: number, span: number): number | null {
    return this.#getCached(now, span)?.p95 ?? null
  }

  #getCached(now: number, span: number): CachedPercentiles | null {
    if (this.#cached?.span !== span || now - this.#cached.at >= FRESH)
      this.#cached = this.#computeRecent(now, span)
    return this.#cached
  }

  #computeRecent(now: number, span: number): CachedPercentiles | null {
    const recent = this.#values
      .subarray(0, Math.min(this.#addedCount, MAX_SAMPLES))
      .filter((_, i) => now - (this.#times[i] ?? 0) <= span)
    if (recent.length === 0) return null
    recent.sort()
    if (this.#better === 'more') recent.reverse()
    return { at: now, span, ...summarizeSamples(recent) }
  }
}

function summarizeSamples(sorted: Float64Array): Pick<CachedPercentiles, 'percentiles' | 'p95'> {
  const percentiles = Object.fromEntries(
    PERCENTILES.map(name => [name, pickRank(sorted, Number(name.slice(1)) / 100)]),
  ) as Percentiles
  return { percentiles, p95: sorted.length < MIN_SAMPLES ? null : pickRank(sorted, 0.95) }
}

// The nearest rank: a measured value, never one in between.
const pickRank = (sorted: Float64Array, share: number): number =>
  sorted[Math.ceil(share * sorted.length) - 1] ?? 0

/** How many succeeded and how many failed. */
export interface OutcomeCount {
  ok: number
  failed: number
}

/**
 * Counts successes and failures of a recent span, in slices: old ones are forgotten slice by slice.
 */
export class Tally {
  readonly #sliceLength: number
  readonly #slices: OutcomeCount[]
  /** The last slice that was used, counted from time zero. */
  #lastSlice = 0

  /** `span` is in milliseconds. */
  constructor(span: number, slices: number) {
    this.#sliceLength = span / slices
    this.#slices = Array.from({ length: slices }, () => ({ ok: 0, failed: 0 }))
  }

  /** Counts one. Times are steady milliseconds. */
  add(now: number, ok: boolean): void {
    const at = Math.floor(now / this.#sliceLength)
    // Almost always in the slice of the one before.
    if (at !== this.#lastSlice) this.#advanceTo(at)
    const slice = this.#slices[at % this.#slices.length]
    if (slice && ok) slice.ok += 1
    else if (slice) slice.failed += 1
  }

  sum(now: number): OutcomeCount {
    this.#advanceTo(Math.floor(now / this.#sliceLength))
    return this.#slices.reduce((sum, { ok, failed }) => ({
      ok: sum.ok + ok,
      failed: sum.failed + failed,
    }))
  }

  /** Forgets everything. */
  clear(): void {
    for (const slice of this.#slices) clearSlice(slice)
  }

  /** Clears the slices that have begun since the last one, up to this one. */
  #advanceTo(at: number): void {
    const passed = Math.min(at - this.#lastSlice, this.#slices.length)
    for (let i = 0; i < passed; i++) clearSlice(this.#slices[(at - i) % this.#slices.length])
    this.#lastSlice = Math.max(this.#lastSlice, at)
  }
}

function clearSlice(slice: OutcomeCount | undefined): void {
  if (slice) Object.assign(slice, { ok: 0, failed: 0 })
}

/** Quality is measured over a day, in slices of an hour. */
const SPAN = 24 * 60 * 60_000
const SLICES = 24

/** The interval in which the true share lies, as far as the answers tell. */
export interface QualityBounds {
  lower: number
  upper: number
}

interface CachedBounds {
  at: number
  bounds: QualityBounds | null
}

/** How many answers of an endpoint called tools as they were offered. */
export class Quality {
  readonly #answers = new Tally(SPAN, SLICES)
  #cached: CachedBounds | null = null

  /** Counts one. Times are steady milliseconds. */
  add(now: number, ok: boolean): void {
    this.#answers.add(now, ok)
    this.#cached = null
  }

  /** Returns the interval of the share that did. Null if too few were judged. */
  getBounds(now: number): QualityBounds | null {
    if (!this.#cached || now - this.#cached.at >= FRESH)
      this.#cached = { at: now, bounds: computeBounds(this.#answers.sum(now)) }
    return this.#cached.bounds
  }
}

/** 95 of 100 values of a normal distribution lie within this many standard deviations. */
const Z = 1.96

/**
 * Computes the score interval of a share (E. B. Wilson, "Probable Inference, the Law of Succession,
 * and Statistical Inference", 1927): it stays between 0 and 1 and is wide for few samples. Null for
 * fewer than twenty.
 */
export function computeBounds({ ok, failed }: OutcomeCount): QualityBounds | null {
  const all = ok + failed
  if (all < MIN_SAMPLES) return null
  const share = ok / all
  const centre = share + Z ** 2 / (2 * all)
  const spread = Z * Math.sqrt((share * (1 - share)) / all + Z ** 2 / (4 * all ** 2))
  const scale = 1 + Z ** 2 / all
  return {
    lower: Math.max((centre - spread) / scale, 0),
    upper: Math.min((centre + spread) / scale, 1),
  }
}
