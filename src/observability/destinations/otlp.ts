import type { Attributes } from './otlp/attributes.ts'
import { buildChildAttributes, buildRootAttributes } from './otlp/attributes.ts'
import { cutText } from './text.ts'
import type { SpanValue, Trace, TraceSpan } from './trace.ts'

/** The body of an OTLP/HTTP export of traces (`ExportTraceServiceRequest`). */
export interface OtlpExport {
  resourceSpans: OtlpResourceSpans[]
}

interface OtlpResourceSpans {
  resource: { attributes: OtlpAttribute[] }
  scopeSpans: { scope: { name: string }; spans: OtlpSpan[] }[]
}

export interface OtlpSpan {
  traceId: string
  spanId: string
  parentSpanId?: string | undefined
  name: string
  /** 1 internal, 2 server, 3 client. */
  kind: number
  /** Nanoseconds since the epoch, in decimal digits. */
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: OtlpAttribute[]
  events?: { name: string; timeUnixNano: string; attributes: OtlpAttribute[] }[] | undefined
  /** 1 ok, 2 error. */
  status: { code: number; message?: string }
}

export interface OtlpAttribute {
  key: string
  value: OtlpValue
}

export type OtlpValue =
  | { stringValue: string }
  | { boolValue: boolean }
  | { intValue: number }
  | { doubleValue: number }

/** What a vendor wants beside the attributes that every receiver gets. */
export interface OtlpOptions {
  resource?: Attributes
  buildAttributes?(trace: Trace, span: TraceSpan): Attributes
}

/** Who tells: in the resource of every span. */
export interface OtlpSource {
  serviceName: string
  version: string
}

/** Longer values are cut, and `<key>.truncated` says so (wire reference G.5). */
export const LONGEST_VALUE = 10_000_000

/**
 * Builds an export of traces (wire reference G.5): one entry for each span, the root of a trace
 * first. The attributes of a vendor come after those that every receiver gets.
 */
export const buildOtlp = (
  source: OtlpSource,
  traces: Trace[],
  options: OtlpOptions = {},
): OtlpExport => ({
  resourceSpans: traces.flatMap(trace => {
    const resource = { attributes: buildResource(source, trace, options) }
    const scope = { name: source.serviceName }
    return trace.spans.map(span => ({
      resource,
      scopeSpans: [{ scope, spans: [buildSpan(source, trace, span, options)] }],
    }))
  }),
})

const buildResource = (source: OtlpSource, trace: Trace, { resource }: OtlpOptions) =>
  listAttributes({
    'service.name': source.serviceName,
    'service.version': source.version,
    'openrouter.trace.id': trace.id,
    ...resource,
  })

const KINDS = { internal: 1, server: 2, client: 3 } as const

function buildSpan(
  source: OtlpSource,
  trace: Trace,
  span: TraceSpan,
  { buildAttributes }: OtlpOptions,
): OtlpSpan {
  const attributes =
    span.role === 'root'
      ? buildRootAttributes(source.serviceName, trace, span)
      : buildChildAttributes(trace, span)
  if (buildAttributes) Object.assign(attributes, buildAttributes(trace, span))
  return {
    traceId: trace.traceId,
    spanId: span.spanId,
    // What is undefined is not in JSON.
    parentSpanId: span.parentSpanId ?? undefined,
    name: span.name,
    kind: KINDS[span.kind],
    startTimeUnixNano: toNanoseconds(span.startedAt),
    endTimeUnixNano: toNanoseconds(span.endedAt),
    attributes: listAttributes(attributes),
    events: span.error === null ? undefined : [buildException(span, span.error)],
    status: span.error === null ? { code: 1 } : { code: 2, message: span.error.message },
  }
}

const buildException = (span: TraceSpan, { type, message }: { type: string; message: string }) => ({
  name: 'exception',
  timeUnixNano: toNanoseconds(span.endedAt),
  attributes: listAttributes({ 'exception.type': type, 'exception.message': message }),
})

/** Renders milliseconds with fractions as whole nanoseconds: a double would lose the last ones. */
export function toNanoseconds(milliseconds: number): string {
  const whole = Math.floor(milliseconds)
  const fraction = Math.round((milliseconds - whole) * 1e6)
  if (fraction === 1e6) return toNanoseconds(whole + 1)
  const digits = `${whole}${String(fraction).padStart(6, '0')}`
  return whole > 0 ? digits : String(BigInt(digits))
}

/** Lists attributes in OTLP's form, with the mark of those that are cut. */
export function listAttributes(attributes: Attributes): OtlpAttribute[] {
  const list: OtlpAttribute[] = []
  for (const key in attributes) {
    const value = attributes[key] as SpanValue
    if (typeof value === 'string' && value.length > LONGEST_VALUE) {
      list.push({ key, value: { stringValue: cutText(value, LONGEST_VALUE) } })
      list.push({ key: `${key}.truncated`, value: { boolValue: true } })
    } else list.push({ key, value: toOtlpValue(value) })
  }
  return list
}

function toOtlpValue(value: SpanValue): OtlpValue {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number' && Number.isSafeInteger(value)) return { intValue: value }
  const number = typeof value === 'number' ? value : value.double
  // JSON has no NaN and no infinity.
  return Number.isFinite(number) ? { doubleValue: number } : { stringValue: String(number) }
}
