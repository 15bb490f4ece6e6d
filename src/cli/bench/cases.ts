import type { Order } from './generator.ts'
import type { CallShape, Target } from './wire.ts'

/** The extent of a run. */
export interface Extent {
  rounds: number
  /** The time of a loop. */
  loopSeconds: number
  /** What warms a program up, and the longest that its calls may take. */
  warmUp: { calls: number; seconds: number; streams: number }
  /** How long calls are made at the beginning of a turn. */
  leadSeconds: number
  /** Calls that begin in a second, in the open loop. */
  rate: number
  /** Streams at once, and the milliseconds between the starts of two. */
  streams: number
  gapMs: number
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
  | 'details'
  | 'steady'
  | 'prompts'
  | 'translation'
  | 'streams'
  | 'translated-streams'
  | 'aborts'

/** How long a run takes, and of what. */
export interface Selection {
  seconds: number
  rate: number
  contenders: readonly string[]
  cases: readonly CaseName[]
}

/** The programs that understand several dialects here. */
const TRANSLATORS = ['ours', 'ours-full']

/** Tells whether a program can be asked this. */
export const isMeasured = (name: CaseName, contender: string): boolean =>
  !CASES[name].isTranslated || TRANSLATORS.includes(contender)

/** How many streams there are in a run of full length, as the goals have it. */
const STREAMS = 200
/** In seconds: a shorter run has fewer streams and a shorter warm-up. */
const FULL = 30
const BRIEF = { streams: STREAMS / 4, intervalMs: 10 }
const MOST_ROUNDS = 15
/** The share of the time for loops; the rest is for streams, the warm-up and the start. */
const SHARE_OF_LOOPS = 0.4
/** So many calls are enough for a compiler that works while the program runs. */
const WARM_UP = 30_000
/** The calls for each second of a run that is too short for these. */
const WARM_UP_PER_SECOND = 400
/** The same of streams. A stream has code of its own, and a server has served many before. */
const STREAMS_PER_SECOND = 10
const MOST_STREAMS = 2_000
/** In milliseconds, between the starts of two streams. */
const GAP = 1
const GAP_OF_WARM_UP = 2
/** The part of the time for the calls at the beginning of each turn. */
const SHARE_OF_LEAD = 1 / 75
/** In seconds: the bounds of a loop. Turns are short, so that what slows the machine slows all. */
const LOOP = { least: 0.1, most: 1 }

/** Tells whether there is time for what the goals speak of. */
export const isFull = ({ seconds }: Pick<Selection, 'seconds'>): boolean => seconds >= FULL

/** Decides how much is done in the time. */
export function createExtent(selection: Selection): Extent {
  const { seconds, rate, contenders, cases } = selection
  const loops = cases.flatMap(name =>
    contenders.filter(one => CASES[name].unit === 'call' && isMeasured(name, one)),
  )
  // The warm-up ends with a round that does not count.
  const turns = (seconds * SHARE_OF_LOOPS) / Math.max(1, loops.length)
  const rounds = Math.min(MOST_ROUNDS, Math.max(1, Math.floor(turns / LOOP.most) - 1))
  const loopSeconds = turns / (rounds + 1)
  return {
    ...{ rounds, rate },
    loopSeconds: Math.min(LOOP.most, Math.max(LOOP.least, loopSeconds)),
    // A busy machine takes longer: figures of a program that is not warm say nothing.
    warmUp: {
      calls: isFull(selection) ? WARM_UP : seconds * WARM_UP_PER_SECOND,
      seconds,
      streams: Math.min(MOST_STREAMS, Math.ceil(seconds * STREAMS_PER_SECOND)),
    },
    leadSeconds: Math.min(LOOP.most, seconds * SHARE_OF_LEAD),
    gapMs: GAP,
    ...{ chunks: 10 },
    ...(isFull(selection) ? { streams: STREAMS, intervalMs: 25 } : BRIEF),
  }
}

/** The clients at once, in the warm-up too: a program is compiled for what it does. */
export const CONNECTIONS = 64
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
  ({ streams, gapMs }: Extent, target: Target): Order => ({
    ...{ load: 'streams', target, shape, limit: { streams, gapMs, seconds: 30 } },
  })

/** Every kind of load, in the order in which it is shown. */
const CASES: Record<CaseName, Case> = {
  calls: {
    unit: 'call',
    description: `${CONNECTIONS} clients, each with its next call when the last is answered`,
    createOrder: createLoop({ stream: false }),
  },
  details: {
    unit: 'call',
    description: `${CONNECTIONS} clients whose prompts have numbers, dates and e-mail addresses`,
    createOrder: createLoop({ stream: false, hasDetails: true }),
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
    description:
      'streams of ten chunks at once, their opening included; p50 and p99: to the first chunk',
    createOrder: createStreams({ stream: true }),
  },
  'translated-streams': {
    unit: 'chunk',
    description: 'such streams at once, of clients that speak Messages',
    isTranslated: true,
    beside: 'streams',
    createOrder: createStreams({ stream: true, dialect: 'messages' }),
  },
  aborts: {
    unit: 'stream',
    description:
      'streams whose clients leave after three chunks; errors are those that the provider goes on ' +
      'with',
    createOrder: ({ streams, gapMs }, target, upstream) => ({
      ...{ load: 'leavers', target, shape: { stream: true, isEndless: true }, upstream },
      limit: { streams, gapMs, seconds: 30, leaveAfter: CHUNKS_BEFORE_LEAVING },
    }),
  },
}

/** Returns what is done once before the rounds, so that streams find compiled code as calls do. */
export const createStreamWarmUp = (extent: Extent): Extent => ({
  ...extent,
  streams: extent.warmUp.streams,
  gapMs: GAP_OF_WARM_UP,
})

/** Returns a kind of load. */
export const getCase = (name: CaseName): Case => CASES[name]

/** The names of every kind of load. */
export const CASE_NAMES = Object.keys(CASES) as CaseName[]
