import type { OtlpAttribute, OtlpExport, OtlpSpan, OtlpValue } from '../otlp.ts'

/*
 * OTLP in Protocol Buffers, for receivers that take no JSON. The numbers of fields are those of
 * opentelemetry-proto 1.x (`trace_service.proto`, `trace.proto`, `common.proto`).
 */

/** Encodes an export of traces as an `ExportTraceServiceRequest`. */
export const encodeOtlp = ({ resourceSpans }: OtlpExport): Uint8Array =>
  Buffer.concat(
    resourceSpans.map(({ resource, scopeSpans }) =>
      encodeBytes(1, [
        encodeBytes(
          1,
          resource.attributes.map(attribute => encodeAttribute(1, attribute)),
        ),
        ...scopeSpans.map(({ scope, spans }) =>
          encodeBytes(2, [
            encodeBytes(1, [encodeText(1, scope.name)]),
            ...spans.map(span => encodeBytes(2, encodeSpan(span))),
          ]),
        ),
      ]),
    ),
  )

const encodeSpan = (span: OtlpSpan): Uint8Array[] => [
  encodeBytes(1, [Buffer.from(span.traceId, 'hex')]),
  encodeBytes(2, [Buffer.from(span.spanId, 'hex')]),
  ...(span.parentSpanId === undefined
    ? []
    : [encodeBytes(4, [Buffer.from(span.parentSpanId, 'hex')])]),
  encodeText(5, span.name),
  encodeCount(6, span.kind),
  encodeFixed(7, span.startTimeUnixNano),
  encodeFixed(8, span.endTimeUnixNano),
  ...span.attributes.map(attribute => encodeAttribute(9, attribute)),
  ...(span.events ?? []).map(({ name, timeUnixNano, attributes }) =>
    encodeBytes(11, [
      encodeFixed(1, timeUnixNano),
      encodeText(2, name),
      ...attributes.map(attribute => encodeAttribute(3, attribute)),
    ]),
  ),
  encodeBytes(15, [
    ...(span.status.message === undefined ? [] : [encodeText(2, span.status.message)]),
    encodeCount(3, span.status.code),
  ]),
]

const encodeAttribute = (field: number, { key, value }: OtlpAttribute): Uint8Array =>
  encodeBytes(field, [encodeText(1, key), encodeBytes(2, [encodeValue(value)])])

function encodeValue(value: OtlpValue): Uint8Array {
  if ('stringValue' in value) return encodeText(1, value.stringValue)
  if ('boolValue' in value) return encodeCount(2, value.boolValue ? 1 : 0)
  if ('intValue' in value) return encodeCount(3, value.intValue)
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value.doubleValue)
  return Buffer.concat([encodeTag(4, FIXED), bytes])
}

const VARINT = 0
const FIXED = 1
const LENGTH = 2

const encodeText = (field: number, text: string): Uint8Array =>
  encodeBytes(field, [Buffer.from(text)])

function encodeBytes(field: number, parts: Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  return Buffer.concat([encodeTag(field, LENGTH), encodeVarint(BigInt(length)), ...parts])
}

const encodeCount = (field: number, value: number): Uint8Array =>
  Buffer.concat([encodeTag(field, VARINT), encodeVarint(BigInt(value))])

function encodeFixed(field: number, nanoseconds: string): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(nanoseconds))
  return Buffer.concat([encodeTag(field, FIXED), bytes])
}

const encodeTag = (field: number, type: number): Uint8Array =>
  encodeVarint(BigInt((field << 3) | type))

// A negative number is its two's complement of 64 bits, and takes ten bytes.
function encodeVarint(value: bigint): Uint8Array {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value)
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  bytes.push(Number(rest))
  return Uint8Array.from(bytes)
}
