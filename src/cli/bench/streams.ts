import { Connection } from './connection.ts'
import { computePercentile } from './statistics.ts'
import { getMicroseconds, renderRequest, type Target } from './wire.ts'

/**
 * The number of streams, the time between their starts, when unfinished ones are given up, and
 * after how many chunks their clients leave, if they do.
 */
export type StreamLoad = { streams: number; gapMs: number; seconds: number; leaveAfter?: number }

/**
 * The result of the streams. TTFT runs from the opening of the connection to the first chunk with
 * text. The relay delay runs from the mock's sending of a chunk to its arrival. `lateP99Ms` is how
 * late the tool began a stream.
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
  return summarize(load, tally)
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

function summarize(
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
