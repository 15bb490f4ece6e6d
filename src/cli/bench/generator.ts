import { createInterface } from 'node:readline'
import { getText } from './connection.ts'
import { type LoopLimit, type LoopResult, runClosedLoop } from './load.ts'
import { type OpenLimit, runOpenLoop } from './open-loop.ts'
import { openStreams, type StreamLoad, type StreamResult } from './streams.ts'
import { type CallShape, renderCall, type Target } from './wire.ts'

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
