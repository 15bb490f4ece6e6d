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
  /** Of the head, once that has come. */
  status = 0

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
    this.status = head.status
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

/** The head of a response: its status, and its headers by lower-case name. */
export interface ResponseHead {
  status: number
  headers: Map<string, string>
}

/** Receives the parts of a response, in their order. */
export interface ResponseSink {
  onHead(head: ResponseHead): void
  onBytes(bytes: Uint8Array): void
  /** Called when the response is whole. `reusable`: the connection may carry another exchange. */
  onEnd(reusable: boolean): void
}

/** A response that violates HTTP/1.1 (RFC 9112). */
export class MalformedResponse extends Error {
  readonly code = 'ERR_HTTP_MALFORMED'
}

const LARGEST_HEAD = 64 * 1024
const LONGEST_CHUNK_LINE = 1024
/** The most responses before the final one. A provider sends one, if any. */
const MAX_INTERIM = 8
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: |$)/
// A less strict reader may take one of these for the end of a line.
const BARE_END = /[\r\n\0]/

/** Sizes of more digits are read as text. */
const MOST_DIGITS = 8
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a
const NO_DIGIT = 255
/** The value of each byte as a hexadecimal digit. */
const HEX_DIGITS = Uint8Array.from({ length: 256 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16)
  return Number.isNaN(value) ? NO_DIGIT : value
})

type State =
  | 'head'
  | 'length'
  | 'chunk-size'
  | 'chunk-data'
  | 'chunk-end'
  | 'trailer'
  | 'until-close'

/**
 * Parses one HTTP/1.1 response from bytes, wherever reads have split them (RFC 9112). It is strict
 * about framing: a response that two readers could measure differently is refused. One that is cut
 * short, even inside its trailer, is never whole.
 */
export class ResponseParser {
  readonly #sink: ResponseSink
  #state: State = 'head'
  #isDone = false
  #pending: Buffer | null = null
  /** How many bytes of the body or of the chunk are still to come. */
  #remaining = 0
  #reusable = true
  #interimResponses = 0
  /** How many bytes the trailer may still have. */
  #trailerLeft = LARGEST_HEAD
  /** Chunks of one read. They are passed on as one, however small the provider makes them. */
  #chunks: Buffer[] = []

  constructor(sink: ResponseSink) {
    this.#sink = sink
  }

  /**
   * Parses the next bytes. Bytes after the end make the connection unfit for another response.
   * Throws `MalformedResponse`.
   */
  feed(bytes: Buffer): void {
    if (this.#isDone) throw new MalformedResponse('Bytes after the end of an answer')
    let offset = 0
    const data = this.#pending ? Buffer.concat([this.#pending, bytes]) : bytes
    this.#pending = null
    try {
      while (offset < data.length && !this.#isDone) {
        const next = this.#step(data, offset)
        if (next === -1) this.#pending = Buffer.from(data.subarray(offset))
        if (next === -1) break
        offset = next
      }
    } finally {
      // Also before a failure: what arrived before it counts.
      const chunks = this.#chunks
      const [first] = chunks
      if (first) {
        this.#chunks = []
        this.#sink.onBytes(chunks.length === 1 ? first : Buffer.concat(chunks))
      }
    }
    if (this.#isDone) this.#sink.onEnd(this.#reusable && offset === data.length)
  }

  /** Handles the end of the connection. Throws `MalformedResponse` if that cuts it short. */
  handleClose(): void {
    if (this.#isDone) return
    if (this.#state !== 'until-close')
      throw new MalformedResponse('The connection closed before the answer was whole')
    this.#isDone = true
    this.#sink.onEnd(false)
  }

  /** Parses one element at `offset`. Returns the next offset, or -1 when more bytes are needed. */
  #step(data: Buffer, offset: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(data, offset)
      case 'length':
      case 'chunk-data':
        return this.#readBody(data, offset)
      case 'until-close':
        this.#sink.onBytes(data.subarray(offset))
        return data.length
      case 'chunk-size':
        return this.#readPlainSize(data, offset)
      case 'chunk-end':
        return this.#readChunkEnd(data, offset)
      case 'trailer':
        return this.#readLine(data, offset, LARGEST_HEAD, line => {
          this.#trailerLeft -= line.length + 2
          if (this.#trailerLeft < 0) throw new MalformedResponse('A trailer that is too large')
          if (line === '') this.#isDone = true
        })
    }
  }

  #readHead(data: Buffer, offset: number): number {
    const end = data.indexOf('\r\n\r\n', offset)
    if ((end === -1 ? data.length : end) - offset > LARGEST_HEAD)
      throw new MalformedResponse('A head that is too large')
    if (end === -1) return -1
    const head = parseHead(data.toString('latin1', offset, end))
    // A 1xx response precedes the final one (RFC 9110, 15.2). We request no switch of protocols.
    if (head.status === 101) throw new MalformedResponse('An unexpected switch of protocols')
    if (head.status >= 200) this.#begin(head)
    else if (++this.#interimResponses > MAX_INTERIM)
      throw new MalformedResponse('Too many responses before the final one')
    return end + 4
  }

  #begin(head: ParsedHead): void {
    this.#reusable = isPersistent(head)
    this.#measure(head)
    this.#sink.onHead(head)
  }

  #measure({ version, status, headers }: ParsedHead): void {
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    const length = headers.get('content-length')
    if (coding !== undefined && length !== undefined)
      throw new MalformedResponse('Two ways to measure one body')
    if (status === 204 || status === 304) this.#isDone = true
    else if (coding === 'chunked' && version === '1.1') this.#state = 'chunk-size'
    else if (coding !== undefined) throw new MalformedResponse('An unrequested transfer coding')
    else if (length !== undefined) this.#expect(length)
    else this.#state = 'until-close'
  }

  #expect(length: string): void {
    if (!/^\d{1,15}$/.test(length)) throw new MalformedResponse('A length that is no number')
    this.#remaining = Number(length)
    this.#state = 'length'
    this.#isDone = this.#remaining === 0
  }

  #readBody(data: Buffer, offset: number): number {
    const end = Math.min(data.length, offset + this.#remaining)
    this.#remaining -= end - offset
    this.#chunks.push(data.subarray(offset, end))
    if (this.#remaining > 0) return end
    if (this.#state === 'chunk-data') this.#state = 'chunk-end'
    else this.#isDone = true
    return end
  }

  #readLine(data: Buffer, offset: number, longest: number, onLine: (line: string) => void): number {
    const end = data.indexOf('\r\n', offset)
    if ((end === -1 ? data.length - 1 : end) - offset > longest)
      throw new MalformedResponse('A line that is too long')
    if (end === -1) return -1
    onLine(data.toString('latin1', offset, end))
    return end + 2
  }

  // Almost every size is some digits and the end of the line; all others are read as text.
  #readPlainSize(data: Buffer, offset: number): number {
    let size = 0
    let at = offset
    for (; at < data.length && at < offset + MOST_DIGITS; at++) {
      const digit = HEX_DIGITS[data[at] as number] as number
      if (digit === NO_DIGIT) break
      size = size * 16 + digit
    }
    if (at === offset || data[at] !== CARRIAGE_RETURN || data[at + 1] !== LINE_FEED)
      return this.#readLine(data, offset, LONGEST_CHUNK_LINE, line => this.#readChunkSize(line))
    const start = at + 2
    const end = start + size
    // Most chunks come whole.
    if (size > 0 && data[end] === CARRIAGE_RETURN && data[end + 1] === LINE_FEED) {
      this.#chunks.push(data.subarray(start, end))
      return end + 2
    }
    this.#beginChunk(size)
    return start
  }

  #readChunkEnd(data: Buffer, offset: number): number {
    if (data[offset] === CARRIAGE_RETURN && data[offset + 1] === LINE_FEED) {
      this.#state = 'chunk-size'
      return offset + 2
    }
    return this.#readLine(data, offset, 0, () => {
      this.#state = 'chunk-size'
    })
  }

  #beginChunk(size: number): void {
    this.#remaining = size
    this.#state = size === 0 ? 'trailer' : 'chunk-data'
  }

  #readChunkSize(line: string): void {
    const size = /^([0-9a-fA-F]{1,12})[ \t]*(?:;|$)/.exec(line)?.[1]
    if (size === undefined || BARE_END.test(line))
      throw new MalformedResponse('A chunk without a size')
    this.#beginChunk(Number.parseInt(size, 16))
  }
}

interface ParsedHead extends ResponseHead {
  version: '1.0' | '1.1'
}

function parseHead(text: string): ParsedHead {
  const lineEnd = text.indexOf('\r\n')
  const line = lineEnd === -1 ? text : text.slice(0, lineEnd)
  const [, minor, status] = STATUS_LINE.exec(line) ?? []
  if (status === undefined || BARE_END.test(line)) throw new MalformedResponse('Not an HTTP answer')
  const headers = lineEnd === -1 ? new Map<string, string>() : parseHeaders(text, lineEnd + 2)
  return { version: minor === '1' ? '1.1' : '1.0', status: Number(status), headers }
}

/** The name of a header (RFC 9110, 5.1). */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

// Searched line by line and not with one expression for all: that took three times as long.
function parseHeaders(text: string, from: number): Map<string, string> {
  const headers = new Map<string, string>()
  for (let start = from; start < text.length; ) {
    const lineEnd = text.indexOf('\r\n', start)
    const end = lineEnd === -1 ? text.length : lineEnd
    const line = text.slice(start, end)
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0))
    if (!NAME.test(name) || BARE_END.test(line)) throw new MalformedResponse('Not a header')
    const key = name.toLowerCase()
    const value = trimBlanks(line.slice(colon + 1))
    if (headers.has(key)) addAgain(headers, key, value)
    else headers.set(key, value)
    start = end + 2
  }
  return headers
}

function addAgain(headers: Map<string, string>, name: string, value: string): void {
  const existing = headers.get(name)
  if (name !== 'content-length') headers.set(name, `${existing}, ${value}`)
  else if (existing !== value) throw new MalformedResponse('Two lengths for one body')
}

// Only spaces and tabs surround a value (RFC 9110, 5.6.3). Other white space is part of it.
function trimBlanks(value: string): string {
  let start = 0
  let end = value.length
  while (value[start] === ' ' || value[start] === '\t') start++
  while (end > start && (value[end - 1] === ' ' || value[end - 1] === '\t')) end--
  return value.slice(start, end)
}

/** Returns whether the connection persists. With HTTP/1.0 it must say so (RFC 9112, 9.3). */
function isPersistent({ version, headers }: ParsedHead): boolean {
  const connection = headers.get('connection')?.toLowerCase() ?? ''
  return !connection.includes('close') && (version === '1.1' || connection.includes('keep-alive'))
}
