import type { Socket } from 'bun'

/** What a connection tells. */
interface Listener {
  open(connection: Connection): void
  data(bytes: Buffer, connection: Connection): void
  /** Is called once, also if the connection could not be opened. */
  close(): void
}

/** A connection to a program on this machine. Bytes that the other side does not take yet wait. */
export class Connection {
  #socket: Socket | undefined
  #rest: Buffer | undefined
  #isClosed = false
  #isLeft = false

  /** Opens it. Throws if the address is not of this machine. */
  constructor(url: string, listener: Listener) {
    const { hostname, port } = new URL(url)
    if (hostname !== '127.0.0.1') throw new Error(`${url}: expected an address of this machine`)
    const close = () => {
      if (this.#isClosed) return
      this.#isClosed = true
      listener.close()
    }
    const open = (socket: Socket) => {
      this.#socket = socket
      if (this.#isLeft) socket.terminate()
      else listener.open(this)
    }
    Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        open,
        data: (_, bytes) => listener.data(bytes, this),
        drain: () => this.#flush(),
        close,
        error: close,
        connectError: close,
      },
    }).catch(close)
  }

  /** Sends bytes. Those before must have been answered. */
  send(bytes: Buffer): void {
    this.#rest = bytes
    this.#flush()
  }

  /** Closes it at once, or when it has opened. */
  leave(): void {
    this.#isLeft = true
    this.#socket?.terminate()
  }

  #flush(): void {
    if (!this.#rest || !this.#socket) return
    const written = this.#socket.write(this.#rest)
    this.#rest = written < this.#rest.length ? this.#rest.subarray(written) : undefined
  }
}

/** Sends one request to a path without a body, and returns the whole answer as text. */
export function getText(url: string, path: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const request = `GET ${path} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: close\r\n\r\n`
  let text = ''
  new Connection(url, {
    open: connection => connection.send(Buffer.from(request)),
    data: bytes => {
      text += bytes.toString()
    },
    close: () => resolve(text),
  })
  return promise
}
