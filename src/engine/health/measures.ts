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

/**
 * When a cooldown begins, and how long the first one lasts. All circuits share one object, which
 * may change.
 */
export interface Thresholds {
  /** This many failures in a row, or half of twice as many calls; 0 for never. */
  failures: number
  /** Milliseconds. */
  pause: number
}

/** Too many failures, the provider has asked to wait, or the operator has. */
export type CooldownReason = 'failures' | 'asked_to_wait' | 'by_hand'

/** Failures of the last 30 seconds count as an outage (wire reference K.1). */
const RECENT = 30_000
const LONGEST_PAUSE = 300_000

/**
 * A circuit breaker. Too many failures begin a cooldown; after it one call probes the endpoint. If
 * that succeeds, the circuit closes; if not, the next cooldown is twice as long. All times are
 * steady milliseconds.
 */
export class Circuit {
  readonly #thresholds: Thresholds
  readonly #recent = new Tally(RECENT, 6)
  #failuresInARow = 0
  /** When it was opened; null while it is closed. */
  #openedAt: number | null = null
  /** Whether a call is probing the endpoint, and its outcome is not known yet. */
  #isProbing = false
  #closedAt = Number.NEGATIVE_INFINITY
  #pause = 0
  #pauseEnd = 0
  #waitUntil = 0
  /** Until when the operator lets it rest. */
  #restUntil = 0

  constructor(thresholds: Thresholds) {
    this.#thresholds = thresholds
  }

  /** When the cooldown ends; in the past if there is none. */
  get cooldownEnd(): number {
    return this.#thresholds.failures === 0
      ? this.#restUntil
      : Math.max(this.#restUntil, this.#waitUntil, this.#openedAt === null ? 0 : this.#pauseEnd)
  }

  /** Why it is in a cooldown, if it is. */
  get cooldownReason(): CooldownReason {
    if (this.#restUntil > 0 && this.cooldownEnd === this.#restUntil) return 'by_hand'
    return this.#openedAt !== null && this.#pauseEnd >= this.#waitUntil
      ? 'failures'
      : 'asked_to_wait'
  }

  /**
   * Tells whether a call may be sent now. After a cooldown only the first that asks may: it probes
   * the endpoint. The others stay away meanwhile, for at most the same pause.
   */
  tryAdmit(now: number): boolean {
    if (now < this.cooldownEnd) return false
    if (this.#openedAt === null) return true
    this.#isProbing = true
    this.#pauseEnd = now + this.#pause
    return true
  }

  /**
   * Records an answer to a request sent at `sent`. A request from before the cooldown proves
   * nothing about now.
   */
  recordAnswer(now: number, sent: number): void {
    this.#failuresInARow = 0
    if (this.#openedAt === null || sent < this.#openedAt) return
    this.#openedAt = null
    this.#isProbing = false
    this.#closedAt = now
    this.#recent.clear()
  }

  /** Records an answer that ended well. */
  recordEnd(now: number): void {
    this.#recent.add(now, true)
  }

  /** Records a failure. */
  recordFailure(now: number): void {
    this.#failuresInARow += 1
    this.#recent.add(now, false)
    if (this.#openedAt !== null) this.#reopen(now)
    else if (this.#isOutage(now)) this.#open(now)
  }

  /** Records that the provider has asked to wait: it is busy, not failing. */
  startWait(now: number, milliseconds: number): void {
    if (this.#thresholds.failures > 0)
      this.#waitUntil = Math.max(this.#waitUntil, now + milliseconds)
  }

  /** Whether a call is finding out if the endpoint has recovered. */
  get isProbing(): boolean {
    return this.#isProbing
  }

  /** Lets the endpoint rest, whatever its calls tell, until the operator wakes it or time is up. */
  rest(now: number, milliseconds: number): void {
    this.#restUntil = now + milliseconds
  }

  /** Ends every cooldown. What failed before is forgotten. */
  wake(now: number): void {
    this.#restUntil = 0
    this.#waitUntil = 0
    this.#failuresInARow = 0
    this.#recent.clear()
    if (this.#openedAt === null) return
    this.#openedAt = null
    this.#isProbing = false
    this.#closedAt = now
  }

  #isOutage(now: number): boolean {
    const { failures } = this.#thresholds
    if (failures === 0) return false
    const { ok, failed } = this.#recent.sum(now)
    return this.#failuresInARow >= failures || (failed >= failures && failed >= ok)
  }

  // An endpoint that was well only for a short while continues with a longer pause.
  #open(now: number): void {
    this.#openedAt = now
    this.#pause =
      now - this.#closedAt < LONGEST_PAUSE ? this.#lengthenPause() : this.#thresholds.pause
    this.#pauseEnd = now + this.#pause
  }

  // Failures during a cooldown, of calls that had no other endpoint, make no pause longer.
  #reopen(now: number): void {
    if (this.#isProbing) this.#pause = this.#lengthenPause()
    this.#isProbing = false
    this.#pauseEnd = now + this.#pause
  }

  #lengthenPause(): number {
    return Math.min(this.#pause * 2, LONGEST_PAUSE)
  }
}
