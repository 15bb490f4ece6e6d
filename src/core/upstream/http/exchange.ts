import { type ResponseHead, ResponseParser, type ResponseSink } from './response-parser.ts'

/** What an exchange asks of the connection that carries it. */
export interface Carrier {
  pause(): void
  resume(): void
  /** The answer is whole, and the connection free, or fit for nothing more. */
  release(reusable: boolean): void
  /** The connection is given up at once. */
  destroy(): void
}

/** More than this waits unread for nobody: the connection is paused. */
const MOST_UNREAD = 256 * 1024

/**
 * One request and its answer on one connection. The answer is read as its reader asks: `head` first, then `read` until null.
 * Whatever goes wrong, each of them that waits, and the next one asked, is told.
 */
export class Exchange implements ResponseSink {
  readonly headed = Promise.withResolvers<ResponseHead>()
  readonly #parser = new ResponseParser(this)
  readonly #unread: Uint8Array[] = []
  #size = 0
  #carrier: Carrier | null = null
  #waiting: PromiseWithResolvers<Uint8Array | null> | null = null
  #ended = false
  #failure: unknown = null
  /** Whether the server has said anything: from then on the request may have had its effect. */
  answered = false

  constructor() {
    // Whoever asks for the head hears of a failure; when nobody does, it is nobody's.
    this.headed.promise.catch(() => undefined)
  }

  /** The connection that carries it, once there is one. A failure that came before takes the connection along. */
  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier
    if (this.#failure) carrier.destroy()
  }

  get failed(): boolean {
    return this.#failure !== null
  }

  /** The next bytes of the body; null after the last. Throws what went wrong. */
  async read(): Promise<Uint8Array | null> {
    const bytes = this.#unread.shift()
    if (bytes) return this.#given(bytes)
    if (this.#failure) throw this.#failure
    if (this.#ended) return null
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  /** The whole body, if it is here already: what a small answer mostly is. */
  whole(): Buffer | null {
    if (!this.#ended) return null
    const [only] = this.#unread
    return this.#unread.length === 1 && only ? Buffer.from(only.buffer, only.byteOffset, only.byteLength) : Buffer.concat(this.#unread)
  }

  /** Bytes from the server. */
  received(bytes: Buffer): void {
    this.answered = true
    try {
      this.#parser.feed(bytes)
    } catch (malformed) {
      this.fail(malformed)
    }
  }

  /** The server has closed the connection. */
  closed(error?: unknown): void {
    try {
      if (error) throw error
      this.#parser.closed()
    } catch (cut) {
      this.fail(cut)
    }
  }

  /** Ends it, whatever has come so far, and its connection with it. */
  fail(reason: unknown): void {
    if (this.#failure !== null || (this.#ended && this.#carrier === null)) return
    this.#failure = reason
    this.headed.reject(reason)
    this.#waiting?.reject(reason)
    this.#waiting = null
    this.#carrier?.destroy()
    this.#carrier = null
  }

  head(head: ResponseHead): void {
    this.headed.resolve(head)
  }

  bytes(bytes: Uint8Array): void {
    if (this.#waiting) {
      this.#waiting.resolve(bytes)
      this.#waiting = null
      return
    }
    this.#unread.push(bytes)
    this.#size += bytes.length
    if (this.#size > MOST_UNREAD) this.#carrier?.pause()
  }

  end(reusable: boolean): void {
    this.#ended = true
    this.#waiting?.resolve(null)
    this.#waiting = null
    this.#carrier?.release(reusable)
    this.#carrier = null
  }

  #given(bytes: Uint8Array): Uint8Array {
    if (this.#size > MOST_UNREAD) this.#carrier?.resume()
    this.#size -= bytes.length
    return bytes
  }
}
