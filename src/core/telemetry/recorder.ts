import { GatewayError, unavailable } from '../errors.ts'
import type { Events } from '../events.ts'
import { nextTurn } from '../kernel/clock.ts'
import type { Charge } from '../ledger/ledger.ts'
import type { Finding, Generation, GenerationStore } from './generations.ts'

declare module '../events.ts' {
  interface EventMap {
    'generation.finished': Generation
    /** A content filter found something in a finished call. */
    'filter.matched': { generation_id: string } & Finding
    'store.failing': { error: unknown }
  }
}

/** A finished call and what it cost. Null: nothing may be charged to a key. */
export interface Entry {
  generation: Generation
  charge: Charge | null
}

/** Writes finished calls in batches. */
export interface Recorder {
  /** Resolves when the entry outlives this process. Throws 503 when it could not be written in time; it is still tried. */
  record(entry: Entry): Promise<void>
  /** Whether new work can be recorded. */
  readonly healthy: boolean
  /** Writes what is still waiting. */
  flush(): Promise<void>
}

interface Waiting {
  entry: Entry
  resolve(): void
  reject(error: unknown): void
  since: number
}

const MOST_WAITING = 10_000
const MOST_AT_ONCE = 500
const PATIENCE = 5_000
/** A store that has not taken a record for this long makes the gateway refuse new work. */
const ALARM = 1_000
const FIRST_PAUSE = 5
const LONGEST_PAUSE = 500

/**
 * The recorder over a store. Calls that finish together share one transaction, and are told of (`generation.finished`) once
 * it is done. A store that is locked or full is asked again after a pause; nothing is dropped meanwhile, and `healthy` tells
 * admission to take no more. A call that the store will never take is given up alone.
 */
export function openRecorder(store: GenerationStore, events: Events, ticks: () => number): Recorder {
  const waiting: Waiting[] = []
  let failing = false
  let running: Promise<void> | undefined

  async function drain(): Promise<void> {
    await nextTurn()
    let pause = FIRST_PAUSE
    while (waiting.length > 0) {
      if (writeBatch()) {
        pause = FIRST_PAUSE
        continue
      }
      giveUpOnPatience()
      await Bun.sleep(pause)
      pause = Math.min(pause * 2, LONGEST_PAUSE)
    }
    // In the same step as the last look: what comes from here on begins another run.
    running = undefined
  }

  function writeBatch(): boolean {
    const batch = waiting.slice(0, MOST_AT_ONCE)
    try {
      store.record(batch.map(one => one.entry))
    } catch (error) {
      return failed(batch, error)
    }
    failing = false
    waiting.splice(0, batch.length)
    for (const one of batch) done(one)
    return true
  }

  function failed(batch: Waiting[], error: unknown): boolean {
    if (!failing) events.publish('store.failing', { error })
    failing = true
    if (!isRefusal(error)) return false
    waiting.splice(0, batch.length)
    for (const one of batch) writeAlone(one)
    return true
  }

  function writeAlone(one: Waiting): void {
    try {
      store.record([one.entry])
      done(one)
    } catch (error) {
      if (isRefusal(error)) one.reject(error)
      else waiting.push(one)
    }
  }

  function done({ entry, resolve }: Waiting): void {
    resolve()
    tell(events, entry.generation)
  }

  // The entry keeps its place in the queue; only whoever waits for it is told that it may not be safe yet.
  function giveUpOnPatience(): void {
    const limit = ticks() - PATIENCE
    for (const one of waiting) if (one.since < limit) one.reject(unavailable('The call could not be recorded'))
  }

  return {
    record: entry =>
      new Promise((resolve, reject) => {
        waiting.push({ entry, resolve, reject, since: ticks() })
        running ??= drain()
      }),
    get healthy() {
      const oldest = waiting[0]
      return waiting.length < MOST_WAITING && (oldest === undefined || ticks() - oldest.since < ALARM)
    },
    async flush() {
      await running
    },
  }
}

function tell(events: Events, generation: Generation): void {
  events.publish('generation.finished', generation)
  for (const finding of generation.contentFilters) events.publish('filter.matched', { generation_id: generation.id, ...finding })
}

const isRefusal = (error: unknown) => error instanceof GatewayError && error.type === 'conflict'
