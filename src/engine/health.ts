import type { Clock } from '../base/clock.ts'
import type { GatewayError } from '../base/errors.ts'
import type { Config } from '../config.ts'
import { PERCENTILES, type Percentiles } from '../language/routing.ts'
import type { Endpoint, EndpointStats } from '../resources/models/catalog.ts'

const MINUTE = 60_000

/** An endpoint in a cooldown, by id, and when that ends in steady milliseconds. */
export interface Cooldown {
  endpoint: string
  until: number
  reason: CooldownReason
}

/** How an endpoint is doing, with its cooldown in whole seconds. */
interface HealthState {
  endpoint: string
  provider: string
  model: string
  cooldown: { reason: CooldownReason; seconds_left: number } | null
  is_probing: boolean
  succeeded: number
  failed: number
  latency_p50: number | null
  latency_p95: number | null
  throughput_p50: number | null
}

/** The health of one endpoint, about seven kilobytes. */
interface HealthRecord {
  provider: string
  model: string
  circuit: Circuit
  latency: Samples
  /** How long whole answers took, which is no latency: no plan compares it. */
  answerTime: Samples
  throughput: Samples
  /** Null until an answer is judged. */
  quality: Quality | null
  uptime: { '5m': Tally; '30m': Tally; '1d': Tally }
  /** When a call last used the endpoint, in steady milliseconds. */
  lastSeenAt: number
}

/**
 * The window of the percentiles by which calls sort endpoints and state preferences (wire reference
 * C.3).
 */
const WINDOW = 5 * MINUTE

/**
 * How many endpoints are remembered, which takes 70 megabytes. Above that, the tenth that was
 * unused for longest is forgotten.
 */
const MAX_ENDPOINTS = 10_000

/** For a provider that is busy and does not say for how long. */
export const SHORTEST_WAIT = 1_000

// The public list's values are not documented: 0 is well, and an endpoint below 0 is tried last.
const WELL = 0
const COOLING_DOWN = -1

/**
 * The health of endpoints, as far as the calls of this process tell. Each is known by its id from
 * its first call on, across reloads of the config. A caller's own provider key makes another
 * endpoint, with a record of its own.
 */
export class Health {
  readonly #thresholds: Thresholds
  readonly #clock: Clock
  readonly #records = new Map<string, HealthRecord>()
  /** How many answers have begun, of all endpoints. */
  answers = 0

  constructor({ failures, pause_seconds }: Config['routing'], clock: Clock) {
    this.#thresholds = { failures, pause: pause_seconds * 1000 }
    this.#clock = clock
  }

  /** How many endpoints are known. */
  get size(): number {
    return this.#records.size
  }

  /** Applies other settings, also to the known endpoints. */
  reconfigure({ failures, pause_seconds }: Config['routing']): void {
    Object.assign(this.#thresholds, { failures, pause: pause_seconds * 1000 } satisfies Thresholds)
  }

  /** Returns when the endpoint's cooldown ends, in steady milliseconds; 0 if it is in none. */
  getCooldownEnd(endpoint: Endpoint): number {
    const until = this.#records.get(endpoint.id)?.circuit.cooldownEnd ?? 0
    return until > this.#clock.ticks() ? until : 0
  }

  /**
   * Returns the endpoint's cooldown: its end, as `getCooldownEnd`, and its reason. Null if it is in
   * none.
   */
  findCooldown(endpoint: Endpoint): { until: number; reason: CooldownReason } | null {
    const until = this.getCooldownEnd(endpoint)
    return until === 0
      ? null
      : { until, reason: this.#records.get(endpoint.id)?.circuit.cooldownReason ?? 'failures' }
  }

  /** Lists the endpoints that are in a cooldown now. */
  listCooldowns(): Cooldown[] {
    const now = this.#clock.ticks()
    return [...this.#records].flatMap(([endpoint, { circuit }]) =>
      circuit.cooldownEnd > now
        ? { endpoint, until: circuit.cooldownEnd, reason: circuit.cooldownReason }
        : [],
    )
  }

  /**
   * Lists how the endpoints are doing that were used since a moment in steady milliseconds, or are
   * in a cooldown; all of them without a moment. At most 500, those used last first.
   */
  listStates(since: number | null): HealthState[] {
    const now = this.#clock.ticks()
    return [...this.#records]
      .filter(
        ([, { lastSeenAt, circuit }]) =>
          since === null || lastSeenAt >= since || circuit.cooldownEnd > now,
      )
      .sort(([, a], [, b]) => b.lastSeenAt - a.lastSeenAt)
      .slice(0, MOST_STATES)
      .map(([id, record]) => describeRecord(id, record, now))
  }

  /**
   * Lets an endpoint rest for so many milliseconds: until then it is asked last, as in any cooldown.
   */
  rest(endpoint: Endpoint, milliseconds: number): void {
    const now = this.#clock.ticks()
    this.#getRecord(endpoint, now).circuit.rest(now, milliseconds)
  }

  /** Ends every cooldown of an endpoint, and forgets its failures. */
  wake(endpoint: Endpoint): void {
    const now = this.#clock.ticks()
    this.#getRecord(endpoint, now).circuit.wake(now)
  }

  /**
   * Returns the percentiles of the last five minutes, in tokens per second or milliseconds. Null
   * without measurements.
   */
  getPercentiles(endpoint: Endpoint, metric: 'throughput' | 'latency'): Percentiles | null {
    return (
      this.#records.get(endpoint.id)?.[metric].getPercentiles(this.#clock.ticks(), WINDOW) ?? null
    )
  }

  /**
   * Returns the milliseconds within which 95 of 100 streamed answers of the last five minutes
   * began. Null for fewer than twenty measurements.
   */
  getTailLatency(endpoint: Endpoint): number | null {
    return this.#records.get(endpoint.id)?.latency.getP95(this.#clock.ticks(), WINDOW) ?? null
  }

  /**
   * Tells whether a call may be sent to the endpoint now. A caller that gets true must send it:
   * after a cooldown one call alone probes the endpoint, until its outcome is known.
   */
  tryAdmit(endpoint: Endpoint): boolean {
    return this.#records.get(endpoint.id)?.circuit.tryAdmit(this.#clock.ticks()) ?? true
  }

  /**
   * Records the first part of an answer to a request sent at `sent`. The time it took is a latency
   * if the answer is streamed.
   */
  recordAnswer(endpoint: Endpoint, sent: number, streamed: boolean): void {
    const now = this.#clock.ticks()
    this.answers += 1
    const { circuit, latency, answerTime } = this.#getRecord(endpoint, now)
    circuit.recordAnswer(now, sent)
    const times = streamed ? latency : answerTime
    times.add(now, now - sent)
  }

  /**
   * Records that a streamed answer to a request sent at `sent` was given up, which is no failure.
   * It would have taken at least that long. This counts as a latency if it is above the median:
   * otherwise an endpoint that is always given up would keep its former latency.
   */
  recordOutrun(endpoint: Endpoint, sent: number): void {
    const now = this.#clock.ticks()
    const median = this.getPercentiles(endpoint, 'latency')?.p50 ?? 0
    if (now - sent > median) this.#getRecord(endpoint, now).latency.add(now, now - sent)
  }

  /**
   * Records an answer that ended well, with its tokens since the request was sent; null if its
   * client left earlier.
   */
  recordEnd(endpoint: Endpoint, sent: number, tokens: number | null): void {
    const now = this.#clock.ticks()
    const { circuit, throughput, uptime } = this.#getRecord(endpoint, now)
    countOutcome(uptime, now, true)
    circuit.recordEnd(now)
    if (tokens && now > sent) throughput.add(now, tokens / ((now - sent) / 1000))
  }

  /**
   * Records a call that failed, before or during its answer. What is not the endpoint's fault is
   * ignored.
   */
  recordFailure(endpoint: Endpoint, error: GatewayError): void {
    const now = this.#clock.ticks()
    if (error.type === 'rate_limit_exceeded') {
      const wait = (error.retryAfter ?? 0) * 1000 || SHORTEST_WAIT
      this.#getRecord(endpoint, now).circuit.startWait(now, wait)
      return
    }
    if (!isEndpointFault(error)) return
    const { circuit, uptime } = this.#getRecord(endpoint, now)
    circuit.recordFailure(now)
    if (error.retryAfter) circuit.startWait(now, error.retryAfter * 1000)
    countOutcome(uptime, now, false)
  }

  /** Records whether an answer to a call with tools called them as they were offered. */
  recordToolCalls(endpoint: Endpoint, toolCallsValid: boolean): void {
    const now = this.#clock.ticks()
    const record = this.#getRecord(endpoint, now)
    record.quality ??= new Quality()
    record.quality.add(now, toolCallsValid)
  }

  /**
   * Returns the share of a day's answers that called tools as they were offered. Null if too few
   * were judged.
   */
  getToolCallQuality(endpoint: Endpoint): QualityBounds | null {
    return this.#records.get(endpoint.id)?.quality?.getBounds(this.#clock.ticks()) ?? null
  }

  /** Returns the endpoint's statistics for the public list. */
  getStats(endpoint: Endpoint): EndpointStats {
    const now = this.#clock.ticks()
    const record = this.#records.get(endpoint.id)
    const getUptime = (span: keyof HealthRecord['uptime']) =>
      record ? computePercent(record.uptime[span].sum(now)) : null
    return {
      status: this.getCooldownEnd(endpoint) > 0 ? COOLING_DOWN : WELL,
      uptime_last_5m: getUptime('5m'),
      uptime_last_30m: getUptime('30m'),
      uptime_last_1d: getUptime('1d'),
      latency_last_30m: record?.latency.getPercentiles(now, 30 * MINUTE) ?? null,
      throughput_last_30m: record?.throughput.getPercentiles(now, 30 * MINUTE) ?? null,
    }
  }

  #getRecord(endpoint: Endpoint, now: number): HealthRecord {
    const record = this.#records.get(endpoint.id) ?? this.#addRecord(endpoint)
    record.lastSeenAt = now
    return record
  }

  #addRecord({ id, provider, model }: Endpoint): HealthRecord {
    if (this.#records.size >= MAX_ENDPOINTS) this.#forgetOldest(MAX_ENDPOINTS / 10)
    const record = createRecord(this.#thresholds, provider.slug, model)
    this.#records.set(id, record)
    return record
  }

  #forgetOldest(count: number): void {
    const silent = [...this.#records]
      .sort(([, a], [, b]) => a.lastSeenAt - b.lastSeenAt)
      .slice(0, count)
    for (const [id] of silent) this.#records.delete(id)
  }
}

/**
 * Errors that are the endpoint's fault. A request that it refuses is the caller's fault, a bug is
 * ours.
 */
const FAULTS = new Set<GatewayError['type']>([
  'provider_unavailable',
  'provider_overloaded',
  'timeout',
])

/** Tells whether the error is the endpoint's fault. */
export const isEndpointFault = ({ type }: GatewayError): boolean => FAULTS.has(type)

/** How many endpoints are described at once. */
const MOST_STATES = 500

function describeRecord(endpoint: string, record: HealthRecord, now: number): HealthState {
  const { circuit, throughput, uptime, provider, model } = record
  // Where nothing is streamed, an operator sees how long whole answers take.
  const hasStreams = record.latency.getPercentiles(now, WINDOW) !== null
  const latency = hasStreams ? record.latency : record.answerTime
  const { ok, failed } = uptime['5m'].sum(now)
  const seconds_left = Math.ceil((circuit.cooldownEnd - now) / 1000)
  return {
    ...{ endpoint, provider, model },
    cooldown: seconds_left > 0 ? { reason: circuit.cooldownReason, seconds_left } : null,
    is_probing: circuit.isProbing,
    succeeded: ok,
    failed,
    latency_p50: latency.getPercentiles(now, WINDOW)?.p50 ?? null,
    latency_p95: latency.getP95(now, WINDOW),
    throughput_p50: throughput.getPercentiles(now, WINDOW)?.p50 ?? null,
  }
}

const createRecord = (thresholds: Thresholds, provider: string, model: string): HealthRecord => ({
  provider,
  model,
  circuit: new Circuit(thresholds),
  latency: new Samples('less'),
  answerTime: new Samples('less'),
  throughput: new Samples('more'),
  quality: null,
  uptime: {
    '5m': new Tally(5 * MINUTE, 10),
    '30m': new Tally(30 * MINUTE, 10),
    '1d': new Tally(24 * 60 * MINUTE, 24),
  },
  lastSeenAt: 0,
})

function countOutcome(uptime: HealthRecord['uptime'], now: number, ok: boolean): void {
  uptime['5m'].add(now, ok)
  uptime['30m'].add(now, ok)
  uptime['1d'].add(now, ok)
}

const computePercent = ({ ok, failed }: OutcomeCount): number | null =>
  ok + failed === 0 ? null : (ok / (ok + failed)) * 100

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
interface OutcomeCount {
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
interface QualityBounds {
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
interface Thresholds {
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
class Circuit {
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
