import { type ResponseHead, ResponseParser, type ResponseSink } from './response-parser.ts'

/** A response whose head has been read and whose body has not. */
export interface IncomingResponse {
  readonly status: number
  /** Returns a header's value by its lower-case name. */
  header(name: string): string | null
  /**
   * Returns the whole body as text, synchronously when all of it has arrived already. Throws past
   * `maxBytes`. `onBytes` is called for each read that brings bytes.
   */
  text(maxBytes: number, onBytes: (size: number) => void): string | Promise<string>
  /** Returns the next bytes; null after the last. */
  read(): Promise<Uint8Array | null>
}

/** What an exchange needs from the connection that carries it. */
export interface Carrier {
  /** Stops reading. `isLimited`: from here on the system keeps little of what comes, too. */
  pause(isLimited: boolean): void
  resume(): void
  /** Gives the connection back after a whole response. It is closed unless it is reusable. */
  release(reusable: boolean): void
  /** Closes the connection at once. */
  destroy(): void
}

/** The connection is paused from so many bytes on, until all are read and more are wanted. */
const MAX_UNREAD = 64 * 1024

/**
 * One request and its response on one connection. The reader pulls it: first `response`, then
 * `read` until null. A failure rejects whichever of them is waiting, and the next call.
 */
export class Exchange implements ResponseSink, IncomingResponse {
  /**
   * Resolves when the head has arrived: to the exchange itself, or to the response that
   * decompresses it.
   */
  readonly response = Promise.withResolvers<IncomingResponse>()
  readonly #parser = new ResponseParser(this)
  readonly #unread: Uint8Array[] = []
  #size = 0
  #isPaused = false
  #carrier: Carrier | null = null
  #waiting: PromiseWithResolvers<Uint8Array | null> | null = null
  #ended = false
  #failure: unknown = null
  #head: ResponseHead = EMPTY_HEAD

  /** Called when a connection takes the request. */
  readonly onSent: (() => void) | undefined

  constructor(onSent?: () => void) {
    this.onSent = onSent
  }

  /** Sets the connection that carries the exchange. Destroys it if the exchange has failed. */
  attachCarrier(carrier: Carrier): void {
    this.#carrier = carrier
    if (this.#failure) carrier.destroy()
  }

  get failed(): boolean {
    return this.#failure !== null
  }

  /** Returns the next bytes of the body; null after the last. Throws the exchange's failure. */
  // Not async: a promise that an async function returns is awaited twice.
  read(): Promise<Uint8Array | null> {
    const bytes = this.#unread.shift()
    if (bytes) {
      this.#size -= bytes.length
      return Promise.resolve(bytes)
    }
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve(null)
    this.#waiting = Promise.withResolvers()
    if (this.#isPaused) this.#carrier?.resume()
    this.#isPaused = false
    return this.#waiting.promise
  }

  get status(): number {
    return this.#head.status
  }

  header(name: string): string | null {
    return this.#head.headers.get(name) ?? null
  }

  text(maxBytes: number, onBytes: (size: number) => void): string | Promise<string> {
    if (!this.#ended || this.#unread.length !== 1 || this.#size > maxBytes)
      return readBodyText(this, maxBytes, onBytes)
    const [body] = this.#unread.splice(0)
    return DECODER.decode(body)
  }

  /** Handles bytes from the server. */
  receive(bytes: Buffer): void {
    try {
      this.#parser.feed(bytes)
    } catch (malformed) {
      this.fail(malformed)
    }
  }

  /** Handles the end of the connection. */
  handleClose(error?: unknown): void {
    try {
      if (error) throw error
      this.#parser.handleClose()
    } catch (cut) {
      this.fail(cut)
    }
  }

  /** Fails the exchange at any point, and destroys its connection. */
  fail(reason: unknown): void {
    if (this.#failure !== null || (this.#ended && this.#carrier === null)) return
    this.#failure = reason
    // It reaches those who await the head. Without a waiter it is no unhandled rejection.
    this.response.promise.catch(() => undefined)
    this.response.reject(reason)
    this.#waiting?.reject(reason)
    this.#waiting = null
    this.#carrier?.destroy()
    this.#carrier = null
  }

  onHead(head: ResponseHead): void {
    this.#head = head
    const coding = head.headers.get('content-encoding')?.toLowerCase()
    this.response.resolve(
      coding === undefined || coding === 'identity' ? this : decompress(this, coding),
    )
  }

  onBytes(bytes: Uint8Array): void {
    if (this.#waiting) {
      this.#waiting.resolve(bytes)
      this.#waiting = null
    } else {
      this.#unread.push(bytes)
      this.#size += bytes.length
    }
    // What the reader has just got is as large as the buffer that it is part of.
    if (this.#isPaused || (this.#size <= MAX_UNREAD && bytes.length <= MAX_UNREAD)) return
    this.#isPaused = true
    this.#carrier?.pause(isEventStream(this.#head))
  }

  onEnd(reusable: boolean): void {
    this.#ended = true
    this.#waiting?.resolve(null)
    this.#waiting = null
    this.#carrier?.release(reusable)
    this.#carrier = null
  }
}

// Whole answers and media come from afar in large windows; events are as fast as who reads them.
const isEventStream = ({ headers }: ResponseHead): boolean =>
  /^text\/event-stream|^application\/vnd\.amazon\.eventstream/i.test(
    headers.get('content-type') ?? '',
  )

const DECODER = new TextDecoder()

const EMPTY_HEAD: ResponseHead = { status: 0, headers: new Map() }

/** Reads a body as text, chunk by chunk. Throws past `maxBytes`. */
export async function readBodyText(
  incoming: Pick<IncomingResponse, 'read'>,
  maxBytes: number,
  onBytes: (size: number) => void,
): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    onBytes(bytes.length)
    size += bytes.length
    if (size > maxBytes) throw new Error('An answer that is too large')
    text += decoder.decode(bytes, { stream: true })
  }
  return text + decoder.decode()
}

/**
 * Decompresses a response as it arrives, so that size limits count decompressed bytes. We request
 * no compression, but a provider may compress all the same.
 */
function decompress(compressed: IncomingResponse, coding: string): IncomingResponse {
  const reader = toByteStream(compressed)
    .pipeThrough(new DecompressionStream(toCompressionFormat(coding)))
    .getReader()
  const read = async () => (await reader.read()).value ?? null
  return {
    status: compressed.status,
    header: name => compressed.header(name),
    read,
    text: (maxBytes, onBytes) => readBodyText({ read }, maxBytes, onBytes),
  }
}

// The platform throws for an unknown coding, which is right: we requested none.
const toCompressionFormat = (coding: string) =>
  (coding === 'x-gzip' ? 'gzip' : coding) as CompressionFormat

const toByteStream = (compressed: IncomingResponse) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const bytes = await compressed.read()
      if (bytes) controller.enqueue(new Uint8Array(bytes))
      else controller.close()
    },
  })
