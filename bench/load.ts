import type { Socket } from 'bun'
import { computePercentile } from './statistics.ts'
import { createAnswerReader, renderRequest, type Target } from './wire.ts'

/**
 * The limits of a closed loop. It ends at the number of calls or at the time, whichever comes
 * first.
 */
export type LoopLimit = { connections: number; calls: number; seconds: number }

/** The result of a closed loop. `errors` counts failed answers and lost connections. */
export type LoopResult = {
  calls: number
  errors: number
  callsPerSecond: number
  p50Ms: number
  p99Ms: number
}

type Loop = {
  request: Buffer
  limit: LoopLimit
  until: number
  started: number
  waits: number[]
  errors: number
}

/**
 * Sends calls without streaming, one at a time on each connection, each as soon as the one before
 * is answered.
 */
export async function runClosedLoop(target: Target, limit: LoopLimit): Promise<LoopResult> {
  const began = performance.now()
  const until = began + limit.seconds * 1000
  const loop: Loop = {
    request: renderRequest(target, false),
    limit,
    until,
    started: 0,
    waits: [],
    errors: 0,
  }
  await Promise.all(
    Array.from({ length: limit.connections }, () => keepCalling(loop, new URL(target.url))),
  )
  const seconds = (performance.now() - began) / 1000
  const calls = loop.waits.length
  const [p50Ms, p99Ms] = [computePercentile(loop.waits, 0.5), computePercentile(loop.waits, 0.99)]
  return { calls, errors: loop.errors, callsPerSecond: calls / seconds, p50Ms, p99Ms }
}

async function keepCalling(loop: Loop, { hostname, port }: URL): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const read = createAnswerReader()
  let sentAt = 0
  let waiting = false

  const call = (socket: Socket) => {
    const now = performance.now()
    waiting = loop.started < loop.limit.calls && now < loop.until
    if (!waiting) return void socket.end()
    loop.started++
    sentAt = now
    socket.write(loop.request)
  }
  const receive = (socket: Socket, bytes: Buffer) => {
    const good = read(bytes)
    if (good === undefined) return
    if (good) loop.waits.push(performance.now() - sentAt)
    else loop.errors++
    call(socket)
  }
  const close = () => {
    if (waiting) loop.errors++
    waiting = false
    resolve()
  }

  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: { open: call, data: receive, close, error: close },
  })
  // A missing answer must not block the benchmark.
  const impatience = setTimeout(() => socket.terminate(), loop.limit.seconds * 1000 + 3_000)
  await promise
  clearTimeout(impatience)
}
