import { createInterface } from 'node:readline'
import { Connection, getText } from './connection.ts'
import { computePercentile } from './statistics.ts'
import {
  type CallShape,
  createAnswerReader,
  getMicroseconds,
  renderCall,
  renderRequest,
  type Target,
} from './wire.ts'

/** Hears whether a call was answered well. */
type Done = (isGood: boolean) => void

/** A client that makes one call at a time, on a connection that it keeps. */
export class Caller {
  readonly #url: string
  #connection: Connection | undefined
  #done: Done | undefined

  constructor(url: string) {
    this.#url = url
  }

  /** Makes a call. The one before must be done. A connection that was lost is opened again. */
  call(request: Buffer, done: Done): void {
    this.#done = done
    if (this.#connection) this.#connection.send(request)
    else this.#open(request)
  }

  #open(request: Buffer): void {
    const read = createAnswerReader()
    this.#connection = new Connection(this.#url, {
      open: connection => connection.send(request),
      data: bytes => {
        const isGood = read(bytes)
        if (isGood !== undefined) this.#end(isGood)
      },
      close: () => {
        this.#connection = undefined
        this.#end(false)
      },
    })
  }

  /** Leaves. A call that is not done has failed. */
  leave(): void {
    this.#connection?.leave()
    this.#end(false)
  }

  #end(isGood: boolean): void {
    const done = this.#done
    this.#done = undefined
    done?.(isGood)
  }
}

/**
 * The limits of a closed loop. It ends at the number of calls or at the time, whichever comes
 * first.
 */
type LoopLimit = { connections: number; calls: number; seconds: number }

/** The result of a loop. `errors` counts failed and missing answers and lost connections. */
type LoopResult = {
  calls: number
  errors: number
  callsPerSecond: number
  p50Ms: number
  p99Ms: number
  slowestMs: number
}

/** In milliseconds: how long a missing answer may hold the benchmark up, after the time of the loop. */
const PATIENCE_MS = 3_000
/** A loop with so many errors ends. */
const MOST_ERRORS = 1_000

/** What the clients of one loop share: the waits of answered calls, in milliseconds. */
interface Loop {
  waits: number[]
  errors: number
}

/**
 * Sends calls without streaming, one at a time on each connection, each as soon as the one before
 * is answered.
 */
export async function runClosedLoop(
  target: Target,
  limit: LoopLimit,
  request = renderRequest(target, false),
): Promise<LoopResult> {
  const began = performance.now()
  const loop = { waits: [], errors: 0 }
  const callers = Array.from({ length: limit.connections }, () => new Caller(target.url))
  const impatience = leaveLater(callers, limit.seconds)
  let started = 0
  const begin = () => {
    if (started >= limit.calls || loop.errors >= MOST_ERRORS) return false
    if (performance.now() - began >= limit.seconds * 1000) return false
    return ++started > 0
  }
  await Promise.all(callers.map(caller => keepCalling(caller, request, { loop, begin })))
  clearTimeout(impatience)
  for (const caller of callers) caller.leave()
  return summarize(loop, began)
}

/** Makes calls on one connection, as long as another may begin. */
function keepCalling(
  caller: Caller,
  request: Buffer,
  { loop, begin }: { loop: Loop; begin: () => boolean },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const call = () => {
    if (!begin()) return resolve()
    const sentAt = performance.now()
    caller.call(request, isGood => {
      note(loop, isGood, sentAt)
      call()
    })
  }
  call()
  return promise
}

/** Notes how long a call took, or that it failed. */
function note(loop: Loop, isGood: boolean, since: number): void {
  if (isGood) loop.waits.push(performance.now() - since)
  else loop.errors++
}

// A missing answer must not block the benchmark.
const leaveLater = (callers: Caller[], seconds: number) =>
  setTimeout(
    () => {
      for (const caller of callers) caller.leave()
    },
    seconds * 1000 + PATIENCE_MS,
  )

/** Sums a loop up. */
function summarize({ waits, errors }: Loop, began: number): LoopResult {
  return {
    calls: waits.length,
    errors,
    callsPerSecond: waits.length / ((performance.now() - began) / 1000),
    p50Ms: computePercentile(waits, 0.5),
    p99Ms: computePercentile(waits, 0.99),
    slowestMs: computePercentile(waits, 1),
  }
}

/** What the load generator is asked to do. */
export type Order = { target: Target; shape: CallShape } & (
  | { load: 'closed'; limit: LoopLimit }
  | { load: 'open'; limit: OpenLimit }
  | { load: 'streams'; limit: StreamLoad }
  | { load: 'leavers'; limit: StreamLoad; upstream: string }
)

/** What came of an order. `errors` counts calls that were not answered well. */
export interface Outcome {
  calls: number
  errors: number
  /** What the cost is divided by: calls, or chunks. */
  units: number
  callsPerSecond: number | null
  p50Ms: number | null
  p99Ms: number | null
  /** How long chunks were on their way. */
  relayP99Ms: number | null
}

/** How long a proxy has to close the stream at the provider when a client has left. */
const NOTICE_MS = 1_000

/**
 * Serves the load generator, a process of its own: carries out orders from standard input, one line
 * each, and writes a line for each outcome. Ends with its input.
 */
export async function serveLoad(): Promise<void> {
  process.stdout.write(`${JSON.stringify({ event: 'ready' })}\n`)
  for await (const line of createInterface({ input: process.stdin }))
    process.stdout.write(`${JSON.stringify(await carryOut(JSON.parse(line)))}\n`)
  process.exit(0)
}

async function carryOut(order: Order): Promise<Outcome> {
  const request = renderCall(order.target, order.shape)
  if (order.load === 'closed')
    return toOutcome(await runClosedLoop(order.target, order.limit, request))
  if (order.load === 'open') return toOutcome(await runOpenLoop(order.target, order.limit, request))
  if (order.load === 'streams')
    return toStreamOutcome(await openStreams(order.target, order.limit, request))
  return leaveStreams(order, request)
}

const toOutcome = ({ calls, errors, callsPerSecond, p50Ms, p99Ms }: LoopResult): Outcome => ({
  ...{ calls, errors, units: calls, callsPerSecond, p50Ms, p99Ms, relayP99Ms: null },
})

const toStreamOutcome = (result: StreamResult): Outcome => ({
  ...{ calls: result.finished, errors: result.streams - result.finished, units: result.chunks },
  ...{ callsPerSecond: null, p50Ms: result.ttftP50Ms, p99Ms: result.ttftP99Ms },
  relayP99Ms: result.relayP99Ms,
})

/** Opens streams whose clients leave. Errors are those that the provider went on with. */
async function leaveStreams(
  { target, limit, upstream }: Extract<Order, { load: 'leavers' }>,
  request: Buffer,
): Promise<Outcome> {
  const before = await readStats(upstream)
  const { ttftP50Ms, ttftP99Ms } = await openStreams(target, limit, request)
  const deadline = performance.now() + NOTICE_MS
  let noticed = 0
  while (noticed < limit.streams && performance.now() < deadline) {
    await Bun.sleep(10)
    noticed = (await readStats(upstream)).aborted - before.aborted
  }
  return {
    ...{ calls: limit.streams, errors: limit.streams - noticed, units: limit.streams },
    ...{ callsPerSecond: null, p50Ms: ttftP50Ms, p99Ms: ttftP99Ms, relayP99Ms: null },
  }
}

async function readStats(upstream: string): Promise<{ aborted: number }> {
  const answer = await getText(upstream, '/stats')
  return JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))
}

/** The limits of an open loop: how many calls begin in a second, whatever happens to them. */
type OpenLimit = { rate: number; seconds: number }

/** So many connections carry the calls. Further calls wait for one. */
const CONNECTIONS = 256

/**
 * Sends calls at a rate, whatever happens to those before. A call that finds no connection free
 * waits, and its wait counts: what a client would see.
 */
async function runOpenLoop(
  target: Target,
  limit: OpenLimit,
  request = renderRequest(target, false),
): Promise<LoopResult> {
  const began = performance.now()
  const queue = new CallQueue(target, request)
  await beginCalls(queue, limit, began)
  await queue.end()
  return {
    ...summarize(queue.loop, began),
    callsPerSecond: queue.loop.waits.length / limit.seconds,
  }
}

/** Puts calls into the queue at their time. Calls of the same millisecond come together. */
async function beginCalls(
  queue: CallQueue,
  { rate, seconds }: OpenLimit,
  began: number,
): Promise<void> {
  const end = began + seconds * 1000
  for (let begun = 0; performance.now() < end; await Bun.sleep(1)) {
    const now = performance.now()
    for (; begun < ((now - began) / 1000) * rate; begun++) queue.add(now)
    queue.flush()
  }
}

/** Calls that wait for a connection, and those that are under way. */
class CallQueue {
  readonly loop: Loop = { waits: [], errors: 0 }
  readonly #request: Buffer
  readonly #callers: Caller[]
  readonly #idle: Caller[]
  readonly #waiting: number[] = []

  constructor(target: Target, request: Buffer) {
    this.#request = request
    this.#callers = Array.from({ length: CONNECTIONS }, () => new Caller(target.url))
    this.#idle = [...this.#callers]
  }

  /** Adds a call that is due at a time. */
  add(dueAt: number): void {
    this.#waiting.push(dueAt)
  }

  /** Sends what waits, as far as connections are free. */
  flush(): void {
    while (this.#waiting.length > 0 && this.#idle.length > 0 && this.loop.errors < MOST_ERRORS)
      this.#send(this.#idle.pop() as Caller, this.#waiting.shift() ?? 0)
  }

  /** Waits for the answers, as long as they may take. What waits for a connection has failed. */
  async end(): Promise<void> {
    this.loop.errors += this.#waiting.splice(0).length
    const deadline = performance.now() + PATIENCE_MS
    while (this.#idle.length < CONNECTIONS && performance.now() < deadline) await Bun.sleep(5)
    for (const caller of this.#callers) caller.leave()
  }

  #send(caller: Caller, dueAt: number): void {
    caller.call(this.#request, isGood => {
      note(this.loop, isGood, dueAt)
      this.#idle.push(caller)
      this.flush()
    })
  }
}

/**
 * The number of streams, the time between their starts, when unfinished ones are given up, and
 * after how many chunks their clients leave, if they do.
 */
type StreamLoad = { streams: number; gapMs: number; seconds: number; leaveAfter?: number }

/**
 * The result of the streams. TTFT runs from the opening of the connection to the first chunk with
 * text. The relay delay runs from the mock's sending of a chunk to its arrival. `lateP99Ms` is how
 * late the tool began a stream.
 */
type StreamResult = {
  streams: number
  finished: number
  chunks: number
  ttftP50Ms: number
  ttftP99Ms: number
  relayP50Ms: number
  relayP99Ms: number
  lateP99Ms: number
}

type StreamTally = { finished: number; ttfts: number[]; relays: number[]; lates: number[] }

/** Opens streams at planned times, whatever happens to those before, and reads each to its end. */
export async function openStreams(
  target: Target,
  load: StreamLoad,
  request = renderRequest(target, true),
): Promise<StreamResult> {
  const tally: StreamTally = { finished: 0, ttfts: [], relays: [], lates: [] }
  const began = performance.now()
  const plans = Array.from({ length: load.streams }, (_, index) => began + index * load.gapMs)
  await Promise.all(
    plans.map(plan => openScheduledStream(plan, { target, request, load, seen: tally })),
  )
  return summarizeStreams(load, tally)
}

interface ScheduledStream {
  target: Target
  request: Buffer
  load: StreamLoad
  seen: StreamTally
}

async function openScheduledStream(plan: number, opening: ScheduledStream): Promise<void> {
  await Bun.sleep(Math.max(0, plan - performance.now()))
  opening.seen.lates.push(performance.now() - plan)
  await readStream(opening)
}

async function readStream({ target, request, load, seen }: ScheduledStream): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const began = performance.now()
  let remainder = ''
  let chunks = 0
  let end = ''

  const receive = (bytes: Buffer, connection: Connection) => {
    const now = getMicroseconds()
    const text = remainder + bytes.toString('latin1')
    const lineEnd = text.lastIndexOf('\n') + 1
    remainder = text.slice(lineEnd)
    for (const [, sentAt] of text.slice(0, lineEnd).matchAll(CHUNK)) {
      if (chunks++ === 0) seen.ttfts.push(performance.now() - began)
      seen.relays.push((now - Number(sentAt)) / 1000)
    }
    // The word may come in two pieces.
    end = (end + bytes.toString('latin1')).slice(-END_ROOM)
    const isFinished = END.test(end)
    if (isFinished) seen.finished++
    const isLeft = load.leaveAfter !== undefined && chunks >= load.leaveAfter
    if (isFinished || isLeft) connection.leave()
  }

  const connection = new Connection(target.url, {
    open: opened => opened.send(request),
    data: receive,
    close: resolve,
  })
  const impatience = setTimeout(() => connection.leave(), load.seconds * 1000)
  await promise
  clearTimeout(impatience)
}

/** A chunk of the mock provider in any dialect, with the time at which it was sent. */
const CHUNK = /"(?:content|text)":"@(\d+)/g
/** The end of a stream in any dialect. */
const END = /data: \[DONE\]|event: message_stop/
/** In characters. */
const END_ROOM = 400

function summarizeStreams(
  { streams }: StreamLoad,
  { finished, ttfts, relays, lates }: StreamTally,
): StreamResult {
  return {
    streams,
    finished,
    chunks: relays.length,
    ttftP50Ms: computePercentile(ttfts, 0.5),
    ttftP99Ms: computePercentile(ttfts, 0.99),
    relayP50Ms: computePercentile(relays, 0.5),
    relayP99Ms: computePercentile(relays, 0.99),
    lateP99Ms: computePercentile(lates, 0.99),
  }
}
