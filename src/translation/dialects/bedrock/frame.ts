/** What kind of message a frame is: an event of the answer, or why it broke off. */
type FrameKind = 'event' | 'exception'

const TEXT = 7
/** The bytes of the lengths and of their checksum; those of the checksum at the end. */
const PRELUDE = 12
const CHECKSUM = 4

/**
 * Renders a message of an AWS event stream, as a text of one character for each of its bytes
 * (Smithy's event stream specification).
 */
export function renderFrame(kind: FrameKind, name: string, payload: object): string {
  const headers = Buffer.concat(
    [
      [`:${kind}-type`, name],
      [':content-type', 'application/json'],
      [':message-type', kind],
    ].map(([header = '', value = '']) => renderHeader(header, value)),
  )
  const body = Buffer.from(JSON.stringify(payload))
  const frame = Buffer.alloc(PRELUDE + headers.length + body.length + CHECKSUM)
  frame.writeUInt32BE(frame.length, 0)
  frame.writeUInt32BE(headers.length, 4)
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, 8)), 8)
  headers.copy(frame, PRELUDE)
  body.copy(frame, PRELUDE + headers.length)
  const end = frame.length - CHECKSUM
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, end)), end)
  return frame.toString('latin1')
}

function renderHeader(name: string, value: string): Buffer {
  const header = Buffer.alloc(1 + name.length + 3 + value.length)
  header.writeUInt8(name.length, 0)
  header.write(name, 1, 'latin1')
  header.writeUInt8(TEXT, 1 + name.length)
  header.writeUInt16BE(value.length, 2 + name.length)
  header.write(value, 4 + name.length, 'latin1')
  return header
}
