import { GatewayError } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { parseLargeJson } from '../base/large-json.ts'
import type { Frame, Framing, Reader } from '../translation/protocols/protocol.ts'
import type { IncomingResponse } from './egress.ts'
import { LARGEST_EVENT, SseScanner } from './sse.ts'

/**
 * Splits bytes into frames, however reads have split them. Throws `provider_unavailable` for bytes
 * that cannot be frames.
 */
export interface FrameScanner {
  /** Returns the frames that these bytes complete. */
  feed(bytes: Uint8Array): Frame[]
  /** Returns the frames that the end of the stream completes. */
  end(): Frame[]
  /** How much is held of a frame that is not whole yet. */
  readonly held: number
}

const SCANNERS: Record<Framing | 'bytes', (largest: number) => FrameScanner> = {
  bytes: () => BYTES,
  sse: largest => new SseScanner(largest),
  'aws-event-stream': largest => new AwsEventStreamScanner(largest),
}

/** Each read is a frame. */
const BYTES: FrameScanner = {
  feed: bytes => [{ event: null, data: '', bytes }],
  end: () => [],
  held: 0,
}

/** How large one event of a stream may be, and what it waits for where it is large. */
export interface EventRoom {
  /** The most bytes of one event. */
  largest: number
  /** Resolves once there is memory for an event that is expected to have so many bytes. */
  waitForMemory?: ((bytes: number) => Promise<void>) | undefined
}

/** The time limits of the attempt that a stream is the answer of. */
interface ReadingDeadline {
  touch(size: number): void
  pause(): void
  resume(): void
  close(): void
  abort(): void
  /** Converts what a read has thrown to what the call fails with. */
  toGatewayError(thrown: unknown): GatewayError
}

/** A frame of more takes much memory until it has been passed on. */
const LARGE = 256 * 1024

/** As many bytes are read at once. A connection may bring half a megabyte. */
const PIECE = 64 * 1024

/** An event of which more is still to come is expected to have so many times what is held of it. */
const EXPECTED = 4

/** How many milliseconds a provider may take to close an answer after its terminal event. */
const CLOSE_GRACE = 1_000

/**
 * A streamed answer as batches of parts, one batch for each read that completes any. Not a
 * generator: `return` closes the upstream at once, even while a read is waiting. Only the reader
 * knows whether the answer is whole. A body that ends before is a failure, however cleanly it ended.
 */
export class PartStream<Part> implements AsyncIterator<Part[]> {
  readonly #incoming: IncomingResponse
  readonly #reader: Reader<Part>
  readonly #deadline: ReadingDeadline
  readonly #scanner: FrameScanner
  readonly #room: EventRoom
  /** The bytes of an event for which there is memory. */
  #expected = LARGE
  #over = false
  #failure: unknown
  /** What is left of a read. */
  #rest: Uint8Array | null = null

  constructor(
    incoming: IncomingResponse,
    reader: Reader<Part>,
    framing: Framing | 'bytes',
    deadline: ReadingDeadline,
    room: EventRoom = { largest: LARGEST_EVENT },
  ) {
    this.#incoming = incoming
    this.#reader = reader
    this.#deadline = deadline
    this.#room = room
    this.#scanner = SCANNERS[framing](room.largest)
  }

  async next(): Promise<IteratorResult<Part[]>> {
    this.#deadline.resume()
    try {
      while (!this.#reader.complete) {
        if (this.#failure) throw this.#failure
        const bytes = this.#rest ?? (await this.#incoming.read())
        const isLong = bytes !== null && bytes.length > PIECE
        this.#rest = null
        const read = this.#readParts(isLong ? this.#cut(bytes) : bytes)
        const parts = read instanceof Promise ? await read : read
        if (parts.length === 0) continue
        this.#deadline.pause()
        return { done: false, value: parts }
      }
    } catch (thrown) {
      const error = this.#deadline.toGatewayError(thrown)
      await this.return()
      throw error
    }
    return this.#finish()
  }

  async return(): Promise<IteratorResult<Part[]>> {
    if (this.#over) return END
    this.#over = true
    this.#deadline.abort()
    return END
  }

  /** Returns the first bytes: what waits for a slow reader is no more than the parts of a piece. */
  #cut(bytes: Uint8Array): Uint8Array {
    this.#rest = bytes.subarray(PIECE)
    return bytes.subarray(0, PIECE)
  }

  #readParts(bytes: Uint8Array | null): Part[] | Promise<Part[]> {
    if (bytes) this.#deadline.touch(bytes.length)
    const frames = bytes ? this.#scanner.feed(bytes) : this.#scanner.end()
    if (bytes && frames.length === 0) return this.#awaitRoom()
    for (let i = 0; i < frames.length; i++)
      if ((frames[i]?.data.length ?? 0) > LARGE)
        return this.#readLargeFrames(frames, bytes !== null)
    return bytes ? this.#parseFrames(frames) : this.#readLastParts(frames)
  }

  /** Waits for the memory of an event that turns out to be larger, while the upstream waits too. */
  #awaitRoom(): Part[] | Promise<Part[]> {
    const { held } = this.#scanner
    if (held <= this.#expected) return []
    this.#expected = Math.min(held * EXPECTED, this.#room.largest)
    return this.#waitForMemory()
  }

  async #waitForMemory(): Promise<Part[]> {
    this.#deadline.pause()
    await this.#room.waitForMemory?.(this.#expected)
    this.#deadline.resume()
    return []
  }

  async #readLargeFrames(frames: Frame[], goesOn: boolean): Promise<Part[]> {
    for (const frame of frames)
      if (frame.data.length > LARGE) frame.json = await parseInTurns(frame.data)
    return goesOn ? this.#parseFrames(frames) : this.#readLastParts(frames)
  }

  // The connection has ended, so an answer that is not complete now never will be.
  #readLastParts(frames: Frame[]): Part[] {
    const parts = this.#parseFrames(frames)
    if (!this.#failure && this.#reader.end)
      for (const part of this.#reader.end(isFramed(this.#incoming))) parts.push(part)
    if (this.#failure || this.#reader.complete) return parts
    this.#failure = this.#reader.failure ?? new Error('An answer that broke off')
    if (parts.length === 0) throw this.#failure
    return parts
  }

  // Parts before a failure are delivered, also when both came in one read.
  #parseFrames(frames: Frame[]): Part[] {
    const parts: Part[] = []
    try {
      // One at a time: as arguments of one call, many parts overflow the stack.
      for (const frame of frames) {
        for (const part of this.#reader.read(frame)) parts.push(part)
        if (this.#reader.failure) throw this.#reader.failure
      }
    } catch (thrown) {
      if (parts.length === 0) throw thrown
      this.#failure = thrown
    }
    return parts
  }

  // The connection can serve another call once its last bytes are read. The answer does not wait.
  #finish(): IteratorResult<Part[]> {
    if (this.#over) return END
    this.#over = true
    this.#deadline.close()
    void this.#drain()
    return END
  }

  async #drain(): Promise<void> {
    const timer = setTimeout(() => this.#deadline.abort(), CLOSE_GRACE)
    try {
      while (await this.#incoming.read());
    } catch {
      // The answer is complete, so a failure after its end does not matter.
    }
    clearTimeout(timer)
  }
}

// A body without both goes on until its connection closes (RFC 9112, 6.3).
const isFramed = (incoming: IncomingResponse): boolean =>
  incoming.header('transfer-encoding') !== null || incoming.header('content-length') !== null

async function parseInTurns(data: string) {
  try {
    const value = await parseLargeJson(data)
    // Some servers wrap an event in a list.
    const first = Array.isArray(value) ? value[0] : value
    return isObject(first) ? first : null
  } catch {
    return null
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }

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

const TEXT_VALUE = 7
const BYTES_VALUE = 6

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
    if (type === TEXT_VALUE)
      texts.set(
        headers.toString('utf8', offset + 1, nameEnd),
        headers.toString('utf8', start, start + length),
      )
    offset = start + length
  }
  return texts
}

const isSized = (type: number) => type === TEXT_VALUE || type === BYTES_VALUE

/** Returns the bytes if they hold so many at this offset. Throws otherwise. */
function checkBounds(bytes: Buffer, offset: number, length: number): Buffer {
  if (offset + length > bytes.length) throw unreadable()
  return bytes
}

const unreadable = () => new GatewayError('provider_unavailable', 'Provider returned error')
