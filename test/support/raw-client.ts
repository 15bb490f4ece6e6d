import { connect, type Socket } from 'node:net'
import { type Head, Inbox, readBody, readHead } from './wire.ts'

/** What to send. `raw` is sent unchanged instead of a request made from the other fields. */
export type RawRequest = {
  method?: string
  path?: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  json?: unknown
  raw?: string | Uint8Array
}

/**
 * The outcome of an exchange. `complete` tells whether the framing was kept (false for a truncated
 * body), `ended` whether the connection broke before that. The status is 0 if no head came.
 */
export type Outcome = {
  status: number
  headers: Record<string, string>
  body: string
  complete: boolean
  ended: 'clean' | 'reset'
}

/**
 * Sends a request on a new connection and returns its controls. It is a POST if there is a body.
 */
export function request(url: string, options: RawRequest = {}): RawCall {
  const { hostname, port } = new URL(url)
  const method = options.method ?? ('json' in options || options.body ? 'POST' : 'GET')
  const call = new RawCall(connect(Number(port), hostname), method)
  call.send(options.raw ?? requestBytes(new URL(url), method, options))
  return call
}

function requestBytes(url: URL, method: string, { json, ...options }: RawRequest): Buffer {
  const body = Buffer.from(options.body ?? (json === undefined ? '' : JSON.stringify(json)))
  const type = json === undefined ? {} : { 'content-type': 'application/json' }
  const length = body.length > 0 ? { 'content-length': String(body.length) } : {}
  const headers = { host: url.host, connection: 'close', ...type, ...length, ...options.headers }
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([
    Buffer.from(
      `${method} ${options.path ?? url.pathname + url.search} HTTP/1.1\r\n${fields.join('')}\r\n`,
    ),
    body,
  ])
}

/** One connection of a client that can misbehave. */
export class RawCall {
  readonly #socket: Socket
  readonly #method: string
  readonly #inbox = new Inbox()
  readonly #read: Buffer[] = []
  readonly #waiting: (() => void)[] = []
  readonly #outcome: Promise<Outcome>
  #end: 'fin' | 'reset' | null = null

  constructor(socket: Socket, method: string) {
    this.#socket = socket
    this.#method = method
    socket.setNoDelay(true)
    socket.on('data', bytes => this.#receive(Buffer.from(bytes)))
    socket.on('end', () => this.#finish('fin'))
    socket.on('error', () => this.#finish('reset'))
    socket.on('close', () => this.#finish('reset'))
    this.#outcome = this.#readAnswer()
  }

  /** Every byte read so far, as text and with the framing in it. */
  get text(): string {
    return Buffer.concat(this.#read).toString()
  }

  /** Resolves when the bytes read contain the text; rejects when the connection ends without it. */
  async sees(text: string): Promise<void> {
    while (!this.text.includes(text)) {
      if (this.#end)
        throw new Error(
          `The connection ended without ${JSON.stringify(text)}. Read: ${this.text.slice(-500)}`,
        )
      await new Promise<void>(resolve => this.#waiting.push(resolve))
    }
  }

  /** Sends more bytes: the rest of a body, another request, or nonsense. */
  send(bytes: string | Uint8Array) {
    this.#socket.write(bytes)
  }

  /** Hangs up: `fin` closes our direction and keeps reading, `rst` resets the connection. */
  hangUp(how: 'fin' | 'rst'): void {
    if (how === 'fin') return void this.#socket.end()
    this.#finish('reset')
    this.#socket.resetAndDestroy()
  }

  /** Stops reading from the connection, so that the sender's buffers fill. */
  stopReading() {
    this.#socket.pause()
  }

  /** Resumes reading after `stopReading`. */
  readOn() {
    this.#socket.resume()
  }

  /** Resolves when the answer is complete or the connection has ended, whichever is first. */
  outcome(): Promise<Outcome> {
    return this.#outcome
  }

  #receive(bytes: Buffer) {
    this.#read.push(bytes)
    this.#inbox.push(bytes)
    this.#wake()
  }

  // The first end counts: a clean close is followed by a `close` event, and so is a reset.
  #finish(end: 'fin' | 'reset') {
    this.#end ??= end
    this.#inbox.end()
    this.#wake()
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  async #readAnswer(): Promise<Outcome> {
    const head = await readFinalHead(this.#inbox)
    const { bytes, complete } = head
      ? await this.#readBody(head)
      : { bytes: Buffer.alloc(0), complete: false }
    const ended = !complete && this.#end === 'reset' ? 'reset' : 'clean'
    return {
      status: readStatus(head),
      headers: head?.headers ?? {},
      body: bytes.toString(),
      complete,
      ended,
    }
  }

  async #readBody(head: Head) {
    if (this.#method === 'HEAD' || BODILESS.has(readStatus(head)))
      return { bytes: Buffer.alloc(0), complete: true }
    const framed = await readBody(this.#inbox, head)
    if (framed) return framed
    const bytes = await this.#inbox.take(Number.POSITIVE_INFINITY)
    return { bytes, complete: this.#end === 'fin' }
  }
}

async function readFinalHead(inbox: Inbox): Promise<Head | null> {
  const head = await readHead(inbox)
  return head && readStatus(head) < 200 ? readFinalHead(inbox) : head
}

const BODILESS = new Set([204, 304])

const readStatus = (head: Head | null) => Number(head?.line.split(' ')[1] ?? 0)
