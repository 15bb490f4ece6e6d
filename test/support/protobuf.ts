/** A field of a message in Protocol Buffers: a number, eight bytes, or bytes of a length. */
export interface ProtobufField {
  number: number
  value: bigint | Uint8Array
}

/**
 * Reads the fields of a message (Protocol Buffers, "Encoding"). Throws if the bytes are no message.
 * Written for tests from the specification, and not from the encoder.
 */
export function readProtobuf(bytes: Uint8Array): ProtobufField[] {
  const fields: ProtobufField[] = []
  let at = 0
  const readVarint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]
      if (byte === undefined || shift > 63n) throw new Error('A varint does not end')
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  const take = (length: number): Uint8Array => {
    if (at + length > bytes.length) throw new Error('A field is longer than its message')
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(readVarint())
    const number = tag >> 3
    if (number === 0) throw new Error('There is no field 0')
    if ((tag & 7) === 5) fields.push({ number, value: take(4) })
    else if ((tag & 7) === 0) fields.push({ number, value: readVarint() })
    else if ((tag & 7) === 1) fields.push({ number, value: take(8) })
    else if ((tag & 7) === 2) fields.push({ number, value: take(Number(readVarint())) })
    else throw new Error(`There is no wire type ${tag & 7}`)
  }
  return fields
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Finds the messages and texts along a path of field numbers. */
const find = (bytes: Uint8Array, ...path: number[]): Uint8Array[] => {
  const [first, ...rest] = path
  if (first === undefined) return [bytes]
  return readProtobuf(bytes)
    .filter(({ number, value }) => number === first && typeof value !== 'bigint')
    .flatMap(({ value }) => find(value as Uint8Array, ...rest))
}

/** Reads the keys, the texts of values, names and messages of an `ExportTraceServiceRequest`. */
export const readProtobufTexts = (bytes: Uint8Array): string[] =>
  [
    ...[
      [1, 1, 1, 1],
      [1, 1, 1, 2, 1],
      [1, 2, 1, 1],
      [1, 2, 2, 5],
      [1, 2, 2, 9, 1],
    ],
    ...[
      [1, 2, 2, 9, 2, 1],
      [1, 2, 2, 11, 2],
      [1, 2, 2, 11, 3, 2, 1],
      [1, 2, 2, 15, 2],
    ],
  ].flatMap(path => find(bytes, ...path).map(text => UTF8.decode(text)))

/** The messages of OTLP's traces (opentelemetry-proto, `trace.proto`), by their fields' numbers. */
const MESSAGES: Record<string, Record<number, [name: string, type: string]>> = {
  Export: { 1: ['resourceSpans', 'ResourceSpans'] },
  ResourceSpans: { 1: ['resource', 'Resource'], 2: ['scopeSpans', 'ScopeSpans'] },
  Resource: { 1: ['attributes', 'KeyValue'] },
  ScopeSpans: { 1: ['scope', 'Scope'], 2: ['spans', 'Span'] },
  Scope: { 1: ['name', 'text'] },
  Span: {
    ...{ 1: ['traceId', 'bytes'], 2: ['spanId', 'bytes'], 4: ['parentSpanId', 'bytes'] },
    ...{ 5: ['name', 'text'], 6: ['kind', 'count'], 7: ['start', 'time'], 8: ['end', 'time'] },
    ...{ 9: ['attributes', 'KeyValue'], 11: ['events', 'Event'], 15: ['status', 'Status'] },
  },
  Event: { 1: ['time', 'time'], 2: ['name', 'text'], 3: ['attributes', 'KeyValue'] },
  Status: { 2: ['message', 'text'], 3: ['code', 'count'] },
  KeyValue: { 1: ['key', 'text'], 2: ['value', 'Value'] },
  Value: {
    ...{ 1: ['string', 'text'], 2: ['bool', 'count'], 3: ['number', 'count'] },
    4: ['number', 'number'],
  },
}

/**
 * Describes an `ExportTraceServiceRequest` as a list of its fields, in order. Counts of what was
 * dropped, flags and empty texts are left out: they are defaults that some encoders write.
 */
export function describeOtlp(bytes: Uint8Array, message = 'Export'): unknown {
  return readProtobuf(bytes).flatMap(({ number, value }) => {
    const [name, type] = MESSAGES[message]?.[number] ?? []
    if (name === undefined || type === undefined) return []
    const told = describeField(value, type)
    return told === '' && name === 'message' ? [] : [[name, told]]
  })
}

/** A span of an export: its attributes, and those of its resource. */
export interface DescribedSpan {
  resource: Record<string, unknown>
  attributes: Record<string, unknown>
}

/** Lists the spans of an `ExportTraceServiceRequest` as `describeOtlp` has described it. */
export function listDescribedSpans(described: unknown): DescribedSpan[] {
  const list = (fields: unknown, name: string): unknown[] =>
    (fields as [string, unknown][]).flatMap(([one, value]) => (one === name ? [value] : []))
  const readAttributes = (fields: unknown): Record<string, unknown> =>
    Object.fromEntries(
      list(fields, 'attributes').map(attribute => [
        list(attribute, 'key')[0],
        (list(attribute, 'value')[0] as [string, unknown][])[0]?.[1],
      ]),
    )
  return list(described, 'resourceSpans').flatMap(own =>
    list(own, 'scopeSpans').flatMap(scope =>
      list(scope, 'spans').map(span => ({
        resource: Object.assign({}, ...list(own, 'resource').map(readAttributes)),
        attributes: readAttributes(span),
      })),
    ),
  )
}

function describeField(value: bigint | Uint8Array, type: string): unknown {
  if (typeof value === 'bigint') return Number(BigInt.asIntN(64, value))
  const buffer = Buffer.from(value)
  if (type === 'text') return UTF8.decode(value)
  if (type === 'bytes') return buffer.toString('hex')
  if (type === 'time') return buffer.readBigUInt64LE().toString()
  if (type === 'number') return buffer.readDoubleLE()
  if (type === 'count') throw new Error('A count is a varint')
  return describeOtlp(value, type)
}
