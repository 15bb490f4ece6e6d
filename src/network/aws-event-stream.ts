import { GatewayError } from '../base/errors.ts'
import type { Frame } from '../translation/protocols/protocol.ts'
import { LARGEST_EVENT } from './sse.ts'

/** The bytes of the message's length, the headers' length, and the checksum of both. */
const PRELUDE = 12
const CHECKSUM = 4

/**
 * Splits bytes into the messages of an AWS event stream (`application/vnd.amazon.eventstream`;
 * Smithy's event stream specification), wherever reads have split them. Linear: a message that
 * arrives in one read is not copied. Any other is gathered in a buffer of its announced length.
 * Anything inconsistent throws `provider_unavailable`.
 */
export class AwsEventStreamScanner {
  /** Holds a prelude, or the message that it has announced. */
  #buffer = Buffer.alloc(PRELUDE)
  #filled = 0
  readonly #largest: number

  /** `largest` is the most bytes of one message: a server that announces more is broken. */
  constructor(largest = LARGEST_EVENT) {
    this.#largest = largest
  }

  /** How many bytes a message takes that is not whole yet: those that it has announced. */
  get held(): number {
    return this.#filled === 0 ? 0 : this.#buffer.length
  }

  /** Returns the frames that these bytes complete. Throws on a bad checksum and past the most. */
  feed(bytes: Uint8Array): Frame[] {
    const frames: Frame[] = []
    let rest = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    while (rest.length > 0) {
      const message = this.#filled === 0 ? this.#takeWhole(rest) : null
      if (message) frames.push(parseFrame(message))
      rest = message ? rest.subarray(message.length) : this.#gather(rest, frames)
    }
    return frames
  }

  /** Returns no frames, as only whole messages count. Throws when one is incomplete. */
  end(): Frame[] {
    if (this.#filled > 0) throw unreadable()
    return []
  }

  #takeWhole(bytes: Buffer): Buffer | null {
    if (bytes.length < PRELUDE) return null
    const length = readLength(bytes, this.#largest)
    return bytes.length < length ? null : bytes.subarray(0, length)
  }

  /** Copies what fits into the buffer and returns the rest. */
  #gather(bytes: Buffer, frames: Frame[]): Buffer {
    const taken = bytes.copy(this.#buffer, this.#filled)
    this.#filled += taken
    if (this.#filled === this.#buffer.length) this.#completeBuffer(frames)
    return bytes.subarray(taken)
  }

  #completeBuffer(frames: Frame[]): void {
    const gathered = this.#buffer
    if (gathered.length > PRELUDE) {
      frames.push(parseFrame(gathered))
      this.#buffer = Buffer.alloc(PRELUDE)
      this.#filled = 0
    } else {
      this.#buffer = Buffer.allocUnsafe(readLength(gathered, this.#largest))
      gathered.copy(this.#buffer)
    }
  }
}

/** Reads the total length of a message from its prelude. */
function readLength(bytes: Buffer, largest: number): number {
  const length = bytes.readUInt32BE(0)
  if (
    Bun.hash.crc32(bytes.subarray(0, PRELUDE - CHECKSUM)) !== bytes.readUInt32BE(PRELUDE - CHECKSUM)
  )
    throw unreadable()
  if (length > largest || length < PRELUDE + bytes.readUInt32BE(4) + CHECKSUM) throw unreadable()
  return length
}

function parseFrame(message: Buffer): Frame {
  const end = message.length - CHECKSUM
  if (Bun.hash.crc32(message.subarray(0, end)) !== message.readUInt32BE(end)) throw unreadable()
  const headersEnd = PRELUDE + message.readUInt32BE(4)
  const headers = readTextHeaders(message.subarray(PRELUDE, headersEnd))
  const readPayload = () => message.toString('utf8', headersEnd, end)
  switch (headers.get(':message-type')) {
    case 'event':
      return { event: headers.get(':event-type') ?? null, data: readPayload() }
    case 'exception':
      return { event: headers.get(':exception-type') ?? null, data: readPayload() }
    case 'error':
      return {
        event: headers.get(':error-code') ?? null,
        data: JSON.stringify({ message: headers.get(':error-message') ?? '' }),
      }
    default:
      throw unreadable()
  }
}

const TEXT = 7
const BYTES = 6

/** The size of a value by its type: true, false, byte, short, integer, long; timestamp and UUID. */
const FIXED: Record<number, number> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }

/** Reads the text headers by name, and skips the others. */
function readTextHeaders(headers: Buffer): Map<string, string> {
  const texts = new Map<string, string>()
  let offset = 0
  while (offset < headers.length) {
    const nameEnd = offset + 1 + headers.readUInt8(offset)
    const type = checkBounds(headers, nameEnd, 1).readUInt8(nameEnd)
    const start = nameEnd + 1 + (isSized(type) ? 2 : 0)
    const length = isSized(type)
      ? checkBounds(headers, nameEnd + 1, 2).readUInt16BE(nameEnd + 1)
      : FIXED[type]
    if (length === undefined) throw unreadable()
    checkBounds(headers, start, length)
    if (type === TEXT)
      texts.set(
        headers.toString('utf8', offset + 1, nameEnd),
        headers.toString('utf8', start, start + length),
      )
    offset = start + length
  }
  return texts
}

const isSized = (type: number) => type === TEXT || type === BYTES

/** Returns the bytes if they hold so many at this offset. Throws otherwise. */
function checkBounds(bytes: Buffer, offset: number, length: number): Buffer {
  if (offset + length > bytes.length) throw unreadable()
  return bytes
}

const unreadable = () => new GatewayError('provider_unavailable', 'Provider returned error')
