import { connect, type Socket } from 'node:net'

/** A client on one connection that never hangs up by itself, and sends as it likes. */
export class StubbornClient {
  /** Everything that it has read, as text. */
  text = ''
  /** How many bytes of bodies were handed to the system. */
  sent = 0
  /** The port of its end of the connection; undefined before it is connected. */
  port: number | undefined
  readonly #socket: Socket
  readonly #closed: Promise<void>
  readonly #seen: (() => void)[] = []
  #isOpen = true

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#socket = connect(Number(port), hostname)
    this.#socket.setMaxListeners(0)
    this.#closed = new Promise(resolve => this.#socket.on('close', () => resolve()))
    this.#socket.on('connect', () => {
      this.port = this.#socket.localPort
    })
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => {
      this.#isOpen = false
      this.#wake()
    })
    this.#socket.on('data', bytes => {
      this.text += bytes.toString('latin1')
      this.#wake()
    })
  }

  /** Sends the head of a request, and nothing else. */
  sendHead(method: string, path: string, headers: Record<string, string> = {}): this {
    const all = Object.entries({ host: 'localhost', ...headers })
    const fields = all.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    return this.send(`${method} ${path} HTTP/1.1\r\n${fields}\r\n`)
  }

  send(bytes: string | Uint8Array): this {
    if (this.#isOpen) this.#socket.write(bytes)
    return this
  }

  /** Takes nothing from the connection any more. */
  stopReading(): this {
    this.#socket.pause()
    return this
  }

  /** Takes a piece from the connection now and then, with so many milliseconds between. */
  readSlowly(milliseconds: number): this {
    this.#socket.on('data', () => {
      this.#socket.pause()
      setTimeout(() => this.#socket.resume(), milliseconds)
    })
    return this
  }

  /** Resolves when the text was read. Throws when the connection ends or `unless` is read before. */
  async sees(text: string, unless?: string): Promise<void> {
    while (!this.text.includes(text)) {
      if (!this.#isOpen || (unless !== undefined && this.text.includes(unless)))
        throw new Error(`Nothing more came before ${text}: ${this.text.slice(0, 500)}`)
      await new Promise<void>(resolve => this.#seen.push(resolve))
    }
  }

  /** Sends the bytes every so often until the connection is closed. */
  drip(bytes: string, milliseconds: number): this {
    const timer = setInterval(() => this.send(bytes), milliseconds)
    this.#socket.on('close', () => clearInterval(timer))
    return this
  }

  /** Sends up to so many bytes as fast as they are taken, `frame` applied to each piece. */
  async flood(bytes: number, frame: (piece: Uint8Array) => Uint8Array = piece => piece) {
    const piece = frame(Buffer.alloc(64 * 1024, ' '))
    while (this.#isOpen && this.sent < bytes) {
      this.sent += piece.length
      if (this.#socket.write(piece)) continue
      await Promise.race([
        new Promise<void>(resolve => this.#socket.once('drain', () => resolve())),
        this.#closed,
      ])
    }
  }

  /** Resolves when the server has closed the connection. Throws after seconds that no machine needs. */
  async closes(seconds = 45): Promise<void> {
    const { promise, reject } = Promise.withResolvers<never>()
    const late = () =>
      reject(new Error(`Open after ${seconds} s. Read: ${this.text.slice(0, 300)}`))
    const timer = setTimeout(late, seconds * 1000)
    try {
      await Promise.race([this.#closed, promise])
    } finally {
      clearTimeout(timer)
    }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
  }

  #wake() {
    for (const resolve of this.#seen.splice(0)) resolve()
  }
}

/** Frames a piece as one chunk of a chunked body. */
export const frameChunk = (piece: Uint8Array): Uint8Array =>
  Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
