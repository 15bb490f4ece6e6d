import type { Measured } from '../catalog/models/shown.ts'
import type { Endpoint } from '../catalog/models.ts'
import type { Config } from '../config.ts'
import type { GatewayError } from '../errors.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Percentiles } from '../language/routing.ts'
import { type Bounds, type Count, Quality, Samples, Tally } from './health/measures.ts'

const MINUTE = 60_000

/** The health of one endpoint, about five kilobytes. */
interface Known {
  circuit: Circuit
  latency: Samples
  throughput: Samples
  /** Null until an answer is judged. */
  quality: Quality | null
  uptime: { '5m': Tally; '30m': Tally; '1d': Tally }
  /** When a call last used the endpoint, in steady milliseconds. */
  told: number
}

/**
 * The window of the percentiles by which calls sort endpoints and state preferences (wire reference
 * C.3).
 */
const WINDOW = 5 * MINUTE
/**
 * How many endpoints are remembered, which takes 50 megabytes. Above that, the tenth that was
 * unused for longest is forgotten.
 */
const MOST = 10_000
/** For a provider that is busy and does not say for how long. */
const SHORTEST_WAIT = 1_000

// The public list's values are not documented: 0 is well, and an endpoint below 0 is tried last.
const WELL = 0
const RESTING = -1

/**
 * The health of endpoints, as far as the calls of this process tell. Each is known by its id from
 * its first call on, across reloads of the config. A caller's own provider key makes another
 * endpoint, with a record of its own.
 */
export class Health {
  readonly #thresholds: Thresholds
  readonly #clock: Clock
  readonly #records = new Map<string, Known>()

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
  restsUntil(endpoint: Endpoint): number {
    const until = this.#records.get(endpoint.id)?.circuit.restsUntil ?? 0
    return until > this.#clock.ticks() ? until : 0
  }

  /**
   * Returns the endpoint's cooldown: its end, as `getCooldownEnd`, and its reason. Null if it is in
   * none.
   */
  restOf(endpoint: Endpoint): { until: number; because: Because } | null {
    const until = this.restsUntil(endpoint)
    return until === 0
      ? null
      : { until, because: this.#records.get(endpoint.id)?.circuit.because ?? 'failures' }
  }

  /**
   * Returns the percentiles of the last five minutes, in tokens per second or milliseconds. Null
   * without measurements.
   */
  measured(endpoint: Endpoint, what: 'throughput' | 'latency'): Percentiles | null {
    return this.#records.get(endpoint.id)?.[what].percentiles(this.#clock.ticks(), WINDOW) ?? null
  }

  /**
   * Returns the milliseconds within which 95 of 100 streamed answers of the last five minutes
   * began. Null for fewer than twenty measurements.
   */
  tail(endpoint: Endpoint): number | null {
    return this.#records.get(endpoint.id)?.latency.p95(this.#clock.ticks(), WINDOW) ?? null
  }

  /**
   * Tells whether a call may be sent to the endpoint now. A caller that gets true must send it:
   * after a cooldown one call alone probes the endpoint, until its outcome is known.
   */
  admits(endpoint: Endpoint): boolean {
    return this.#records.get(endpoint.id)?.circuit.admits(this.#clock.ticks()) ?? true
  }

  /**
   * Records the first part of an answer to a request sent at `sent`. The time it took is a latency
   * if the answer is streamed.
   */
  answered(endpoint: Endpoint, sent: number, streamed: boolean): void {
    const now = this.#clock.ticks()
    const { circuit, latency } = this.#recordOf(endpoint)
    circuit.answered(now, sent)
    if (streamed) latency.add(now, now - sent)
  }

  /**
   * Records that a streamed answer to a request sent at `sent` was given up, which is no failure.
   * It would have taken at least that long. This counts as a latency if it is above the median:
   * otherwise an endpoint that is always given up would keep its former latency.
   */
  outrun(endpoint: Endpoint, sent: number): void {
    const now = this.#clock.ticks()
    const median = this.measured(endpoint, 'latency')?.p50 ?? 0
    if (now - sent > median) this.#recordOf(endpoint).latency.add(now, now - sent)
  }

  /**
   * Records an answer that ended well, with its tokens since the request was sent; null if its
   * client left earlier.
   */
  ended(endpoint: Endpoint, sent: number, tokens: number | null): void {
    const now = this.#clock.ticks()
    const { circuit, throughput } = this.#recordOf(endpoint)
    circuit.ended(now)
    this.#count(endpoint, now, true)
    if (tokens && now > sent) throughput.add(now, tokens / ((now - sent) / 1000))
  }

  /**
   * Records a call that failed, before or during its answer. What is not the endpoint's fault is
   * ignored.
   */
  failed(endpoint: Endpoint, error: GatewayError): void {
    const now = this.#clock.ticks()
    if (error.type === 'rate_limit_exceeded') {
      this.#recordOf(endpoint).circuit.wait(now, (error.retryAfter ?? 0) * 1000 || SHORTEST_WAIT)
      return
    }
    if (!isFault(error)) return
    const { circuit } = this.#recordOf(endpoint)
    circuit.failed(now)
    if (error.retryAfter) circuit.wait(now, error.retryAfter * 1000)
    this.#count(endpoint, now, false)
  }

  /** Records whether an answer to a call with tools called them as they were offered. */
  judged(endpoint: Endpoint, isSound: boolean): void {
    const record = this.#recordOf(endpoint)
    record.quality ??= new Quality()
    record.quality.add(this.#clock.ticks(), isSound)
  }

  /**
   * Returns the share of a day's answers that called tools as they were offered. Null if too few
   * were judged.
   */
  quality(endpoint: Endpoint): Bounds | null {
    return this.#records.get(endpoint.id)?.quality?.bounds(this.#clock.ticks()) ?? null
  }

  /** Returns the endpoint's statistics for the public list. */
  shown(endpoint: Endpoint): Measured {
    const now = this.#clock.ticks()
    const known = this.#records.get(endpoint.id)
    const uptime = (of: keyof Known['uptime']) =>
      known ? percentOf(known.uptime[of].sum(now)) : null
    return {
      status: this.restsUntil(endpoint) > 0 ? RESTING : WELL,
      uptime_last_5m: uptime('5m'),
      uptime_last_30m: uptime('30m'),
      uptime_last_1d: uptime('1d'),
      latency_last_30m: known?.latency.percentiles(now, 30 * MINUTE) ?? null,
      throughput_last_30m: known?.throughput.percentiles(now, 30 * MINUTE) ?? null,
    }
  }

  #count(endpoint: Endpoint, now: number, ok: boolean): void {
    for (const tally of Object.values(this.#recordOf(endpoint).uptime)) tally.add(now, ok)
  }

  #recordOf({ id }: Endpoint): Known {
    const known = this.#records.get(id) ?? this.#add(id)
    known.told = this.#clock.ticks()
    return known
  }

  #add(id: string): Known {
    if (this.#records.size >= MOST) this.#forget(MOST / 10)
    const known = newRecord(this.#thresholds)
    this.#records.set(id, known)
    return known
  }

  #forget(count: number): void {
    const silent = [...this.#records].sort(([, a], [, b]) => a.told - b.told).slice(0, count)
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
export const isFault = ({ type }: GatewayError): boolean => FAULTS.has(type)

const newRecord = (thresholds: Thresholds): Known => ({
  circuit: new Circuit(thresholds),
  latency: new Samples('less'),
  throughput: new Samples('more'),
  quality: null,
  uptime: {
    '5m': new Tally(5 * MINUTE, 10),
    '30m': new Tally(30 * MINUTE, 10),
    '1d': new Tally(24 * 60 * MINUTE, 24),
  },
  told: 0,
})

const percentOf = ({ ok, failed }: Count): number | null =>
  ok + failed === 0 ? null : (ok / (ok + failed)) * 100

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

/** Too many failures, or the provider has asked to wait. */
export type Because = 'failures' | 'asked_to_wait'

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
  #inARow = 0
  /** When it was opened; null while it is closed. */
  #opened: number | null = null
  /** Whether a call is probing the endpoint, and its outcome is not known yet. */
  #trying = false
  #closed = Number.NEGATIVE_INFINITY
  #pause = 0
  #until = 0
  #asked = 0

  constructor(thresholds: Thresholds) {
    this.#thresholds = thresholds
  }

  /** When the cooldown ends; in the past if there is none. */
  get restsUntil(): number {
    return this.#thresholds.failures === 0
      ? 0
      : Math.max(this.#asked, this.#opened === null ? 0 : this.#until)
  }

  /** Why it is in a cooldown, if it is. */
  get because(): Because {
    return this.#opened !== null && this.#until >= this.#asked ? 'failures' : 'asked_to_wait'
  }

  /**
   * Tells whether a call may be sent now. After a cooldown only the first that asks may: it probes
   * the endpoint. The others stay away meanwhile, for at most the same pause.
   */
  admits(now: number): boolean {
    if (now < this.restsUntil) return false
    if (this.#opened === null) return true
    this.#trying = true
    this.#until = now + this.#pause
    return true
  }

  /**
   * Records an answer to a request sent at `sent`. A request from before the cooldown proves
   * nothing about now.
   */
  answered(now: number, sent: number): void {
    this.#inARow = 0
    if (this.#opened === null || sent < this.#opened) return
    this.#opened = null
    this.#trying = false
    this.#closed = now
    this.#recent.clear()
  }

  /** Records an answer that ended well. */
  ended(now: number): void {
    this.#recent.add(now, true)
  }

  /** Records a failure. */
  failed(now: number): void {
    this.#inARow += 1
    this.#recent.add(now, false)
    if (this.#opened !== null) this.#reopen(now)
    else if (this.#isTooMuch(now)) this.#open(now)
  }

  /** Records that the provider has asked to wait: it is busy, not failing. */
  wait(now: number, milliseconds: number): void {
    if (this.#thresholds.failures > 0) this.#asked = Math.max(this.#asked, now + milliseconds)
  }

  #isTooMuch(now: number): boolean {
    const { failures } = this.#thresholds
    if (failures === 0) return false
    const { ok, failed } = this.#recent.sum(now)
    return this.#inARow >= failures || (failed >= failures && failed >= ok)
  }

  // An endpoint that was well only for a short while continues with a longer pause.
  #open(now: number): void {
    this.#opened = now
    this.#pause = now - this.#closed < LONGEST_PAUSE ? this.#longer() : this.#thresholds.pause
    this.#until = now + this.#pause
  }

  // Failures during a cooldown, of calls that had no other endpoint, make no pause longer.
  #reopen(now: number): void {
    if (this.#trying) this.#pause = this.#longer()
    this.#trying = false
    this.#until = now + this.#pause
  }

  #longer(): number {
    return Math.min(this.#pause * 2, LONGEST_PAUSE)
  }
}
