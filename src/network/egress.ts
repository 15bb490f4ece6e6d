import { lookup } from 'node:dns/promises'
import type { Socket } from 'bun'
import type { ByteSource } from '../base/byte-source.ts'
import type { Cancellation } from '../base/cancellation.ts'
import { Timeout } from '../base/clock.ts'
import { findLowestFree } from '../base/descriptors.ts'
import { isObject, parseObject } from '../base/json.ts'
import { readDescriptorLimit } from '../base/machine.ts'
import { openSocketCalls, SOL_SOCKET } from '../base/socket-calls.ts'
import type { Config } from '../config.ts'
import { type Carrier, Exchange, type IncomingResponse, readBodyText } from './http/exchange.ts'
import { askSandbox } from './sandbox.ts'

export type { IncomingResponse }

/** A piece of a body: bytes, which are emptied once they are sent, or what is read meanwhile. */
export type BodyPiece = Uint8Array | ByteSource

/** One request to a provider or another host. */
export interface OutgoingRequest {
  /** POST by default. */
  method?: 'GET' | 'PUT' | 'DELETE' | 'PATCH' | 'POST'
  url: string
  /** Keyed by lower-case name. */
  headers: Record<string, string>
  /**
   * Exactly as it goes on the wire, because signatures cover it. A large one is in pieces, each of
   * which gives its memory back once it is sent.
   */
  body: string | BodyPiece[]
  /** A large body as it was before it was written: the sandbox need not read it again. */
  value?: unknown
  /** The file that goes with the value. */
  attached?: ByteSource
  /** The address to connect to, instead of resolving the URL's host. */
  address?: string
  /** Whether the next request to the same host at the same address may use its connection. */
  isRepeated?: boolean
  /** Called when a connection takes the request: from here on the provider may have read it. */
  onSent?: () => void
}

/** Sends a request. Cancelling closes the connection at once. */
export type Send = (
  outgoing: OutgoingRequest,
  cancellation: Cancellation,
) => Promise<IncomingResponse>

/**
 * Opens the only way out of the process. It sends requests to providers and answers for the
 * sandbox itself. `getConfig` is called whenever a connection is opened.
 */
export function openEgress(getConfig: () => Config): Send {
  const http = openHttpClient({
    get connectMilliseconds() {
      return getConfig().timeouts.connect_seconds * 1000
    },
  })
  return (
    { method = 'POST', url, headers, body, value, attached, address, isRepeated, onSent },
    cancellation,
  ) => {
    if (url.startsWith('sandbox:')) {
      onSent?.()
      const asked = value ?? (typeof body === 'string' ? parseObject(body) : undefined)
      return askSandbox(
        url.slice('sandbox:'.length),
        isObject(asked) ? asked : {},
        cancellation,
        attached,
      ).then(toIncomingResponse)
    }
    return http.send({ method, url, headers, body, address, isRepeated, onSent }, cancellation)
  }
}

/** Returns the addresses of a host. Throws when it has none. */
export type Resolve = (host: string) => Promise<string[]>

/** Resolves a host with the system's resolver. */
export const resolveHost: Resolve = async host =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** Converts a platform `Response` to an `IncomingResponse`. */
export function toIncomingResponse(response: Response): IncomingResponse {
  const reader = response.body?.getReader()
  const read = async () => (await reader?.read())?.value ?? null
  return {
    status: response.status,
    header: name => response.headers.get(name),
    read,
    text: (maxBytes, onBytes) => readBodyText({ read }, maxBytes, onBytes),
  }
}

/** A request to send. The body is whole. */
export interface HttpRequest {
  method: string
  url: string
  headers: Record<string, string>
  /**
   * A text, or the pieces of a large one: each is emptied once it is sent. A source is read as the
   * connection takes it.
   */
  body: string | BodyPiece[]
  /**
   * The address to connect to, instead of resolving the URL's host. An address that was checked
   * is the one that is called.
   */
  address?: string | undefined
  /** Whether the next request to the same host at the same address may use its connection. */
  isRepeated?: boolean | undefined
  /** Called when a connection takes the request: from here on the provider may have read it. */
  onSent?: (() => void) | undefined
}

export interface HttpClient {
  /**
   * Sends the request. Cancelling closes its connection at once, at any time. Throws
   * `ConnectionFailed`, or the cancellation's reason.
   */
  send(request: HttpRequest, cancellation: Cancellation): Promise<IncomingResponse>
  /** Closes idle connections now, and each other one when its exchange has ended. */
  close(): void
}

/**
 * How many idle connections are kept in all, within a share of the descriptors, and for how many
 * milliseconds each. Where more calls run at once, some connect anew each time.
 */
const MOST_IDLE = 4_096
const SHARE_OF_DESCRIPTORS = 1 / 4
const LONGEST_IDLE = 4_000
/** Hosts that are called at addresses, of which there may be many, leave a part to providers. */
const SHARE_OF_CHECKED = 1 / 2

const computeMostIdle = (): number =>
  Math.min(MOST_IDLE, Math.floor(readDescriptorLimit() * SHARE_OF_DESCRIPTORS))

/**
 * Opens an HTTP/1.1 client on the event loop's own sockets, without a thread in between. Any number
 * of requests run at once. A response that is shorter than its stated length is never taken for a
 * whole one. The client follows no redirects, reads no environment variables and resends nothing.
 */
export function openHttpClient(settings: ConnectionSettings): HttpClient {
  const pools = new Map<string, Pool>()
  const targets = new Map<string, Target>()
  const idle: IdleCount = { count: 0, most: settings.mostIdle ?? computeMostIdle() }
  return {
    send(request, cancellation) {
      const { address, isRepeated = false } = request
      const target =
        address === undefined
          ? getTarget(targets, request.url)
          : { ...parseTarget(request.url), address }
      const exchange = new Exchange(request.onSent)
      cancellation.listen(reason => exchange.fail(reason))
      if (cancellation.reason) return exchange.response.promise
      const rendered = renderRequest(request, target)
      if (address === undefined || isRepeated)
        getPool(pools, target, { settings, idle }).carry(exchange, rendered)
      else void connect({ origin: target, owner: SINGLE_USE, settings }, exchange, rendered)
      return exchange.response.promise
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

const MAX_TARGETS = 10_000

// A gateway calls few URLs, again and again, so each is parsed once.
function getTarget(targets: Map<string, Target>, address: string): Target {
  const cached = targets.get(address)
  if (cached) return cached
  if (targets.size >= MAX_TARGETS) targets.clear()
  const target = parseTarget(address)
  targets.set(address, target)
  return target
}

function parseTarget(address: string): Target {
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

/** A request as it goes on the wire: a text, and the pieces of a large body after it. */
interface RenderedRequest {
  text: string
  pieces: BodyPiece[]
}

function renderRequest(
  { method, headers, body }: HttpRequest,
  { host, path }: Target,
): RenderedRequest {
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n`
  let values = ''
  for (const name in headers) {
    const value = headers[name] ?? ''
    values += value
    head += `${name}: ${value}\r\n`
  }
  // A line break in a value would start another header, or another request.
  if (/[\r\n\0]/.test(values)) throw new TypeError('A header value with a line break')
  // A method that defines no body sends no Content-Length (RFC 9110, 8.6).
  if (method !== 'GET') head += `content-length: ${countBytes(body)}\r\n`
  return typeof body === 'string'
    ? { text: `${head}\r\n${body}`, pieces: NO_PIECES }
    : { text: `${head}\r\n`, pieces: body }
}

const NO_PIECES: BodyPiece[] = []

const countBytes = (body: string | BodyPiece[]): number =>
  typeof body === 'string'
    ? Buffer.byteLength(body)
    : body.reduce((sum, piece) => sum + countPiece(piece), 0)

const countPiece = (piece: BodyPiece): number =>
  piece instanceof Uint8Array ? piece.length : piece.size

/**
 * Returns the connections to the host of a target, at its address if that is known: what was
 * checked for one request is never taken for another. Hosts that are called at addresses come and
 * go, so what is not used any more is forgotten.
 */
function getPool(
  pools: Map<string, Pool>,
  target: Target,
  options: Omit<PoolOptions, 'onUnused'>,
): Pool {
  const { origin, address } = target
  const name = address === undefined ? origin : `${origin} ${address}`
  const existing = pools.get(name)
  if (existing) return existing
  const onUnused = address === undefined ? null : () => void pools.delete(name)
  const pool = new Pool(target, { ...options, onUnused })
  pools.set(name, pool)
  return pool
}

/** Opens a connection and sends a request on it. Any failure goes to the exchange. */
async function connect(
  options: ConnectionOptions,
  exchange: Exchange,
  request: RenderedRequest,
): Promise<void> {
  try {
    const connection = await Connection.open(options, exchange)
    connection.carry(exchange, request)
  } catch (failure) {
    exchange.fail(failure)
  }
}

/** Owns connections that are never reused, because a caller chose where they go. */
const SINGLE_USE: ConnectionOwner = {
  onFree: connection => connection.destroy(),
  onGone: () => undefined,
}

/** The idle connections to all origins. */
interface IdleCount {
  count: number
  readonly most: number
}

/** A connection that waits for a request, since this steady millisecond. */
interface IdleConnection {
  connection: Connection
  since: number
}

/** What the pools of a client share. */
interface PoolOptions {
  settings: ConnectionSettings
  idle: IdleCount
  /** Told when no request has come for as long as connections are kept; null for nobody. */
  onUnused: (() => void) | null
}

/**
 * The idle connections to one origin, at an address where it was called at one. The last one used is
 * reused first, so that others expire.
 */
class Pool implements ConnectionOwner {
  readonly #origin: Origin
  readonly #settings: ConnectionSettings
  readonly #all: IdleCount
  readonly #idle: IdleConnection[] = []
  readonly #onUnused: PoolOptions['onUnused']
  #closed = false
  #usedAt = 0
  #sweeper: ReturnType<typeof setInterval> | undefined

  constructor(origin: Origin, { settings, idle, onUnused }: PoolOptions) {
    this.#origin = origin
    this.#settings = settings
    this.#all = idle
    this.#onUnused = onUnused
  }

  carry(exchange: Exchange, request: RenderedRequest): void {
    if (this.#onUnused) {
      this.#usedAt = performance.now()
      this.#startSweeping()
    }
    const connection = this.#take()
    if (connection) connection.carry(exchange, request)
    else {
      const options = { origin: this.#origin, owner: this, settings: this.#settings }
      void connect(options, exchange, request)
    }
  }

  onFree(connection: Connection): void {
    if (this.#closed || this.#all.count >= this.#most) {
      connection.destroy()
      return
    }
    this.#all.count += 1
    this.#idle.push({ connection, since: performance.now() })
    this.#startSweeping()
  }

  onGone(connection: Connection): void {
    const index = this.#idle.findIndex(entry => entry.connection === connection)
    if (index !== -1) this.#remove(index, 1)
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#sweeper)
    for (const { connection } of this.#remove(0, this.#idle.length)) connection.destroy()
  }

  /** How many idle connections there may be in all for another one to be kept here. */
  get #most(): number {
    return this.#onUnused ? this.#all.most * SHARE_OF_CHECKED : this.#all.most
  }

  #take(): Connection | undefined {
    const oldest = performance.now() - LONGEST_IDLE
    for (let entry = this.#idle.pop(); entry; entry = this.#idle.pop()) {
      this.#all.count -= 1
      if (entry.connection.usable && entry.since >= oldest) return entry.connection
      entry.connection.destroy()
    }
    return undefined
  }

  #remove(from: number, count: number): IdleConnection[] {
    this.#all.count -= count
    return this.#idle.splice(from, count)
  }

  #startSweeping(): void {
    this.#sweeper ??= setInterval(() => this.#sweep(), LONGEST_IDLE / 4).unref()
  }

  #sweep(): void {
    const oldest = performance.now() - LONGEST_IDLE
    const isFresh = ({ since }: IdleConnection) => since >= oldest
    const fresh = this.#idle.findIndex(isFresh)
    const expired = this.#remove(0, fresh === -1 ? this.#idle.length : fresh)
    for (const { connection } of expired) connection.destroy()
    if (this.#idle.length > 0 || (this.#onUnused && this.#usedAt >= oldest)) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
    if (!this.#onUnused) return
    this.#onUnused()
    // A connection that still carries a request is not kept after it.
    this.#closed = true
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
  /** How many idle connections are kept in all. */
  mostIdle?: number
}

/** A connection to open. */
interface ConnectionOptions {
  origin: Origin
  owner: ConnectionOwner
  settings: ConnectionSettings
}

/** What a connection calls when it becomes free, and when it has closed. */
interface ConnectionOwner {
  onFree(connection: Connection): void
  onGone(connection: Connection): void
}

/** The bytes of a file that are read at once. */
const READ_SIZE = 256 * 1024

/** Returns what follows the first bytes of a source. */
const skipBytes = (source: ByteSource, skipped: number): ByteSource => ({
  size: source.size - skipped,
  read: (position, length) => source.read(position + skipped, length),
})

/** In bytes, half of what the system keeps of a stream whose reader is slow. Number of socket(7). */
const RECEIVED = 48 * 1024
const SO_RCVBUF = 8

/** One connection to one origin. It carries one exchange at a time and is kept between them. */
class Connection implements Carrier {
  readonly #owner: ConnectionOwner
  #socket: Socket<undefined> | null = null
  #exchange: Exchange | null = null
  /** The part of the request that the socket has not accepted yet. */
  #unsent: BodyPiece[] = []
  #isReading = false
  #isLimited = false
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
    exchange.attachCarrier(connection)
    const ready = Promise.withResolvers<void>()
    const { hostname, port, secure, address = hostname.replace(/^\[|\]$/g, '') } = origin
    const { connectMilliseconds, ca } = settings
    const handlers = connection.#handlers(ready, secure)
    const tls = secure
      ? { tls: { serverName: hostname, rejectUnauthorized: true, ...(ca ? { ca } : {}) } }
      : {}
    Bun.connect({ hostname: address, port, socket: handlers, ...tls }).catch(error =>
      ready.reject(new ConnectionFailed(readConnectErrorCode(error))),
    )
    const timeout = new Timeout(connectMilliseconds, () =>
      ready.reject(new ConnectionFailed('ETIMEDOUT')),
    )
    try {
      await ready.promise
      return connection
    } catch (failure) {
      connection.destroy()
      throw failure
    } finally {
      timeout.stop()
    }
  }

  /** Whether it can carry another exchange. */
  get usable(): boolean {
    return this.#usable
  }

  /** Sends a request. Its response goes to the exchange. */
  carry(exchange: Exchange, { text, pieces }: RenderedRequest): void {
    this.#exchange = exchange
    exchange.attachCarrier(this)
    if (exchange.failed || !this.#socket) return
    // The socket accepts most requests whole, so they go out as text, without a copy.
    const sent = this.#socket.write(text)
    if (sent < 0) this.#handleClose(new ConnectionFailed('EPIPE'))
    else if (sent < Buffer.byteLength(text))
      this.#unsent = [Buffer.from(text).subarray(sent), ...pieces]
    else if (pieces.length > 0) {
      this.#unsent = [...pieces]
      this.#send()
    }
    if (sent >= 0) exchange.onSent?.()
  }

  pause(isLimited: boolean): void {
    this.#socket?.pause()
    if (isLimited && !this.#isLimited) void this.#limitReceived().catch(() => undefined)
  }

  resume(): void {
    this.#socket?.resume()
  }

  // By itself the system keeps megabytes for a reader that is slow, and Bun takes half of one at once.
  async #limitReceived(): Promise<void> {
    this.#isLimited = true
    const calls = await openSocketCalls()
    // Bun's types do not have it.
    const { fd = -1 } = (this.#socket ?? {}) as { fd?: number }
    if (this.#usable && fd >= 0) calls?.setOption(fd, SOL_SOCKET, SO_RCVBUF, RECEIVED)
  }

  release(reusable: boolean): void {
    this.#exchange = null
    // After a response that came before the whole request was sent, its rest is still in the way.
    if (reusable && this.#usable && !this.#isLimited && this.#unsent.length === 0) {
      this.#socket?.resume()
      this.#owner.onFree(this)
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
              this.#finishHandshake(ready, ok, error),
          }
        : {}),
      // Without an exchange, bytes are unsolicited: no later response may begin with them.
      data: (_: unknown, bytes: Buffer) =>
        this.#exchange ? this.#exchange.receive(bytes) : this.destroy(),
      drain: () => this.#send(),
      end: () => this.#handleClose(),
      error: (_: unknown, error: Error) =>
        this.#handleClose(new ConnectionFailed(readErrorCode(error))),
      close: (_: unknown, error?: Error) => {
        ready.reject(new ConnectionFailed(readErrorCode(error)))
        this.#handleClose(error && new ConnectionFailed(readErrorCode(error)))
      },
      // Bun.connect rejects as well. Without this handler it would also report the rejection.
      connectError: () => undefined,
    }
  }

  #finishHandshake(ready: PromiseWithResolvers<void>, ok: boolean, error: Error | null): void {
    if (ok && !error) ready.resolve()
    else {
      this.#usable = false
      ready.reject(new ConnectionFailed(readErrorCode(error)))
      this.#socket?.terminate()
    }
  }

  #send(): void {
    for (let piece = this.#unsent[0]; piece && this.#socket; piece = this.#unsent[0]) {
      if (!(piece instanceof Uint8Array)) {
        void this.#readSource(piece)
        return
      }
      const sent = this.#socket.write(piece)
      if (sent < 0) {
        this.#handleClose(new ConnectionFailed('EPIPE'))
        return
      }
      if (sent < piece.length) {
        this.#unsent[0] = piece.subarray(sent)
        return
      }
      this.#unsent.shift()
    }
  }

  /** Replaces a source by its next bytes and what is left of it, and goes on. */
  async #readSource(source: ByteSource): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    try {
      const bytes = await source.read(0, READ_SIZE)
      if (bytes.length === 0 && source.size > 0)
        throw new Error('A file that is shorter than it was')
      const rest = skipBytes(source, bytes.length)
      if (this.#unsent[0] === source)
        this.#unsent.splice(0, 1, bytes, ...(rest.size > 0 ? [rest] : []))
    } catch (failure) {
      this.#handleClose(failure)
      return
    } finally {
      this.#isReading = false
    }
    this.#send()
  }

  #handleClose(error?: unknown): void {
    if (this.#usable) this.#owner.onGone(this)
    this.#usable = false
    const exchange = this.#exchange
    this.#exchange = null
    exchange?.handleClose(error)
    this.#socket?.terminate()
  }
}

const readErrorCode = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : 'ECONNRESET'

/** The system's error code when a process has no file descriptor left. */
export const NO_DESCRIPTOR = 'EMFILE'

// Bun says that the other side refuses when this one has no descriptor left.
const readConnectErrorCode = (error: unknown): string =>
  Number.isFinite(findLowestFree()) ? readErrorCode(error) : NO_DESCRIPTOR
