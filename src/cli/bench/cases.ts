import type { Order } from './generator.ts'
import type { CallShape, Target } from './wire.ts'

/** The extent of a run. */
export interface Extent {
  rounds: number
  /** The time of a loop. */
  loopSeconds: number
  /** Calls that begin in a second, in the open loop. */
  rate: number
  /** Streams at once. */
  streams: number
  chunks: number
  intervalMs: number
}

/** One kind of load. */
export interface Case {
  /** What the CPU time is divided by. */
  unit: 'call' | 'chunk' | 'stream'
  description: string
  /** Whether the client speaks another dialect than the provider, which only gateways understand. */
  isTranslated?: boolean
  /** The case of the ten-line proxy that this one is compared with; itself by default. */
  beside?: CaseName
  createOrder(extent: Extent, target: Target, upstream: string): Order
}

export type CaseName =
  | 'calls'
  | 'steady'
  | 'prompts'
  | 'translation'
  | 'streams'
  | 'translated-streams'
  | 'aborts'

const CONNECTIONS = 64
const LARGE = 100_000
/** So many chunks a client reads before it leaves. */
const CHUNKS_BEFORE_LEAVING = 3

const createLoop =
  (shape: CallShape, connections = CONNECTIONS) =>
  ({ loopSeconds: seconds }: Extent, target: Target): Order => {
    const limit = { connections, calls: Number.MAX_SAFE_INTEGER, seconds }
    return { load: 'closed', target, shape, limit }
  }

const createStreams =
  (shape: CallShape) =>
  ({ streams }: Extent, target: Target): Order => ({
    ...{ load: 'streams', target, shape, limit: { streams, gapMs: 1, seconds: 30 } },
  })

/** Every kind of load, in the order in which it is shown. */
const CASES: Record<CaseName, Case> = {
  calls: {
    unit: 'call',
    description: `${CONNECTIONS} clients, each with its next call when the last is answered`,
    createOrder: createLoop({ stream: false }),
  },
  steady: {
    unit: 'call',
    description: 'calls at a steady rate, whatever happens to those before',
    createOrder: ({ loopSeconds: seconds, rate }, target) => ({
      ...{ load: 'open', target, shape: { stream: false }, limit: { rate, seconds } },
    }),
  },
  prompts: {
    unit: 'call',
    description: '16 clients with prompts of 100 KB',
    createOrder: createLoop({ stream: false, promptBytes: LARGE }, 16),
  },
  translation: {
    unit: 'call',
    description: `${CONNECTIONS} clients that speak Messages, to a provider that speaks Chat`,
    isTranslated: true,
    beside: 'calls',
    createOrder: createLoop({ stream: false, dialect: 'messages' }),
  },
  streams: {
    unit: 'chunk',
    description: 'streams at once; p50 and p99 are the time to the first chunk',
    createOrder: createStreams({ stream: true }),
  },
  'translated-streams': {
    unit: 'chunk',
    description: 'streams at once of clients that speak Messages',
    isTranslated: true,
    beside: 'streams',
    createOrder: createStreams({ stream: true, dialect: 'messages' }),
  },
  aborts: {
    unit: 'stream',
    description:
      'streams whose clients leave after three chunks; an error is one that the provider goes on with',
    createOrder: ({ streams }, target, upstream) => ({
      ...{ load: 'leavers', target, shape: { stream: true, isEndless: true }, upstream },
      limit: { streams, gapMs: 1, seconds: 30, leaveAfter: CHUNKS_BEFORE_LEAVING },
    }),
  },
}

/** Returns a kind of load. */
export const getCase = (name: CaseName): Case => CASES[name]

/** The names of every kind of load. */
export const CASE_NAMES = Object.keys(CASES) as CaseName[]
