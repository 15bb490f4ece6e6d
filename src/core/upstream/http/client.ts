import type { Socket } from 'bun'
import type { Cancellation } from '../../kernel/cancellation.ts'
import { type Carrier, Exchange, type Incoming } from './exchange.ts'

/** A request to send. The body is whole. */
export interface HttpRequest {
  method: string
  url: string
  headers: Record<string, string>
  body: string
  /**
   * The address to connect to, instead of resolving the URL's host. An address that was checked
   * is the one that is called.
   */
  address?: string | undefined
}

export interface HttpClient {
  /**
   * Sends the request. Cancelling closes its connection at once, at any time. Throws
   * `ConnectionFailed`, or the cancellation's reason.
   */
  send(request: HttpRequest, cancellation: Cancellation): Promise<Incoming>
  /** Closes idle connections now, and each other one when its exchange has ended. */
  close(): void
}

/** How many idle connections to one origin are kept, and for how many milliseconds. */
const MOST_IDLE = 256
const LONGEST_IDLE = 4_000

/**
 * Opens an HTTP/1.1 client on the event loop's own sockets, without a thread in between. Any number
 * of requests run at once. A response that is shorter than its stated length is never taken for a
 * whole one. The client follows no redirects, reads no environment variables and resends nothing.
 */
export function openHttp(settings: ConnectionSettings): HttpClient {
  const pools = new Map<string, Pool>()
  const targets = new Map<string, Target>()
  return {
    send(request, cancellation) {
      const exchange = new Exchange()
      const isOnce = request.address !== undefined
      const target = isOnce ? targetOf(request.url) : targetIn(targets, request.url)
      cancellation.listen(reason => exchange.fail(reason))
      if (exchange.failed) return exchange.headed.promise
      const text = textOf(request, target)
      if (isOnce)
        void connect(
          { origin: { ...target, address: request.address }, owner: ONCE, settings },
          exchange,
          text,
        )
      else poolFor(pools, target, settings).carry(exchange, text)
      return exchange.headed.promise
    },
    close() {
      for (const pool of pools.values()) pool.close()
      pools.clear()
    },
  }
}

interface Target extends Origin {
  /** The key of the origin's pool. */
  origin: string
  host: string
  path: string
}

const MOST_TARGETS = 10_000

// A gateway calls few URLs, again and again, so each is parsed once.
function targetIn(targets: Map<string, Target>, address: string): Target {
  const known = targets.get(address)
  if (known) return known
  if (targets.size >= MOST_TARGETS) targets.clear()
  const target = targetOf(address)
  targets.set(address, target)
  return target
}

function targetOf(address: string): Target {
  const { protocol, hostname, port, host, origin, pathname, search } = new URL(address)
  const secure = protocol === 'https:'
  if (!secure && protocol !== 'http:') throw new TypeError('Expected an http or https address')
  return {
    origin,
    host,
    hostname,
    port: Number(port || (secure ? 443 : 80)),
    secure,
    path: pathname + search,
  }
}

function textOf({ method, headers, body }: HttpRequest, { host, path }: Target): string {
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n`
  for (const name in headers) head += `${name}: ${fieldValue(headers[name] ?? '')}\r\n`
  // A method that defines no body sends no Content-Length (RFC 9110, 8.6).
  if (method !== 'GET') head += `content-length: ${Buffer.byteLength(body)}\r\n`
  return `${head}\r\n${body}`
}

// A line break in a value would start another header, or another request.
function fieldValue(value: string): string {
  if (/[\r\n\0]/.test(value)) throw new TypeError('A header value with a line break')
  return value
}

function poolFor(pools: Map<string, Pool>, target: Target, settings: ConnectionSettings): Pool {
  const known = pools.get(target.origin)
  if (known) return known
  const made = new Pool(target, settings)
  pools.set(target.origin, made)
  return made
}

/** Opens a connection and sends a request on it. Any failure goes to the exchange. */
async function connect(
  options: ConnectionOptions,
  exchange: Exchange,
  request: string,
): Promise<void> {
  try {
    const connection = await Connection.open(options, exchange)
    connection.carry(exchange, request)
  } catch (failure) {
    exchange.fail(failure)
  }
}

/** Owns connections that are never reused, because a caller chose where they go. */
const ONCE: ConnectionOwner = { free: connection => connection.destroy(), gone: () => undefined }

/** The idle connections to one origin. The last one used is reused first, so that others expire. */
class Pool implements ConnectionOwner {
  readonly #origin: Origin
  readonly #settings: ConnectionSettings
  readonly #idle: { connection: Connection; since: number }[] = []
  #closed = false
  #sweeper: ReturnType<typeof setInterval> | undefined

  constructor(origin: Origin, settings: ConnectionSettings) {
    this.#origin = origin
    this.#settings = settings
  }

  carry(exchange: Exchange, request: string): void {
    const connection = this.#take()
    if (connection) connection.carry(exchange, request)
    else {
      const options = { origin: this.#origin, owner: this, settings: this.#settings }
      void connect(options, exchange, request)
    }
  }

  free(connection: Connection): void {
    if (this.#closed || this.#idle.length >= MOST_IDLE) {
      connection.destroy()
      return
    }
    this.#idle.push({ connection, since: performance.now() })
    this.#sweeper ??= setInterval(() => this.#sweep(), LONGEST_IDLE / 4).unref()
  }

  gone(connection: Connection): void {
    const at = this.#idle.findIndex(one => one.connection === connection)
    if (at !== -1) this.#idle.splice(at, 1)
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#sweeper)
    for (const { connection } of this.#idle.splice(0)) connection.destroy()
  }

  #take(): Connection | undefined {
    const oldest = performance.now() - LONGEST_IDLE
    for (let one = this.#idle.pop(); one; one = this.#idle.pop()) {
      if (one.connection.usable && one.since >= oldest) return one.connection
      one.connection.destroy()
    }
    return undefined
  }

  #sweep(): void {
    const oldest = performance.now() - LONGEST_IDLE
    while (this.#idle[0] && this.#idle[0].since < oldest) this.#idle.shift()?.connection.destroy()
    if (this.#idle.length > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }
}

/** Where a connection goes. Requests to one origin may share it. */
interface Origin {
  hostname: string
  port: number
  secure: boolean
  /** The host's address, if it is known already. The certificate must still be the host's own. */
  address?: string | undefined
}

/** A connection that was refused, lost or not trusted, with the system's error code. */
export class ConnectionFailed extends Error {
  readonly code: string

  constructor(code: string) {
    super(`The connection failed: ${code}`)
    this.code = code
  }
}

/** How connections are opened. `openHttpClient` reads it for each connection. */
interface ConnectionSettings {
  /** How long a host may take to accept a connection, TLS included. */
  connectMilliseconds: number
  /** Certificates to trust instead of the system’s, as PEM. */
  ca?: string
}

/** A connection to open. */
interface ConnectionOptions {
  origin: Origin
  owner: ConnectionOwner
  settings: ConnectionSettings
}

/** What a connection calls when it becomes free, and when it has closed. */
interface ConnectionOwner {
  free(connection: Connection): void
  gone(connection: Connection): void
}

/** One connection to one origin. It carries one exchange at a time and is kept between them. */
class Connection implements Carrier {
  readonly #owner: ConnectionOwner
  #socket: Socket<undefined> | null = null
  #exchange: Exchange | null = null
  /** The part of the request that the socket has not accepted yet. */
  #unsent: Buffer | null = null
  #usable = true

  private constructor(owner: ConnectionOwner) {
    this.#owner = owner
  }

  /**
   * Opens a connection for an exchange. If the exchange fails first, opening stops at once. Throws
   * `ConnectionFailed`; over TLS also when the certificate is not the host's own, or not trusted.
   */
  static async open(
    { origin, owner, settings }: ConnectionOptions,
    exchange: Exchange,
  ): Promise<Connection> {
    const connection = new Connection(owner)
    exchange.carriedBy(connection)
    const ready = Promise.withResolvers<void>()
    const { hostname, port, secure, address = hostname.replace(/^\[|\]$/g, '') } = origin
    const { connectMilliseconds, ca } = settings
    const handlers = connection.#handlers(ready, secure)
    const tls = secure
      ? { tls: { serverName: hostname, rejectUnauthorized: true, ...(ca ? { ca } : {}) } }
      : {}
    Bun.connect({ hostname: address, port, socket: handlers, ...tls }).catch(error =>
      ready.reject(new ConnectionFailed(codeOf(error))),
    )
    const late = setTimeout(
      () => ready.reject(new ConnectionFailed('ETIMEDOUT')),
      connectMilliseconds,
    )
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

  /** Sends a request. Its response goes to the exchange. */
  carry(exchange: Exchange, request: string): void {
    this.#exchange = exchange
    exchange.carriedBy(this)
    if (exchange.failed || !this.#socket) return
    // The socket accepts most requests whole, so they go out as text, without a copy.
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
    // After a response that came before the whole request was sent, its rest is still in the way.
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
      ...(secure
        ? {
            handshake: (_: unknown, ok: boolean, error: Error | null) =>
              this.#trusted(ready, ok, error),
          }
        : {}),
      data: (_: unknown, bytes: Buffer) => this.#received(bytes),
      drain: () => this.#send(),
      end: () => this.#closed(),
      error: (_: unknown, error: Error) => this.#closed(new ConnectionFailed(codeOf(error))),
      close: (_: unknown, error?: Error) => {
        ready.reject(new ConnectionFailed(codeOf(error)))
        this.#closed(error && new ConnectionFailed(codeOf(error)))
      },
      // Bun.connect rejects as well. Without this handler it would also report the rejection.
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
    // Unsolicited bytes: no later response may begin with them.
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
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : 'ECONNRESET'
