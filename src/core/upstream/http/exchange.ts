import { type ResponseHead, ResponseParser, type ResponseSink } from './response-parser.ts'

/** An answer, its head read and its body not. */
export interface Incoming {
  readonly status: number
  /** A header's value by its lower-case name. */
  header(name: string): string | null
  /** The whole body as text, at once where it is here already. Throws past so many bytes. `touched` is called when bytes come. */
  text(largest: number, touched: () => void): string | Promise<string>
  /** The next bytes; null after the last. */
  read(): Promise<Uint8Array | null>
}

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
 * One request and its answer on one connection. The answer is read as its reader asks: `headed` first, then `read` until null.
 * Whatever goes wrong, each of them that waits, and the next one asked, is told.
 */
export class Exchange implements ResponseSink, Incoming {
  /** Resolves to the answer when its head is here: to the exchange itself, or to what unpacks it. */
  readonly headed = Promise.withResolvers<Incoming>()
  readonly #parser = new ResponseParser(this)
  readonly #unread: Uint8Array[] = []
  #size = 0
  #carrier: Carrier | null = null
  #waiting: PromiseWithResolvers<Uint8Array | null> | null = null
  #ended = false
  #failure: unknown = null
  #head: ResponseHead = NO_HEAD

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
  // Not async: a promise that an async function returns is waited for twice.
  read(): Promise<Uint8Array | null> {
    const bytes = this.#unread.shift()
    if (bytes) return Promise.resolve(this.#given(bytes))
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve(null)
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  get status(): number {
    return this.#head.status
  }

  header(name: string): string | null {
    return this.#head.headers.get(name) ?? null
  }

  text(largest: number, touched: () => void): string | Promise<string> {
    if (!this.#ended || this.#unread.length !== 1 || this.#size > largest)
      return textOf(this, largest, touched)
    const [whole] = this.#unread.splice(0)
    return DECODER.decode(whole)
  }

  /** Bytes from the server. */
  received(bytes: Buffer): void {
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
    this.#head = head
    const coding = head.headers.get('content-encoding')?.toLowerCase()
    this.headed.resolve(
      coding === undefined || coding === 'identity' ? this : unpacked(this, coding),
    )
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
    const wasFull = this.#size > MOST_UNREAD
    this.#size -= bytes.length
    if (wasFull && this.#size <= MOST_UNREAD) this.#carrier?.resume()
    return bytes
  }
}

const DECODER = new TextDecoder()

const NO_HEAD: ResponseHead = { status: 0, headers: new Map() }

/** A body's text, as it comes. Throws past so many bytes. */
export async function textOf(
  incoming: Pick<Incoming, 'read'>,
  largest: number,
  touched: () => void,
): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    touched()
    size += bytes.length
    if (size > largest) throw new Error('An answer that is too large')
    text += decoder.decode(bytes, { stream: true })
  }
  return text + decoder.decode()
}

/** A packed answer, unpacked as it comes, so that it is counted by what it becomes. We ask for none, but a provider may pack all the same. */
function unpacked(packed: Incoming, coding: string): Incoming {
  const reader = bytesOf(packed)
    .pipeThrough(new DecompressionStream(formatOf(coding)))
    .getReader()
  const read = async () => (await reader.read()).value ?? null
  return {
    status: packed.status,
    header: name => packed.header(name),
    read,
    text: (largest, touched) => textOf({ read }, largest, touched),
  }
}

// Throws where the coding is none that the platform knows: nobody asked for it.
const formatOf = (coding: string) => (coding === 'x-gzip' ? 'gzip' : coding) as CompressionFormat

const bytesOf = (packed: Incoming) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const bytes = await packed.read()
      if (bytes) controller.enqueue(new Uint8Array(bytes))
      else controller.close()
    },
  })
