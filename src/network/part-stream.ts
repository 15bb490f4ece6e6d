import type { GatewayError } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { parseLargeJson } from '../base/large-json.ts'
import type { Frame, Framing, Reader } from '../translation/protocols/protocol.ts'
import { AwsEventStreamScanner } from './aws-event-stream.ts'
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
