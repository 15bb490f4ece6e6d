import type { Socket } from 'bun'
import type { Carrier, Exchange } from './exchange.ts'

/** Where a connection goes. Two requests to one origin may share it. */
export interface Origin {
  hostname: string
  port: number
  secure: boolean
  /** Where the host is, if that is known already; its certificate is the host's own all the same. */
  address?: string | undefined
}

/** A connection refused, lost, or not trusted, with the code of why. */
export class ConnectionFailed extends Error {
  readonly code: string

  constructor(code: string) {
    super(`The connection failed: ${code}`)
    this.code = code
  }
}

/** How connections are opened. */
export interface ConnectionSettings {
  /** How long a host may take to accept one, TLS included. */
  connectMilliseconds: number
  /** Certificates to trust instead of the system’s, as PEM. */
  ca?: string
}

/** How a connection tells its owner that it is free, or gone. */
export interface ConnectionOwner {
  free(connection: Connection): void
  gone(connection: Connection): void
}

/** One connection to one origin: one exchange at a time, kept between them. */
export class Connection implements Carrier {
  readonly #owner: ConnectionOwner
  #socket: Socket<undefined> | null = null
  #exchange: Exchange | null = null
  /** What the socket has not taken yet. */
  #unsent: Buffer | null = null
  #usable = true

  private constructor(owner: ConnectionOwner) {
    this.#owner = owner
  }

  /**
   * Opens a connection for an exchange: should that fail, nobody waits for the host. Throws `ConnectionFailed`; over TLS also
   * when the certificate is not the host's own, or not trusted.
   */
  static async open(origin: Origin, owner: ConnectionOwner, settings: ConnectionSettings, exchange: Exchange): Promise<Connection> {
    const connection = new Connection(owner)
    exchange.carriedBy(connection)
    const ready = Promise.withResolvers<void>()
    const { hostname, port, secure, address = hostname.replace(/^\[|\]$/g, '') } = origin
    const { connectMilliseconds, ca } = settings
    const handlers = connection.#handlers(ready, secure)
    const tls = secure ? { tls: { serverName: hostname, rejectUnauthorized: true, ...(ca ? { ca } : {}) } } : {}
    Bun.connect({ hostname: address, port, socket: handlers, ...tls }).catch(error => ready.reject(new ConnectionFailed(codeOf(error))))
    const late = setTimeout(() => ready.reject(new ConnectionFailed('ETIMEDOUT')), connectMilliseconds)
    try {
      await ready.promise
      return connection
    } catch (failure) {
      connection.destroy()
      throw failure
    } finally {
      clearTimeout(late)
    }
  }

  /** Whether it can carry another exchange. */
  get usable(): boolean {
    return this.#usable
  }

  /** Sends a request, whose answer is the exchange's. */
  carry(exchange: Exchange, request: string): void {
    this.#exchange = exchange
    exchange.carriedBy(this)
    if (exchange.failed || !this.#socket) return
    // Most requests go out whole, and as the text that they are.
    const sent = this.#socket.write(request)
    if (sent < 0) this.#closed(new ConnectionFailed('EPIPE'))
    else if (sent < Buffer.byteLength(request)) this.#unsent = Buffer.from(request).subarray(sent)
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  release(reusable: boolean): void {
    this.#exchange = null
    // An answer before the whole request was sent leaves the rest of it in the way.
    if (reusable && this.#usable && !this.#unsent) {
      this.#socket?.resume()
      this.#owner.free(this)
    } else this.destroy()
  }

  destroy(): void {
    this.#usable = false
    this.#exchange = null
    this.#socket?.terminate()
  }

  #handlers(ready: PromiseWithResolvers<void>, secure: boolean) {
    return {
      open: (socket: Socket<undefined>) => {
        this.#socket = socket
        if (!this.#usable) socket.terminate()
        else if (!secure) ready.resolve()
      },
      ...(secure ? { handshake: (_: unknown, ok: boolean, error: Error | null) => this.#trusted(ready, ok, error) } : {}),
      data: (_: unknown, bytes: Buffer) => this.#received(bytes),
      drain: () => this.#send(),
      end: () => this.#closed(),
      error: (_: unknown, error: Error) => this.#closed(new ConnectionFailed(codeOf(error))),
      close: (_: unknown, error?: Error) => {
        ready.reject(new ConnectionFailed(codeOf(error)))
        this.#closed(error && new ConnectionFailed(codeOf(error)))
      },
      // Bun.connect rejects as well; without this it would also report the rejection.
      connectError: () => undefined,
    }
  }

  #trusted(ready: PromiseWithResolvers<void>, ok: boolean, error: Error | null): void {
    if (ok && !error) ready.resolve()
    else {
      this.#usable = false
      ready.reject(new ConnectionFailed(codeOf(error)))
      this.#socket?.terminate()
    }
  }

  #received(bytes: Buffer): void {
    if (this.#exchange) this.#exchange.received(bytes)
    // Bytes that nobody asked for: whatever they are, no later answer may begin with them.
    else this.destroy()
  }

  #send(): void {
    if (!this.#unsent || !this.#socket) return
    const sent = this.#socket.write(this.#unsent)
    if (sent < 0) this.#closed(new ConnectionFailed('EPIPE'))
    else this.#unsent = sent < this.#unsent.length ? this.#unsent.subarray(sent) : null
  }

  #closed(error?: unknown): void {
    if (this.#usable) this.#owner.gone(this)
    this.#usable = false
    const exchange = this.#exchange
    this.#exchange = null
    exchange?.closed(error)
    this.#socket?.terminate()
  }
}

const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string' ? error.code : 'ECONNRESET'
