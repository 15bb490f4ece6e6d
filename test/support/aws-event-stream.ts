import { crc32 } from 'node:zlib'

/**
 * A header of a message: its name, its value's type number, and its value's bytes without length.
 */
export type HeaderBytes = [name: string, type: number, value: Uint8Array]

const TEXT = 7
const SIZED = [6, TEXT]

/** Builds a text header. */
export const textHeader = (name: string, value: string): HeaderBytes => [
  name,
  TEXT,
  Buffer.from(value),
]

/** Builds a message of `application/vnd.amazon.eventstream`, with both checksums. */
export function awsMessage(headers: HeaderBytes[], payload: string | Uint8Array): Uint8Array {
  const head = Buffer.concat(headers.map(headerBytes))
  const body = Buffer.from(payload as string)
  const lengths = uint32(16 + head.length + body.length, head.length)
  const prelude = Buffer.concat([lengths, uint32(crc32(lengths))])
  const checked = Buffer.concat([prelude, head, body])
  return Buffer.concat([checked, uint32(crc32(checked))])
}

/** Builds an event as Bedrock sends it. */
export const awsEvent = (event: string, payload: string): Uint8Array =>
  awsMessage(
    [
      textHeader(':event-type', event),
      textHeader(':content-type', 'application/json'),
      textHeader(':message-type', 'event'),
    ],
    payload,
  )

/** Builds a failure that the service models: its name and its message. */
export const awsException = (exception: string, payload: string): Uint8Array =>
  awsMessage(
    [
      textHeader(':exception-type', exception),
      textHeader(':content-type', 'application/json'),
      textHeader(':message-type', 'exception'),
    ],
    payload,
  )

/** Builds a failure that the service does not model. */
export const awsError = (code: string, message: string): Uint8Array =>
  awsMessage(
    [
      textHeader(':message-type', 'error'),
      textHeader(':error-code', code),
      textHeader(':error-message', message),
    ],
    '',
  )

function headerBytes([name, type, value]: HeaderBytes): Buffer {
  const length = SIZED.includes(type) ? [value.length >> 8, value.length & 0xff] : []
  return Buffer.concat([
    Uint8Array.of(Buffer.byteLength(name)),
    Buffer.from(name),
    Uint8Array.of(type, ...length),
    value,
  ])
}

function uint32(...numbers: number[]): Buffer {
  const bytes = Buffer.alloc(4 * numbers.length)
  for (const [i, number] of numbers.entries()) bytes.writeUInt32BE(number, 4 * i)
  return bytes
}
