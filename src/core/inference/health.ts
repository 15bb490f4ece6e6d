import type { Measured } from '../catalog/models/shown.ts'
import type { Endpoint } from '../catalog/models.ts'
import type { Config } from '../config.ts'
import type { GatewayError } from '../errors.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Percentiles } from '../language/routing.ts'
import { type Bounds, type Count, Quality, Samples, Tally } from './health/measures.ts'

const MINUTE = 60_000

/** What is known of one endpoint, about five kilobytes. */
interface Known {
  circuit: Circuit
  latency: Samples
  throughput: Samples
  /** Null until an answer told of it. */
  quality: Quality | null
  uptime: { '5m': Tally; '30m': Tally; '1d': Tally }
  /** Steady milliseconds: when a call last told of it. */
  told: number
}

/** Percentiles that calls are sorted and preferred by are of so long (wire reference C.3). */
const WINDOW = 5 * MINUTE
/** So many endpoints are remembered, which is 50 megabytes; of more, a tenth is forgotten: those of which nothing was heard for longest. */
const MOST = 10_000
/** For one that is busy and does not say how long. */
const SHORTEST_WAIT = 1_000

// The public list's words for it are not public: 0 is well, and below it one is called last.
const WELL = 0
const RESTING = -1

/**
 * How the endpoints are, as far as calls of this process tell. Each is known by its id from its first call on, whatever is read anew
 * meanwhile. A caller's own provider key makes another endpoint, which is judged apart.
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

  /** Takes other settings, for what is known already too. */
  reconfigure({ failures, pause_seconds }: Config['routing']): void {
    Object.assign(this.#thresholds, { failures, pause: pause_seconds * 1000 } satisfies Thresholds)
  }

  /** Until when the endpoint rests, in steady milliseconds; 0 where it does not. */
  restsUntil(endpoint: Endpoint): number {
    const until = this.#records.get(endpoint.id)?.circuit.restsUntil ?? 0
    return until > this.#clock.ticks() ? until : 0
  }

  /** Until when the endpoint rests, as `restsUntil`, and why; null where it does not. */
  restOf(endpoint: Endpoint): { until: number; because: Because } | null {
    const until = this.restsUntil(endpoint)
    return until === 0
      ? null
      : { until, because: this.#records.get(endpoint.id)?.circuit.because ?? 'failures' }
  }

  /** Of the last five minutes, in tokens per second or milliseconds. Null where nothing was measured. */
  measured(endpoint: Endpoint, what: 'throughput' | 'latency'): Percentiles | null {
    return this.#records.get(endpoint.id)?.[what].percentiles(this.#clock.ticks(), WINDOW) ?? null
  }

  /**
   * In how many milliseconds 95 of a hundred streamed answers of the last five minutes have begun. Null where fewer than twenty were
   * measured.
   */
  tail(endpoint: Endpoint): number | null {
    return this.#records.get(endpoint.id)?.latency.p95(this.#clock.ticks(), WINDOW) ?? null
  }

  /** Whether a call may go out to it. Whoever asks and may, goes: after a rest that is one alone, until it is known how it went. */
  admits(endpoint: Endpoint): boolean {
    return this.#records.get(endpoint.id)?.circuit.admits(this.#clock.ticks()) ?? true
  }

  /** The first part of an answer has come to a call that went out at `sent`. How long that took is a latency where it is streamed. */
  answered(endpoint: Endpoint, sent: number, streamed: boolean): void {
    const now = this.#clock.ticks()
    const { circuit, latency } = this.#recordOf(endpoint)
    circuit.answered(now, sent)
    if (streamed) latency.add(now, now - sent)
  }

  /**
   * Nobody waits any more for a streamed answer to a call that went out at `sent`, which is no failure. It would have taken at least this
   * long: that counts where it is more than the median, or who is always given up would look as quick as he was once.
   */
  outrun(endpoint: Endpoint, sent: number): void {
    const now = this.#clock.ticks()
    const median = this.measured(endpoint, 'latency')?.p50 ?? 0
    if (now - sent > median) this.#recordOf(endpoint).latency.add(now, now - sent)
  }

  /** An answer has ended well, with so many tokens since the call went out; null where its client left before that. */
  ended(endpoint: Endpoint, sent: number, tokens: number | null): void {
    const now = this.#clock.ticks()
    const { circuit, throughput } = this.#recordOf(endpoint)
    circuit.ended(now)
    this.#count(endpoint, now, true)
    if (tokens && now > sent) throughput.add(now, tokens / ((now - sent) / 1000))
  }

  /** A call has failed, before its answer or within it. What is no fault of the endpoint's says nothing of it. */
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

  /** An answer to a call with tools has called them as they were offered, or not. */
  judged(endpoint: Endpoint, isSound: boolean): void {
    const record = this.#recordOf(endpoint)
    record.quality ??= new Quality()
    record.quality.add(this.#clock.ticks(), isSound)
  }

  /** How often it does that, of the answers of a day. Null where too few were judged. */
  quality(endpoint: Endpoint): Bounds | null {
    return this.#records.get(endpoint.id)?.quality?.bounds(this.#clock.ticks()) ?? null
  }

  /** The endpoint as the public list shows it. */
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

/** What an endpoint is to blame for. A request that it refuses is the caller's, a bug is ours. */
const FAULTS = new Set<GatewayError['type']>([
  'provider_unavailable',
  'provider_overloaded',
  'timeout',
])

/** Whether the endpoint is to blame for it. */
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

/** When an endpoint rests, and for how long at first. All circuits share them, and they may change. */
export interface Thresholds {
  /** So many failures in a row, or half of twice as many calls: 0 never. */
  failures: number
  /** Milliseconds. */
  pause: number
}

/** It has failed too often, or its provider has asked to wait. */
export type Because = 'failures' | 'asked_to_wait'

/** Failures of the last 30 seconds are an outage (wire reference K.1). */
const RECENT = 30_000
const LONGEST_PAUSE = 300_000

/**
 * Whether an endpoint may be called. After too many failures it rests; when the pause is over one call tries whether it is well again:
 * if so it is as before, if not it rests for twice as long. All times are steady milliseconds.
 */
export class Circuit {
  readonly #thresholds: Thresholds
  readonly #recent = new Tally(RECENT, 6)
  #inARow = 0
  /** When it was opened; null while it is closed. */
  #opened: number | null = null
  /** Whether one call tries it, and nobody knows yet how that goes. */
  #trying = false
  #closed = Number.NEGATIVE_INFINITY
  #pause = 0
  #until = 0
  #asked = 0

  constructor(thresholds: Thresholds) {
    this.#thresholds = thresholds
  }

  /** Until when it rests; in the past where it does not. */
  get restsUntil(): number {
    return this.#thresholds.failures === 0
      ? 0
      : Math.max(this.#asked, this.#opened === null ? 0 : this.#until)
  }

  /** Why it rests, where it does. */
  get because(): Because {
    return this.#opened !== null && this.#until >= this.#asked ? 'failures' : 'asked_to_wait'
  }

  /**
   * Whether a call may go out now. When the pause is over, only the first that asks: it tries whether the endpoint is well again, and the
   * others stay away meanwhile, for no longer than the same pause.
   */
  admits(now: number): boolean {
    if (now < this.restsUntil) return false
    if (this.#opened === null) return true
    this.#trying = true
    this.#until = now + this.#pause
    return true
  }

  /** An answer has begun to a call that went out at `sent`: one that went out before the rest says nothing of now. */
  answered(now: number, sent: number): void {
    this.#inARow = 0
    if (this.#opened === null || sent < this.#opened) return
    this.#opened = null
    this.#trying = false
    this.#closed = now
    this.#recent.clear()
  }

  /** An answer has ended well. */
  ended(now: number): void {
    this.#recent.add(now, true)
  }

  /** The endpoint has failed. */
  failed(now: number): void {
    this.#inARow += 1
    this.#recent.add(now, false)
    if (this.#opened !== null) this.#reopen(now)
    else if (this.#isTooMuch(now)) this.#open(now)
  }

  /** The provider has asked to wait. It is not ill, only busy. */
  wait(now: number, milliseconds: number): void {
    if (this.#thresholds.failures > 0) this.#asked = Math.max(this.#asked, now + milliseconds)
  }

  #isTooMuch(now: number): boolean {
    const { failures } = this.#thresholds
    if (failures === 0) return false
    const { ok, failed } = this.#recent.sum(now)
    return this.#inARow >= failures || (failed >= failures && failed >= ok)
  }

  // One that was well for a short while only goes on where it was.
  #open(now: number): void {
    this.#opened = now
    this.#pause = now - this.#closed < LONGEST_PAUSE ? this.#longer() : this.#thresholds.pause
    this.#until = now + this.#pause
  }

  // What fails meanwhile, because nobody else was there to be asked, makes no pause longer.
  #reopen(now: number): void {
    if (this.#trying) this.#pause = this.#longer()
    this.#trying = false
    this.#until = now + this.#pause
  }

  #longer(): number {
    return Math.min(this.#pause * 2, LONGEST_PAUSE)
  }
}
