import type { Static, TObject } from '@sinclair/typebox'
import { toReceivedText } from '../../../base/printable.ts'
import { buildHeaders, fillConfig } from '../config.ts'
import { judgeOtlp } from '../judge.ts'
import type { DeliveryRequest, DestinationKind } from '../kind.ts'
import {
  buildOtlp,
  type OtlpAttribute,
  type OtlpExport,
  type OtlpOptions,
  type OtlpSpan,
  type OtlpValue,
} from '../otlp.ts'
import { writeJson } from '../text.ts'

/** A kind that takes OTLP/HTTP: where it listens, and how it knows who sends. */
interface OtlpKind<Config extends TObject>
  extends Pick<DestinationKind<Config>, 'type' | 'config' | 'secrets' | 'address'> {
  /** Protocol Buffers where the vendor documents no JSON. */
  encoding?: 'json' | 'protobuf'
  findUrl(config: Static<Config>): string
  /** The headers that the kind sends itself, by their names in lower case. */
  buildHeaders?(config: Static<Config>): Record<string, string>
  buildOptions?(config: Static<Config>): OtlpOptions
}

/** Every span is an entry of its own, and large ones have megabytes. */
const BATCH = 50

/**
 * Creates a kind of destination that takes OTLP/HTTP. Its test is an export without spans: the
 * vendor checks the credentials, and nothing appears there.
 */
export function createOtlpKind<Config extends TObject>(
  kind: OtlpKind<Config>,
): DestinationKind<Config> {
  const { type, config: schema, secrets, address } = kind
  const request = (config: Static<Config>, body: OtlpExport) => renderRequest(kind, config, body)
  return {
    ...{ type, config: schema, secrets, address },
    batchSize: BATCH,
    render(world, config, traces) {
      const filled = fillConfig(schema, config)
      return request(filled, buildOtlp(world, traces, kind.buildOptions?.(filled)))
    },
    renderTest: (_, config) => request(fillConfig(schema, config), { resourceSpans: [] }),
    judge: judgeOtlp,
  }
}

function renderRequest<Config extends TObject>(
  kind: OtlpKind<Config>,
  config: Static<Config>,
  body: OtlpExport,
): DeliveryRequest {
  const isBinary = kind.encoding === 'protobuf'
  return {
    method: 'POST',
    url: kind.findUrl(config),
    headers: buildHeaders((config as { headers?: Record<string, string> }).headers, {
      ...kind.buildHeaders?.(config),
      'content-type': isBinary ? 'application/x-protobuf' : 'application/json',
    }),
    body: isBinary ? encodeOtlp(body) : writeJson(body),
  }
}

/*
 * OTLP in Protocol Buffers, for receivers that take no JSON. The numbers of fields are those of
 * opentelemetry-proto 1.x (`trace_service.proto`, `trace.proto`, `common.proto`).
 */

/** Encodes an export of traces as an `ExportTraceServiceRequest`. */
export function encodeOtlp({ resourceSpans }: OtlpExport): Uint8Array {
  const writer = new Writer()
  for (const { resource, scopeSpans } of resourceSpans)
    writer.message(1, () => {
      writer.message(1, () => writeAttributes(writer, 1, resource.attributes))
      for (const { scope, spans } of scopeSpans)
        writer.message(2, () => {
          writer.message(1, () => writer.text(1, scope.name))
          for (const span of spans) writer.message(2, () => writeSpan(writer, span))
        })
    })
  return writer.finish()
}

function writeSpan(writer: Writer, span: OtlpSpan): void {
  writer.hex(1, span.traceId)
  writer.hex(2, span.spanId)
  if (span.parentSpanId !== undefined) writer.hex(4, span.parentSpanId)
  writer.text(5, span.name)
  writer.count(6, span.kind)
  writer.nanoseconds(7, span.startTimeUnixNano)
  writer.nanoseconds(8, span.endTimeUnixNano)
  writeAttributes(writer, 9, span.attributes)
  for (const { name, timeUnixNano, attributes } of span.events ?? [])
    writer.message(11, () => {
      writer.nanoseconds(1, timeUnixNano)
      writer.text(2, name)
      writeAttributes(writer, 3, attributes)
    })
  const { message, code } = span.status
  writer.message(15, () => {
    if (message !== undefined) writer.text(2, message)
    writer.count(3, code)
  })
}

function writeAttributes(writer: Writer, field: number, attributes: OtlpAttribute[]): void {
  for (const { key, value } of attributes)
    writer.message(field, () => {
      writer.text(1, key)
      writer.message(2, () => writeValue(writer, value))
    })
}

function writeValue(writer: Writer, value: OtlpValue): void {
  if ('stringValue' in value) writer.text(1, value.stringValue)
  else if ('boolValue' in value) writer.count(2, value.boolValue ? 1 : 0)
  else if ('intValue' in value) writer.count(3, value.intValue)
  else writer.double(4, value.doubleValue)
}

const VARINT = 0
const FIXED = 1
const LENGTH = 2

/** The most bytes of the length of a message, and of a tag. */
const LONGEST_VARINT = 10

/** Writes the fields of messages (Protocol Buffers, "Encoding") into one growing buffer. */
class Writer {
  #bytes = Buffer.allocUnsafe(16_384)
  #end = 0

  /** Returns what was written. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#end)
  }

  /** Writes a message. Its length stands before it, so what is longer than a byte tells moves. */
  message(field: number, write: () => void): void {
    this.#tag(field, LENGTH)
    const start = this.#end
    this.#end += 1
    write()
    const length = this.#end - start - 1
    const size = measureVarint(length)
    if (size > 1) {
      this.#reserve(size)
      this.#bytes.copyWithin(start + size, start + 1, this.#end)
    }
    this.#end = start
    this.#varint(length)
    this.#end += length
  }

  text(field: number, given: string): void {
    const text = toReceivedText(given)
    const length = Buffer.byteLength(text)
    this.#tag(field, LENGTH)
    this.#varint(length)
    this.#reserve(length)
    this.#end += this.#bytes.write(text, this.#end)
  }

  hex(field: number, digits: string): void {
    this.#tag(field, LENGTH)
    this.#varint(digits.length / 2)
    this.#reserve(digits.length)
    this.#end += this.#bytes.write(digits, this.#end, 'hex')
  }

  count(field: number, value: number): void {
    this.#tag(field, VARINT)
    if (value >= 0) this.#varint(value)
    else this.#negative(value)
  }

  double(field: number, value: number): void {
    this.#tag(field, FIXED)
    this.#end = this.#bytes.writeDoubleLE(value, this.#end)
  }

  nanoseconds(field: number, digits: string): void {
    this.#tag(field, FIXED)
    this.#end = this.#bytes.writeBigUInt64LE(BigInt(digits), this.#end)
  }

  #tag(field: number, type: number): void {
    this.#reserve(2 * LONGEST_VARINT)
    this.#varint(field * 8 + type)
  }

  #varint(value: number): void {
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) this.#bytes[this.#end++] = (rest % 128) | 128
    this.#bytes[this.#end++] = rest
  }

  // A negative number is its two's complement of 64 bits, and takes ten bytes.
  #negative(value: number): void {
    let rest = BigInt.asUintN(64, BigInt(value))
    for (; rest > 127n; rest >>= 7n) this.#bytes[this.#end++] = Number(rest & 127n) | 128
    this.#bytes[this.#end++] = Number(rest)
  }

  #reserve(length: number): void {
    const needed = this.#end + length + LONGEST_VARINT
    if (needed <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length))
    this.#bytes.copy(grown, 0, 0, this.#end)
    this.#bytes = grown
  }
}

function measureVarint(value: number): number {
  let size = 1
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size += 1
  return size
}
