import type { HistogramPoint, Labels, MetricReading } from '../../telemetry/metrics/instruments.ts'
import { listAttributes, type OtlpAttribute, type OtlpSource, toNanoseconds } from '../otlp.ts'

/** The body of an OTLP/HTTP export of metrics (`ExportMetricsServiceRequest`). */
export interface OtlpMetricsExport {
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
export interface MetricsPeriod {
  since: number
  now: number
}

/** Sums since the start of the process (`AGGREGATION_TEMPORALITY_CUMULATIVE`). */
const CUMULATIVE = 2

/**
 * Builds an export of metrics. Those that OpenTelemetry's conventions for generative AI know have
 * their names and attributes there, the others have those of Prometheus.
 */
export const buildMetricsExport = (
  { serviceName, version }: OtlpSource,
  readings: MetricReading[],
  period: MetricsPeriod,
): OtlpMetricsExport => ({
  resourceMetrics: [
    {
      resource: {
        attributes: listAttributes({ 'service.name': serviceName, 'service.version': version }),
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
