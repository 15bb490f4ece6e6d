import type { Frame, Framing, Reader } from '../protocols/protocol.ts'
import type { Deadline } from './answer.ts'
import { AwsEventStreamScanner } from './aws-event-stream.ts'
import type { IncomingResponse } from './egress.ts'
import { SseScanner } from './sse.ts'

/**
 * Splits bytes into frames, however reads have split them. Throws `provider_unavailable` for bytes
 * that cannot be frames.
 */
export interface FrameScanner {
  /** Returns the frames that these bytes complete. */
  feed(bytes: Uint8Array): Frame[]
  /** Returns the frames that the end of the stream completes. */
  end(): Frame[]
}

const SCANNERS: Record<Framing | 'bytes', () => FrameScanner> = {
  bytes: () => BYTES,
  sse: () => new SseScanner(),
  'aws-event-stream': () => new AwsEventStreamScanner(),
}

/** Each read is a frame. */
const BYTES: FrameScanner = {
  feed: bytes => [{ event: null, data: '', bytes }],
  end: () => [],
}

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
  readonly #deadline: Deadline
  readonly #scanner: FrameScanner
  #over = false
  #failure: unknown

  constructor(
    incoming: IncomingResponse,
    reader: Reader<Part>,
    framing: Framing | 'bytes',
    deadline: Deadline,
  ) {
    this.#incoming = incoming
    this.#reader = reader
    this.#deadline = deadline
    this.#scanner = SCANNERS[framing]()
  }

  async next(): Promise<IteratorResult<Part[]>> {
    this.#deadline.resume()
    try {
      while (!this.#reader.complete) {
        if (this.#failure) throw this.#failure
        const parts = this.#readParts(await this.#incoming.read())
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

  #readParts(bytes: Uint8Array | null): Part[] {
    if (!bytes) return this.#readLastParts()
    this.#deadline.touch(bytes.length)
    return this.#parseFrames(this.#scanner.feed(bytes))
  }

  // The connection has ended, so an answer that is not complete now never will be.
  #readLastParts(): Part[] {
    const parts = this.#parseFrames(this.#scanner.end())
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
    const timer = setTimeout(() => this.#deadline.abort(), CLOSE_GRACE)
    void this.#drain().finally(() => clearTimeout(timer))
    return END
  }

  async #drain(): Promise<void> {
    try {
      while (await this.#incoming.read());
    } catch {
      // The answer is complete, so a failure after its end does not matter.
    }
  }
}

// A body without both goes on until its connection closes (RFC 9112, 6.3).
const isFramed = (incoming: IncomingResponse): boolean =>
  incoming.header('transfer-encoding') !== null || incoming.header('content-length') !== null

const END: IteratorReturnResult<undefined> = { done: true, value: undefined }
