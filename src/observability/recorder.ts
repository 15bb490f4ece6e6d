import { GatewayError, unavailable } from '../base/errors.ts'
import type { Events } from '../base/events.ts'
import { PLAIN_TEXT, toReceivedText } from '../base/printable.ts'
import type { Finding, Generation, GenerationStore, RecorderEntry } from './generations/store.ts'
import type { WrittenMessages } from './outbox.ts'

declare module '../base/events.ts' {
  interface EventMap {
    'generation.finished': Generation
    /** A content filter matched in a finished call. */
    'filter.matched': { generation_id: string } & Finding
    'store.failing': { error: unknown }
    /** The disk has been taking that long for what is being written. */
    'store.slow': { milliseconds: number }
    /** The disk has taken it. */
    'store.recovered': object
    /** Messages were recorded with their calls. */
    'outbox.written': WrittenMessages
  }
}

/** Writes finished calls, and settled steps of running ones, in batches. */
export interface Recorder {
  /**
   * Resolves when the entry survives this process. Throws 503 when it could not be written in time;
   * writing is still retried.
   */
  record(entry: RecorderEntry): Promise<void>
  /** Whether new work can be recorded. */
  readonly healthy: boolean
  /** Whether the store takes none now: what it can keep is answered all the same. */
  readonly isFailing: boolean
  /** Waits until everything pending is written, or where the store's next start finds it. */
  flush(): Promise<void>
  /** Waits as `flush` does, but for what the next start finds it is enough. Writes nothing then. */
  end(): Promise<void>
  /** Lists what is not written yet, oldest first. */
  listPending(): RecorderEntry[]
  /** Writes nothing until `resume`, which is no fault of the store: entries wait without a limit. */
  pause(): void
  /** Writes again. A store in another process is waited for, however long it takes. */
  resume(isElsewhere?: boolean): void
}

interface PendingEntry {
  entry: RecorderEntry
  resolve(): void
  reject(error: unknown): void
  since: number
  /** Whether the next start would find it: its caller does not wait any more. */
  isKept: boolean
}

const MAX_WAITING = 10_000

const MAX_AT_ONCE = 500

/** A batch of so many entries says that calls end together; where so many wait, none waits for more. */
const [CROWD, MANY] = [4, 64]

const PATIENCE = 5_000

/**
 * When a store has not accepted a record for this long, the gateway refuses new work. One on another
 * machine has longer: what it is slow with is kept here.
 */
const [ALARM, ALARM_ELSEWHERE] = [1_000, 5_000]

const FIRST_PAUSE = 5

const LONGEST_PAUSE = 500

/**
 * Creates the recorder over a store. Calls that finish together share one transaction, and
 * `generation.finished` is published once it is done. A locked or full store is retried after a
 * pause; nothing is dropped meanwhile, what the store can keep is answered, and `healthy` tells
 * admission to refuse more, as `keepsUp` does where the disk stands still. A call that the store can never accept is given up alone. Entries keep
 * their order: a batch is written when the one before is done.
 */
export function openRecorder(
  store: GenerationStore,
  events: Events,
  ticks: () => number,
  keepsUp: () => boolean = () => true,
): Recorder {
  const waiting: PendingEntry[] = []
  /** How many entries the last batch had. */
  let size = 0
  const alarm = store.isElsewhere ? ALARM_ELSEWHERE : ALARM
  let failing = false
  let paused: PromiseWithResolvers<void> | null = null
  let isPatient = false
  /** Since when the store has not accepted the oldest entries; null while it is not asked. */
  let askedAt: number | null = null
  let running: Promise<void> | undefined
  let isKeeping = false
  let isEnded = false
  /** Told when everything that waits is kept. */
  const awaitKept: (() => void)[] = []
  let timer: ReturnType<typeof setInterval> | undefined

  async function drain(): Promise<void> {
    // Kept while calls come: starting a timer for each batch costs more than the batch.
    timer ??= setInterval(checkWaiting, LONGEST_PAUSE)
    timer.unref()
    let pause = FIRST_PAUSE
    while (waiting.length > 0) {
      // Everything that ends in these turns of the event loop is written together, and streams
      // continue between two batches. A transaction costs as much as several of its calls.
      await skipTwoTurns()
      if (store.gathering && size >= CROWD && waiting.length < MANY)
        await Bun.sleep(store.gathering)
      if (paused) await paused.promise
      if (await writeBatch()) {
        askedAt = null
        pause = FIRST_PAUSE
        continue
      }
      rejectOverdue()
      await Bun.sleep(pause)
      pause = Math.min(pause * 2, LONGEST_PAUSE)
    }
    // In the same synchronous step as the last check: an entry added from now on starts another
    // run.
    running = undefined
  }

  /** Writes the oldest entries, and returns whether the store has dealt with them. */
  async function writeBatch(): Promise<boolean> {
    const batch = waiting.slice(0, MAX_AT_ONCE)
    size = batch.length
    const entries: RecorderEntry[] = []
    for (const { entry } of batch) entries.push(entry)
    askedAt ??= ticks()
    let written: WrittenMessages[]
    try {
      written = await store.record(entries)
    } catch (error) {
      if (!failing) events.publish('store.failing', { error })
      failing = true
      if (isRefusal(error)) return writeSeparately(batch)
      await keepWaiting()
      return false
    }
    failing = false
    askedAt = null
    waiting.splice(0, batch.length)
    for (const pending of batch) finish(pending)
    for (const messages of written) events.publish('outbox.written', messages)
    return true
  }

  /** Answers those whose record outlives the process though the store has not taken it. */
  async function keepWaiting(): Promise<void> {
    const open = waiting.filter(({ isKept }) => !isKept)
    const kept = new Set(await store.keep(open.map(({ entry }) => entry)).catch(() => []))
    for (const pending of open) {
      pending.isKept = kept.has(pending.entry)
      if (pending.isKept) pending.resolve()
    }
    if (kept.size < open.length) return
    if (store.isElsewhere) askedAt = null
    for (const resolve of awaitKept.splice(0)) resolve()
  }

  /** Keeps what comes while the store takes nothing, all of a turn of the event loop together. */
  function keepSoon(): void {
    if (isKeeping) return
    isKeeping = true
    setImmediate(async () => {
      isKeeping = false
      await keepWaiting()
    })
  }

  /** Writes one entry after the other, up to the first that the store cannot take now. */
  async function writeSeparately(batch: PendingEntry[]): Promise<boolean> {
    for (const pending of batch) {
      try {
        const written = await store.record([pending.entry])
        askedAt = ticks()
        finish(pending)
        for (const messages of written) events.publish('outbox.written', messages)
      } catch (error) {
        if (!isRefusal(error)) return false
        pending.reject(error)
      }
      waiting.shift()
    }
    return true
  }

  function finish({ entry, resolve }: PendingEntry): void {
    resolve()
    const { generation } = entry
    if (!generation) return
    events.publish('generation.finished', generation)
    for (const finding of generation.contentFilters)
      events.publish('filter.matched', { generation_id: generation.id, ...finding })
  }

  // A store that does not answer is treated like one that refuses.
  function checkWaiting(): void {
    if (running) rejectOverdue()
    else timer = void clearInterval(timer)
  }

  // The entry stays in the queue. Only its caller gets an error, because it may not be safe yet.
  function rejectOverdue(): void {
    if (paused || isPatient) return
    const limit = ticks() - PATIENCE
    for (const pending of waiting)
      if (pending.since < limit) pending.reject(unavailable('The call could not be recorded'))
  }

  return {
    record(entry) {
      if (entry.generation) mendTexts(entry.generation)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      waiting.push({ entry, resolve, reject, since: ticks(), isKept: false })
      running ??= drain()
      if (failing) keepSoon()
      return promise
    },
    // Not since an entry waits: on a busy event loop, that is no fault of the store.
    get healthy() {
      return (
        keepsUp() &&
        waiting.length < MAX_WAITING &&
        (paused !== null || isPatient || askedAt === null || ticks() - askedAt < alarm)
      )
    },
    get isFailing() {
      return failing
    },
    async flush() {
      if (running) await running
      await store.flush().catch(() => undefined)
    },
    async end() {
      if (isEnded) return
      isEnded = true
      const kept = new Promise<void>(resolve => awaitKept.push(resolve))
      if (running) await Promise.race([running, kept])
      // What is kept is not tried again in a store that is closed.
      paused ??= Promise.withResolvers()
      await store.flush().catch(() => undefined)
    },
    listPending: () => waiting.map(({ entry }) => entry),
    pause() {
      paused ??= Promise.withResolvers()
    },
    resume(isElsewhere = false) {
      isPatient = isElsewhere
      for (const pending of waiting) pending.since = ticks()
      if (askedAt !== null) askedAt = ticks()
      paused?.resolve()
      paused = null
    },
  }
}

/** Resolves in the turn of the event loop after the next one. */
const skipTwoTurns = (): Promise<void> =>
  new Promise(resolve => setImmediate(() => setImmediate(resolve)))

/** What clients and providers write into a record themselves. */
const WRITTEN_BY_OTHERS = [
  ...(['session_id', 'external_user', 'http_referer', 'title', 'user_agent'] as const),
  ...(['upstream_id', 'native_finish_reason', 'service_tier'] as const),
]

/** Makes each text of a record one that every store takes, and every receiver that is told it. */
function mendTexts(generation: Generation): void {
  const { session_id, external_user, http_referer, title, user_agent } = generation
  const { upstream_id, native_finish_reason, service_tier } = generation
  // One look for all, as hardly any has to be mended. No space completes half a character.
  const ofCaller = `${session_id} ${external_user} ${http_referer} ${title} ${user_agent}`
  const all = `${ofCaller} ${upstream_id} ${native_finish_reason} ${service_tier}`
  if (PLAIN_TEXT.test(all) || toReceivedText(all) === all) return
  for (const name of WRITTEN_BY_OTHERS) {
    const text = generation[name]
    if (text) generation[name] = toReceivedText(text)
  }
}

const isRefusal = (error: unknown) => error instanceof GatewayError && error.type === 'conflict'
