import type { Cancellation } from '../../base/cancellation.ts'
import {
  type HistogramPoint,
  type Labels,
  type MetricReading,
  type Metrics,
  openMetrics,
} from '../metrics.ts'
import type { TelemetryWorld } from '../world.ts'
import { buildHeaders, joinUrl } from './config.ts'
import { DELIVERY_PACE } from './deliveries/retry.ts'
import { describeReason, sendDelivery } from './deliveries/send.ts'
import { listAttributes, type OtlpAttribute, type OtlpSource, toNanoseconds } from './otlp.ts'
import { createRenderWorld } from './settings.ts'
import { writeJson } from './text.ts'
import type { DestinationWorld } from './world.ts'

/** The body of an OTLP/HTTP export of metrics (`ExportMetricsServiceRequest`). */
interface OtlpMetricsExport {
  resourceMetrics: {
    resource: { attributes: OtlpAttribute[] }
    scopeMetrics: { scope: { name: string; version: string }; metrics: OtlpMetric[] }[]
  }[]
}

type OtlpMetric = { name: string; description: string; unit: string } & (
  | { sum: { aggregationTemporality: 2; isMonotonic: true; dataPoints: OtlpNumber[] } }
  | { gauge: { dataPoints: OtlpNumber[] } }
  | { histogram: { aggregationTemporality: 2; dataPoints: OtlpHistogram[] } }
)

interface OtlpPoint {
  attributes: OtlpAttribute[]
  /** Nanoseconds since the epoch, in decimal digits. */
  startTimeUnixNano: string
  timeUnixNano: string
}

interface OtlpNumber extends OtlpPoint {
  asDouble: number
}

interface OtlpHistogram extends OtlpPoint {
  /** 64-bit integers are texts in OTLP's JSON. */
  count: string
  sum: number
  bucketCounts: string[]
  explicitBounds: readonly number[]
}

/** From when on metrics were counted, and when they were read: milliseconds since the epoch. */
interface MetricsPeriod {
  since: number
  now: number
  /** The id of the server, where there are several. */
  node: string | undefined
}

/** Sums since the start of the process (`AGGREGATION_TEMPORALITY_CUMULATIVE`). */
const CUMULATIVE = 2

/**
 * Builds an export of metrics. Those that OpenTelemetry's conventions for generative AI know have
 * their names and attributes there, the others have those of Prometheus.
 */
const buildMetricsExport = (
  { serviceName, version }: OtlpSource,
  readings: MetricReading[],
  period: MetricsPeriod,
): OtlpMetricsExport => ({
  resourceMetrics: [
    {
      resource: {
        attributes: listAttributes({
          ...{ 'service.name': serviceName, 'service.version': version },
          ...(period.node === undefined ? {} : { 'service.instance.id': period.node }),
        }),
      },
      scopeMetrics: [
        {
          scope: { name: serviceName, version },
          metrics: readings.map(reading => buildMetric(reading, period)),
        },
      ],
    },
  ],
})

function buildMetric(reading: MetricReading, period: MetricsPeriod): OtlpMetric {
  const { name, unit } = reading.convention ?? { name: reading.name, unit: '' }
  const head = { name, unit, description: reading.help }
  const place = (labels: Labels) => buildPoint(reading, labels, period)
  if (reading.type === 'histogram') {
    const { bounds } = reading
    const dataPoints = reading.points.map(point =>
      buildHistogram(point, bounds, place(point.labels)),
    )
    return { ...head, histogram: { aggregationTemporality: CUMULATIVE, dataPoints } }
  }
  const dataPoints = reading.points.map(({ labels, value }) => ({
    ...place(labels),
    asDouble: value,
  }))
  return reading.type === 'gauge'
    ? { ...head, gauge: { dataPoints } }
    : { ...head, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } }
}

const buildHistogram = (
  { counts, sum }: HistogramPoint,
  explicitBounds: readonly number[],
  point: OtlpPoint,
): OtlpHistogram => ({
  ...point,
  count: String(counts.reduce((all, count) => all + count, 0)),
  sum,
  bucketCounts: counts.map(String),
  explicitBounds,
})

// An empty label is none.
function buildPoint(
  { convention }: MetricReading,
  labels: Labels,
  { since, now }: MetricsPeriod,
): OtlpPoint {
  const named = Object.entries(labels)
    .filter(([, value]) => value !== '')
    .map(([name, value]) => [convention ? (CONVENTIONS[name] ?? name) : name, value])
  return {
    attributes: listAttributes(Object.fromEntries(named)),
    startTimeUnixNano: toNanoseconds(since),
    timeUnixNano: toNanoseconds(now),
  }
}

/** The attributes of the conventions, by our labels. */
const CONVENTIONS: Record<string, string> = {
  gen_ai_operation_name: 'gen_ai.operation.name',
  gen_ai_provider_name: 'gen_ai.provider.name',
  gen_ai_request_model: 'gen_ai.request.model',
  gen_ai_token_type: 'gen_ai.token.type',
  error_type: 'error.type',
}

declare module '../../base/events.ts' {
  interface EventMap {
    /** An export of metrics has ended: `reason` is null if it arrived. */
    'metrics.exported': { reason: string | null }
  }
}

/** In milliseconds: how long the last export may take, as the server waits for it. */
const LAST_TIMEOUT = 1_000

/**
 * Exports the gateway's metrics to the operator's collector at intervals, where the config names
 * one: sums since the start, so an export that fails loses nothing. Begins and ends with the setting
 * of a running server. The last export is made when it stops.
 */
export class MetricsExport {
  readonly #world: DestinationWorld & TelemetryWorld
  /** What is counted, and since when: from when on the config has named a collector. */
  #counted: { metrics: Metrics; since: number } | undefined
  readonly #requests = new Set<Cancellation>()
  readonly #removeListener: () => void
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(world: DestinationWorld & TelemetryWorld) {
    this.#world = world
    this.#removeListener = world.events.on('destinations.changed', () => this.#schedule())
    this.#schedule()
  }

  /** Exports what is counted until now. Resolves when the collector has it, or why it has not. */
  async export(timeout = DELIVERY_PACE.timeout): Promise<void> {
    const { otlp } = this.#world.config.telemetry
    if (!otlp?.metrics || !this.#counted) return
    const { metrics, since } = this.#counted
    const source = createRenderWorld(this.#world)
    const readings = metrics.read()
    const request = {
      method: 'POST' as const,
      url: joinUrl(otlp.endpoint, '/v1/metrics'),
      headers: buildHeaders(otlp.headers, { 'content-type': 'application/json' }),
      body: writeJson(
        buildMetricsExport(source, readings, {
          since,
          now: source.now,
          node: this.#world.jobs?.node,
        }),
      ),
    }
    const sending = { timeout, requests: this.#requests, isOperators: true }
    const reason = describeReason(await sendDelivery(this.#world, request, sending))
    this.#world.events.publish('metrics.exported', { reason })
  }

  /** Ends what runs, and exports for the last time. */
  async stop(): Promise<void> {
    this.#removeListener()
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.export(LAST_TIMEOUT)
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    const { otlp } = this.#world.config.telemetry
    if (!otlp?.metrics) return
    this.#counted ??= {
      metrics: openMetrics(this.#world),
      since: this.#world.clock.now().getTime(),
    }
    this.#timer = setTimeout(() => {
      void this.export().finally(() => {
        if (this.#timer !== undefined) this.#schedule()
      })
    }, otlp.metrics_seconds * 1000)
  }
}
