import { findLowestFree } from '../base/descriptors.ts'
import type { LiveSet } from '../base/live-set.ts'
import { readDescriptorLimit } from '../base/machine.ts'
import type { Config } from '../config.ts'
import { type Admission, MANAGEMENT, type Pass } from '../engine/traffic/admission.ts'
import type { PaceLimits } from './event-stream/pace.ts'

/** What a connection needs from its server. `Bun.serve` has it; tests replace it. */
interface ConnectionServer {
  /** Closes the request's connection after so many seconds without progress; 0: never. */
  timeout(request: Request, seconds: number): void
  /** The address that a request was sent from. */
  requestIP?(request: Request): { port: number } | null
}

/** What connections take of the memory of calls. */
type ConnectionMemory = Pick<
  Admission,
  | 'admit'
  | 'admitBody'
  | 'refuse'
  | 'isFullOfUnread'
  | 'holdUnread'
  | 'giveBackUnread'
  | 'beginAnswer'
  | 'growAnswer'
  | 'endAnswer'
>

/** The world of a connection: the config in effect, running calls, and descriptors for more. */
export interface ConnectionWorld {
  /** It is replaced while the server runs. */
  gateway: { config: Config }
  traffic: { calls: { size: number }; admission: ConnectionMemory }
  descriptors: Pick<Descriptors, 'isScarce' | 'admitCall' | 'startCall'>
  /** The connections whose requests are being answered. */
  busy: LiveSet<Connection>
  /** Whether the next requests of its clients are for another server. */
  isTurningAway?: boolean
}

const connections = new WeakMap<Request, Connection>()

/** Binds a request to its connection, before anything looks at it. Returns the connection. */
export function bindConnection(
  world: ConnectionWorld,
  request: Request,
  server: ConnectionServer,
): Connection {
  const connection = new Connection(world, request, server)
  connections.set(request, connection)
  return connection
}

/** Returns the connection of a request; undefined for one that came without a server. */
export const findConnection = (request: Request): Connection | undefined => connections.get(request)

/** Bun looks at its connections this often, so a limit may strike this many seconds too early. */
const GRANULARITY = 4

/** Returns what to tell Bun so that a connection is silent for at least so many seconds. */
export const toServerSeconds = (seconds: number): number => Math.ceil(seconds) + GRANULARITY

/**
 * The connection of one request. Bun limits its silence from the first byte on. Only while the
 * gateway works, and so the client rightly waits, it is not limited; the call's own timeouts are.
 */
export class Connection {
  readonly #world: ConnectionWorld
  readonly #request: Request
  readonly #server: ConnectionServer
  /** What Bun was told last. */
  #limit: number | undefined
  #running = 0
  #hasReader = false
  #isBodyReceived = false
  /** Whether its request has a response, which may still be on its way. */
  #isAnswered = false
  /** Takes it from the busy connections; undefined if it is none of them. */
  #leaveBusy: (() => void) | undefined
  /** Whether a descriptor is kept for its call. */
  #isAwaited = false
  /** What its call holds of what all calls share; null without a call. */
  #pass: Pass | null = null
  /** Gives back the memory of a body that is no call's; null without any. */
  #leaveBody: (() => void) | null = null
  /** Gives back the memory that its stream has begun with; null without any. */
  #leaveRoom: (() => void) | null = null
  /** The memory of what may wait for its reader. */
  #unread = 0
  /** Whether its stream is being read. */
  #isStreaming = false
  /** For how many calls that go on without their client it keeps its place. */
  #kept = 0

  constructor(world: ConnectionWorld, request: Request, server: ConnectionServer) {
    this.#world = world
    this.#request = request
    this.#server = server
    this.#updateBusy()
  }

  /** The port of the client; null if it has left. */
  get peerPort(): number | null {
    return this.#server.requestIP?.(this.#request)?.port ?? null
  }

  /** How many seconds a body may take, apart from what its size allows. */
  get bodySeconds(): number {
    return this.#world.gateway.config.timeouts.body_seconds
  }

  /** How fast the client has to read a stream; null if it may be as slow as it likes. */
  get paceLimits(): PaceLimits | null {
    const { limits, timeouts } = this.#world.gateway.config
    const { reader_seconds } = timeouts
    const bytes = limits.reader_bytes_per_second * reader_seconds
    return bytes === 0 ? null : { milliseconds: reader_seconds * 1000, bytes }
  }

  /** Whether only the reserve of descriptors is left, so that calls are refused. */
  get lacksDescriptors(): boolean {
    return this.#world.descriptors.isScarce
  }

  /**
   * Throws 503 when the process runs out of descriptors: a call needs another one. It is kept for
   * the call until `startCall`, or until the work on its request is finished.
   */
  requireDescriptor(): void {
    if (!this.#world.descriptors.admitCall())
      throw this.#world.traffic.admission.refuse('descriptors')
    this.#isAwaited = true
  }

  /**
   * Admits a call of a key before its body is read. Throws 503 where it does not fit beside those
   * that run. Returns a promise if the call has to wait for its turn. What it holds is given back
   * when the work on it is finished, and its answer read.
   */
  admitCall(key: string): Promise<void> | null {
    this.requireDescriptor()
    const length = Number(this.#request.headers.get('content-length') ?? Number.NaN)
    this.#pass = this.#world.traffic.admission.admit(key, length)
    return this.#pass.turn
  }

  /**
   * Takes memory for the body of a request that is no call: for so many bytes of it, until the work
   * on it is finished. Throws 503 if it is not there.
   */
  admitBody(bytes: number): void {
    this.#leaveBody?.()
    this.#leaveBody = null
    this.#leaveBody = this.#world.traffic.admission.admitBody(bytes)
  }

  /** Holds the memory of a call's answer of so many bytes until its client has taken it. */
  holdAnswer(bytes: number): void {
    this.#pass?.hold(bytes)
  }

  /**
   * Counts what may wait for the reader of a stream until it ends: so many bytes, and what was read
   * ahead for it.
   */
  holdUnread(bytes: number): void {
    const more = READ_AHEAD + bytes * COPIES - this.#unread
    if (more <= 0) return
    this.#unread += more
    this.#world.traffic.admission.holdUnread(this.#pass?.key ?? MANAGEMENT, more)
    this.#leaveRoom?.()
  }

  /**
   * The stream is about to be read on. Where what waits for readers uses up the memory, one that
   * begins waits for some: then it returns a promise.
   */
  readOn(): Promise<void> | null {
    if (this.#isStreaming) {
      this.#leaveRoom?.()
      return null
    }
    this.#isStreaming = true
    const { admission } = this.#world.traffic
    if (!admission.isFullOfUnread) return null
    const asked = admission.beginAnswer(this.#pass?.key ?? MANAGEMENT, this)
    this.#leaveRoom = () => {
      this.#leaveRoom = null
      admission.endAnswer(asked)
    }
    return admission.growAnswer(asked, READ_AHEAD, 1)
  }

  #giveBackUnread(): void {
    this.#leaveRoom?.()
    if (this.#unread === 0) return
    this.#world.traffic.admission.giveBackUnread(this.#pass?.key ?? MANAGEMENT, this.#unread)
    this.#unread = 0
  }

  /** Takes memory for what has come of a body whose length is not known. Throws 503 without it. */
  growBody(bytes: number): void {
    if (this.#pass) this.#pass.take(bytes)
    else this.admitBody(bytes)
  }

  /** The call runs now, and is counted with those. */
  startCall(): void {
    if (this.#isAwaited) this.#world.descriptors.startCall()
    this.#isAwaited = false
  }

  /** Runs work during which the client waits. Afterwards the connection is limited again. */
  async runUnlimited<Result>(work: () => Promise<Result>): Promise<Result> {
    this.startWork()
    try {
      return await work()
    } finally {
      this.finishWork()
    }
  }

  /** The client waits from now on, until `finishWork`. */
  startWork(): void {
    this.#running += 1
    this.#limitSilence()
  }

  /** The client waits no longer, unless other work runs. */
  finishWork(): void {
    this.#running -= 1
    this.#limitSilence()
    if (this.#running > 0) return
    this.#leaveBody?.()
    this.#leaveBody = null
    // What was refused, or had no need of its descriptor, waits for none.
    if (this.#isAwaited) this.startCall()
    if (this.#kept === 0 && !this.#hasReader) this.#pass?.end()
  }

  /** Keeps the place of a call that goes on without its client. Returns what gives it back. */
  keepPlace(): () => void {
    this.#kept += 1
    return () => {
      this.#kept -= 1
      if (this.#running === 0 && this.#kept === 0 && !this.#hasReader) this.#pass?.end()
    }
  }

  /** Whether its request is a call that was admitted, and has memory for its body. */
  get isCall(): boolean {
    return this.#pass !== null
  }

  /** The client has to take what is written from now on, until `finishReading`. */
  startReading(): void {
    this.#hasReader = true
    this.#limitSilence()
  }

  /** Everything is written. The connection may be used for another request. */
  finishReading(): void {
    this.#hasReader = false
    this.#giveBackUnread()
    this.#limitSilence()
    if (this.#running === 0 && this.#kept === 0) this.#pass?.end()
  }

  /** The client has left, or was cut: nothing is written any more. */
  leaveReading(): void {
    this.#hasReader = false
    this.#giveBackUnread()
    this.#updateBusy()
    if (this.#running === 0 && this.#kept === 0) this.#pass?.end()
  }

  /** Notes that the last byte of the body has arrived. */
  finishBody(): void {
    this.#isBodyReceived = true
  }

  /** The request has its response. The connection is busy until that is sent. */
  finishRequest(): void {
    this.#isAnswered = true
    this.#updateBusy()
  }

  /** Leaves a small body that is not read to Bun, which reads what is left of it. */
  skipSmallBody(): void {
    const { headers } = this.#request
    if (Number(headers.get('content-length') ?? Number.NaN) <= DRAINED_BODY)
      this.#isBodyReceived = true
  }

  /**
   * Decides whether the connection can serve another request after this one: not while the body of
   * this one is still on its way, since Bun would read all of it, nor if descriptors are scarce or
   * another server has taken over.
   * Returns no promise where it need not wait, as after most calls.
   */
  isReusable(): boolean | Promise<boolean> {
    if (this.#world.descriptors.isScarce || this.#world.isTurningAway) return false
    return this.#isBodyReceived || hasDrained(this.#request)
  }

  #limitSilence(): void {
    this.#updateBusy()
    const { timeouts, server } = this.#world.gateway.config
    const seconds = this.#hasReader ? timeouts.reader_seconds : server.idle_seconds
    const limit = this.#running > 0 ? 0 : toServerSeconds(seconds)
    if (limit === this.#limit) return
    this.#limit = limit
    this.#server.timeout(this.#request, limit)
  }

  #updateBusy(): void {
    if (!this.#isAnswered || this.#running > 0 || this.#hasReader)
      this.#leaveBusy ??= this.#world.busy.add(this)
    else {
      this.#leaveBusy?.()
      this.#leaveBusy = undefined
    }
  }
}

/** In bytes: what one read of a source brings, of which the rest waits. */
const READ_AHEAD = 512 * 1024

/** How many times a text that goes out is in memory: as parts, as a text, as bytes, in sockets. */
const COPIES = 4

/** How many bytes of a refused body are read, so that its connection can be used again. */
const DRAINED_BODY = 64 * 1024

/** How many milliseconds the rest of a refused body is waited for. */
const DRAIN_TIME = 1_000

/** Waits for the rest of a small body that is not read. Returns false if it is not whole then. */
async function hasDrained(request: Request): Promise<boolean> {
  const { headers } = request
  const length = headers.get('content-length')
  if (headers.has('transfer-encoding')) return false
  if (length === null || length === '0') return true
  if (request.bodyUsed || !(Number(length) <= DRAINED_BODY)) return false
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), DRAIN_TIME)
  const isWhole = request.bytes().then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([isWhole, late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * The file descriptors of this process. When none is left, Bun cannot accept a connection, and
 * tries again all the time. So some are kept for `/health` and for what runs: when only those are
 * left, descriptors are scarce.
 */
export class Descriptors {
  /** Whether only the reserve is left. */
  isScarce = false
  /** The first number that is no descriptor; infinite if the system does not tell. */
  readonly limit: number
  readonly #reserve: number
  readonly #onChange: (isScarce: boolean) => void
  readonly #countUnconnected: () => number
  readonly #findLowestFree: () => number
  /** Calls that were admitted and do not run yet: their bodies are still read. */
  #waiting = 0
  /** The most calls that may yet open a connection to a provider. */
  #pending = 0
  /** How many calls came since the last look, and at which number there is another one. */
  #calls = 0
  #nextLook = 0
  #lowestFree = 0

  constructor(options: DescriptorsOptions = {}) {
    this.limit = options.limit ?? readDescriptorLimit()
    this.#findLowestFree = options.findLowestFree ?? findLowestFree
    this.#countUnconnected = options.countUnconnected ?? (() => 0)
    this.#reserve = Math.min(LARGEST_RESERVE, Math.floor(this.limit / 4))
    this.#onChange = options.onChange ?? (() => {})
  }

  /** Looks again. Takes microseconds. */
  look(): void {
    const wasScarce = this.isScarce
    this.#lookAgain()
    this.isScarce = this.#room <= 0
    if (this.isScarce !== wasScarce) this.#onChange(this.isScarce)
  }

  /**
   * Returns whether another call finds a descriptor, whatever those do that were admitted before.
   * None is refused by an earlier count. An admitted call waits until `startCall`.
   */
  admitCall(): boolean {
    if (this.#calls >= this.#nextLook || this.#isFull) this.#lookAgain()
    this.#calls += 1
    if (this.#isFull) return false
    this.#pending += 1
    this.#waiting += 1
    return true
  }

  /** An admitted call runs now, or was refused. */
  startCall(): void {
    this.#waiting -= 1
  }

  #lookAgain(): void {
    this.#lowestFree = this.#findLowestFree()
    this.#pending = this.#waiting + this.#countUnconnected()
    this.#calls = 0
    this.#nextLook = Math.max(CALLS_PER_LOOK, this.#room * ROOM_PER_LOOK)
  }

  /** Whether those that were admitted may take all that is left. */
  get #isFull(): boolean {
    return this.#pending >= this.#room
  }

  /** How many descriptors are left besides the reserve. */
  get #room(): number {
    return this.limit - this.#reserve - this.#lowestFree
  }
}

/** How descriptors are counted. */
interface DescriptorsOptions {
  onChange?: (isScarce: boolean) => void
  /** Counts the running calls that have no connection to a provider yet. */
  countUnconnected?: () => number
  /** The first number that is no descriptor; infinite if the system does not tell. */
  limit?: number
  findLowestFree?: () => number
}

/**
 * Many connections may come between two regular looks, each with a call: after so many calls there
 * is another look, or after as many as would take this share of what was left.
 */
const CALLS_PER_LOOK = 16
const ROOM_PER_LOOK = 1 / 32
const LARGEST_RESERVE = 64
