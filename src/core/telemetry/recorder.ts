import { GatewayError, unavailable } from '../errors.ts'
import type { Events } from '../events.ts'
import { nextTurn } from '../kernel/clock.ts'
import type { StepCharge } from '../ledger/ledger.ts'
import type { Finding, Generation, GenerationStore } from './generations.ts'
import type { OutboxMessage } from './outbox.ts'

declare module '../events.ts' {
  interface EventMap {
    'generation.finished': Generation
    /** A content filter found something in a finished call. */
    'filter.matched': { generation_id: string } & Finding
    'store.failing': { error: unknown }
  }
}

/** What is written of a call at once, all or nothing. */
export interface Entry {
  /** The call, when it is finished; null for a step of one that goes on. */
  generation: Generation | null
  /** What the step cost that ended with it. Null: nothing may be charged to a key. */
  charge: StepCharge | null
  /** What is to be told to others of it. There is a generation or a charge that it tells of. */
  outbox?: OutboxMessage[]
}

/** Writes finished calls, and settled steps of those that go on, in batches. */
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
 * The recorder over a store. Calls that finish together share one transaction, and are told of
 * (`generation.finished`) once it is done. A store that is locked or full is asked again after a
 * pause; nothing is dropped meanwhile, and `healthy` tells admission to take no more. A call that
 * the store will never take is given up alone. Entries keep their order: the store is given a batch
 * when it is done with the one before.
 */
export function openRecorder(
  store: GenerationStore,
  events: Events,
  ticks: () => number,
): Recorder {
  const waiting: Waiting[] = []
  let failing = false
  let running: Promise<void> | undefined
  let watch: ReturnType<typeof setInterval> | undefined

  async function drain(): Promise<void> {
    // Kept on while calls come: to start a timer for each batch costs more than the batch.
    watch ??= setInterval(lookOn, LONGEST_PAUSE)
    let pause = FIRST_PAUSE
    while (waiting.length > 0) {
      // All that ends in this turn of the event loop goes together, and streams go on between two.
      await nextTurn()
      if (await writeBatch()) {
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

  /** Writes those that have waited longest, and says whether the store has dealt with them. */
  async function writeBatch(): Promise<boolean> {
    const batch = waiting.slice(0, MOST_AT_ONCE)
    try {
      await store.record(batch.map(one => one.entry))
    } catch (error) {
      if (!failing) events.publish('store.failing', { error })
      failing = true
      return isRefusal(error) && (await writeAlone(batch))
    }
    failing = false
    waiting.splice(0, batch.length)
    for (const one of batch) finish(one)
    return true
  }

  /** Writes one after the other, up to the first that the store cannot take now. */
  async function writeAlone(batch: Waiting[]): Promise<boolean> {
    for (const one of batch) {
      try {
        await store.record([one.entry])
        finish(one)
      } catch (error) {
        if (!isRefusal(error)) return false
        one.reject(error)
      }
      waiting.shift()
    }
    return true
  }

  function finish({ entry, resolve }: Waiting): void {
    resolve()
    if (entry.generation) tell(events, entry.generation)
  }

  // A store that does not answer is no better than one that refuses.
  function lookOn(): void {
    if (running) giveUpOnPatience()
    else watch = void clearInterval(watch)
  }

  // The entry keeps its place in the queue; only whoever waits for it is told that it may not be safe yet.
  function giveUpOnPatience(): void {
    const limit = ticks() - PATIENCE
    for (const one of waiting)
      if (one.since < limit) one.reject(unavailable('The call could not be recorded'))
  }

  return {
    record: entry =>
      new Promise((resolve, reject) => {
        waiting.push({ entry, resolve, reject, since: ticks() })
        running ??= drain()
      }),
    get healthy() {
      const oldest = waiting[0]
      return (
        waiting.length < MOST_WAITING && (oldest === undefined || ticks() - oldest.since < ALARM)
      )
    },
    async flush() {
      await running
    },
  }
}

function tell(events: Events, generation: Generation): void {
  events.publish('generation.finished', generation)
  for (const finding of generation.contentFilters)
    events.publish('filter.matched', { generation_id: generation.id, ...finding })
}

const isRefusal = (error: unknown) => error instanceof GatewayError && error.type === 'conflict'
