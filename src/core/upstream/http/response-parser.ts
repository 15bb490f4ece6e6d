/** The head of a response: its status, and its headers by lower-case name. */
export interface ResponseHead {
  status: number
  headers: Map<string, string>
}

/** Receives the parts of a response, in their order. */
export interface ResponseSink {
  head(head: ResponseHead): void
  bytes(bytes: Uint8Array): void
  /** Called when the response is whole. `reusable`: the connection may carry another exchange. */
  end(reusable: boolean): void
}

/** A response that violates HTTP/1.1 (RFC 9112). */
export class MalformedResponse extends Error {
  readonly code = 'ERR_HTTP_MALFORMED'
}

const LARGEST_HEAD = 64 * 1024
const LONGEST_CHUNK_LINE = 1024
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: |$)/
// A less strict reader may take one of these for the end of a line.
const BARE_END = /[\r\n\0]/

type State =
  | 'head'
  | 'length'
  | 'chunk-size'
  | 'chunk-data'
  | 'chunk-end'
  | 'trailer'
  | 'until-close'
  | 'done'

/**
 * Parses one HTTP/1.1 response from bytes, wherever reads have split them (RFC 9112). It is strict
 * about framing: a response that two readers could measure differently is refused. One that is cut
 * short, even inside its trailer, is never whole.
 */
export class ResponseParser {
  readonly #sink: ResponseSink
  #state: State = 'head'
  #held: Buffer | null = null
  /** How many bytes of the body or of the chunk are still to come. */
  #left = 0
  #reusable = true

  constructor(sink: ResponseSink) {
    this.#sink = sink
  }

  /**
   * Parses the next bytes. Bytes after the end make the connection unfit for another response.
   * Throws `MalformedResponse`.
   */
  feed(bytes: Buffer): void {
    if (this.#state === 'done') throw new MalformedResponse('Bytes after the end of an answer')
    let at = 0
    const data = this.#held ? Buffer.concat([this.#held, bytes]) : bytes
    this.#held = null
    while (at < data.length) {
      const next = this.#step(data, at)
      if (next === -1) {
        this.#held = Buffer.from(data.subarray(at))
        return
      }
      at = next
      if (this.#isDone()) {
        this.#sink.end(this.#reusable && at === data.length)
        return
      }
    }
  }

  /** Handles the end of the connection. Throws `MalformedResponse` if that cuts it short. */
  closed(): void {
    if (this.#state === 'done') return
    if (this.#state !== 'until-close')
      throw new MalformedResponse('The connection closed before the answer was whole')
    this.#state = 'done'
    this.#sink.end(false)
  }

  #isDone(): boolean {
    return this.#state === 'done'
  }

  /** Parses one element at `offset`. Returns the next offset, or -1 when more bytes are needed. */
  #step(data: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#head(data, at)
      case 'length':
      case 'chunk-data':
        return this.#body(data, at)
      case 'until-close':
        this.#sink.bytes(data.subarray(at))
        return data.length
      case 'chunk-size':
        return this.#line(data, at, LONGEST_CHUNK_LINE, line => this.#chunkSize(line))
      case 'chunk-end':
        return this.#line(data, at, 0, () => {
          this.#state = 'chunk-size'
        })
      case 'trailer':
        return this.#line(data, at, LARGEST_HEAD, line => {
          if (line === '') this.#state = 'done'
        })
      case 'done':
        throw new MalformedResponse('Bytes after the end of an answer')
    }
  }

  #head(data: Buffer, at: number): number {
    const end = data.indexOf('\r\n\r\n', at)
    if ((end === -1 ? data.length : end) - at > LARGEST_HEAD)
      throw new MalformedResponse('A head that is too large')
    if (end === -1) return -1
    const head = parseHead(data.toString('latin1', at, end))
    // A 1xx response precedes the final one (RFC 9110, 15.2). We request no switch of protocols.
    if (head.status === 101) throw new MalformedResponse('An unexpected switch of protocols')
    if (head.status >= 200) this.#begin(head)
    return end + 4
  }

  #begin(head: ParsedHead): void {
    this.#reusable = isPersistent(head)
    this.#measure(head)
    this.#sink.head(head)
  }

  #measure({ version, status, headers }: ParsedHead): void {
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    const length = headers.get('content-length')
    if (coding !== undefined && length !== undefined)
      throw new MalformedResponse('Two ways to measure one body')
    if (status === 204 || status === 304) this.#state = 'done'
    else if (coding === 'chunked' && version === '1.1') this.#state = 'chunk-size'
    else if (coding !== undefined) throw new MalformedResponse('An unrequested transfer coding')
    else if (length !== undefined) this.#expect(length)
    else this.#state = 'until-close'
  }

  #expect(length: string): void {
    if (!/^\d{1,15}$/.test(length)) throw new MalformedResponse('A length that is no number')
    this.#left = Number(length)
    this.#state = this.#left === 0 ? 'done' : 'length'
  }

  #body(data: Buffer, at: number): number {
    const end = Math.min(data.length, at + this.#left)
    this.#left -= end - at
    this.#sink.bytes(data.subarray(at, end))
    if (this.#left > 0) return end
    this.#state = this.#state === 'chunk-data' ? 'chunk-end' : 'done'
    return end
  }

  #line(data: Buffer, at: number, longest: number, use: (line: string) => void): number {
    const end = data.indexOf('\r\n', at)
    if ((end === -1 ? data.length - 1 : end) - at > longest)
      throw new MalformedResponse('A line that is too long')
    if (end === -1) return -1
    use(data.toString('latin1', at, end))
    return end + 2
  }

  #chunkSize(line: string): void {
    const size = /^([0-9a-fA-F]{1,12})[ \t]*(?:;|$)/.exec(line)?.[1]
    if (size === undefined || BARE_END.test(line))
      throw new MalformedResponse('A chunk without a size')
    this.#left = Number.parseInt(size, 16)
    this.#state = this.#left === 0 ? 'trailer' : 'chunk-data'
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

/**
 * One header, ended by a complete line end. The lookahead excludes blanks from the start of the
 * value, so that a malformed head full of blanks is refused in linear time.
 */
const HEADER = /([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?![ \t])([^\r\n\0]*)(?:\r\n|$)/y

function parseHeaders(text: string, from: number): Map<string, string> {
  const headers = new Map<string, string>()
  HEADER.lastIndex = from
  while (HEADER.lastIndex < text.length) {
    const found = HEADER.exec(text)
    if (!found) throw new MalformedResponse('Not a header')
    addHeader(headers, (found[1] ?? '').toLowerCase(), withoutBlankEnd(found[2] ?? ''))
  }
  return headers
}

function addHeader(headers: Map<string, string>, name: string, value: string): void {
  const before = headers.get(name)
  if (before !== undefined && name === 'content-length' && before !== value)
    throw new MalformedResponse('Two lengths for one body')
  headers.set(
    name,
    before === undefined || name === 'content-length' ? value : `${before}, ${value}`,
  )
}

// Only spaces and tabs surround a value (RFC 9110, 5.6.3). Other white space is part of it.
function withoutBlankEnd(value: string): string {
  let to = value.length
  while (to > 0 && isBlank(value.charCodeAt(to - 1))) to--
  return to === value.length ? value : value.slice(0, to)
}

const isBlank = (code: number) => code === 0x20 || code === 0x09

/** Returns whether the connection persists. With HTTP/1.0 it must say so (RFC 9112, 9.3). */
function isPersistent({ version, headers }: ParsedHead): boolean {
  const connection = headers.get('connection')?.toLowerCase() ?? ''
  return !connection.includes('close') && (version === '1.1' || connection.includes('keep-alive'))
}
