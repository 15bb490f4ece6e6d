import type { Socket } from 'bun'
import { percentile } from './statistics.ts'
import { microseconds, requestBytes, type Target } from './wire.ts'

/** How many streams, how far apart they start, and when those that are left are given up. */
export type StreamLoad = { streams: number; gapMs: number; seconds: number }

/**
 * What the streams saw. TTFT runs from the opening of the connection to the first chunk with text; the relay delay from
 * the mock's sending of a chunk to its arrival; `lateP99Ms` is how much after its planned time the tool began a stream.
 */
export type StreamResult = {
  streams: number
  finished: number
  chunks: number
  ttftP50Ms: number
  ttftP99Ms: number
  relayP50Ms: number
  relayP99Ms: number
  lateP99Ms: number
}

type Seen = { finished: number; ttfts: number[]; relays: number[]; lates: number[] }

/** Opens streams at planned times, whatever became of those before, and reads each to its end. */
export async function openStreams(target: Target, load: StreamLoad): Promise<StreamResult> {
  const seen: Seen = { finished: 0, ttfts: [], relays: [], lates: [] }
  const request = requestBytes(target, true)
  const began = performance.now()
  const plans = Array.from({ length: load.streams }, (_, index) => began + index * load.gapMs)
  await Promise.all(plans.map(plan => openAt(plan, target, request, load, seen)))
  return summary(load, seen)
}

async function openAt(
  plan: number,
  target: Target,
  request: Buffer,
  load: StreamLoad,
  seen: Seen,
): Promise<void> {
  await Bun.sleep(Math.max(0, plan - performance.now()))
  seen.lates.push(performance.now() - plan)
  await readStream(new URL(target.url), request, load, seen)
}

async function readStream(
  { hostname, port }: URL,
  request: Buffer,
  load: StreamLoad,
  seen: Seen,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const began = performance.now()
  let rest = ''
  let chunks = 0

  const receive = (socket: Socket, bytes: Buffer) => {
    const now = microseconds()
    const text = rest + bytes.toString('latin1')
    const end = text.lastIndexOf('\n') + 1
    rest = text.slice(end)
    for (const [, sentAt] of text.slice(0, end).matchAll(/"content":"@(\d+)/g)) {
      if (chunks++ === 0) seen.ttfts.push(performance.now() - began)
      seen.relays.push((now - Number(sentAt)) / 1000)
    }
    if (!text.includes('data: [DONE]')) return
    seen.finished++
    socket.end()
  }

  const close = () => resolve()
  const open = (socket: Socket) => void socket.write(request)
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: { open, data: receive, close, error: close },
  })
  const impatience = setTimeout(() => socket.terminate(), load.seconds * 1000)
  await promise
  clearTimeout(impatience)
}

function summary({ streams }: StreamLoad, { finished, ttfts, relays, lates }: Seen): StreamResult {
  return {
    streams,
    finished,
    chunks: relays.length,
    ttftP50Ms: percentile(ttfts, 0.5),
    ttftP99Ms: percentile(ttfts, 0.99),
    relayP50Ms: percentile(relays, 0.5),
    relayP99Ms: percentile(relays, 0.99),
    lateP99Ms: percentile(lates, 0.99),
  }
}
