import type { Clock } from '../base/clock.ts'
import type { GatewayError } from '../base/errors.ts'
import type { Config } from '../config.ts'
import type { Percentiles } from '../language/routing.ts'
import type { Endpoint, EndpointStats } from '../resources/models/catalog.ts'
import {
  Circuit,
  type CooldownReason,
  type OutcomeCount,
  Quality,
  type QualityBounds,
  Samples,
  Tally,
  type Thresholds,
} from './health/measures.ts'

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
