import type { Gateway } from '../../../app/gateway.ts'
import type { ConfigWatch } from '../../config-file/watch.ts'
import type { Serving } from './serving.ts'

/** In milliseconds. A killed process may forget to charge this much of an answer. */
export const CHECKPOINT_INTERVAL = 1_000

/** In milliseconds, between two looks at the length of the store’s log. */
const WRITE_LOG_INTERVAL = 250

/** In milliseconds. Rows whose time is over are removed within this time. */
const EVICTION_INTERVAL = 60_000

/** In milliseconds. Changes by another process are applied within this time. */
const CHANGES_INTERVAL = 50

/**
 * In milliseconds, between two looks at the config file. A change is applied when two looks have
 * found the same file.
 */
export const LOOK_INTERVAL = 1_000

/** Starts what every server does at intervals, and returns the function that stops it. */
export async function startTimers({ gateway }: Serving, watch: ConfigWatch): Promise<() => void> {
  const { createCheckpoint } = await import('../../../engine/recover.ts')
  const timers = [
    // What servers of one store change they tell each other.
    ...(gateway.store.shared ? [] : [watchForChanges(gateway)]),
    scheduleWork(CHECKPOINT_INTERVAL, createCheckpoint(gateway)),
    scheduleWork(WRITE_LOG_INTERVAL, () => gateway.writeLog.keepShort()),
    setInterval(createDiskWatch(gateway), DISK_INTERVAL),
    setInterval(() => void watch.look(), LOOK_INTERVAL),
  ]
  return () => timers.forEach(clearInterval)
}

/** Starts to remove what is over at intervals, and returns the function that stops it. */
export async function startEvictions(gateway: Gateway): Promise<() => void> {
  const { evictRows } = await import('../../../observability/retention.ts')
  const { deleteExpiredFiles } = await import('../../../resources/files.ts')
  const { forgetSecrets } = await import('../../../resources/idempotency.ts')
  const timers = [evictRows, deleteExpiredFiles, forgetSecrets].map(evict =>
    scheduleWork(EVICTION_INTERVAL, () => evict(gateway)),
  )
  return () => timers.forEach(clearInterval)
}

/** In milliseconds: between two looks at the disk, and when what it takes is said. */
const DISK_INTERVAL = 250
const SLOW = 1_000

/** Returns the look at the disk that tells when it is slow first, and when it has caught up. */
export function createDiskWatch({
  journal: { holds },
  events,
}: Pick<Gateway, 'journal' | 'events'>): () => void {
  let isSlow = false
  return () => {
    const { lag } = holds
    if (isSlow === lag >= SLOW) return
    isSlow = !isSlow
    if (isSlow) events.publish('store.slow', { milliseconds: lag })
    else events.publish('store.recovered', {})
  }
}

const LOG_HELD = 'a process that reads the database keeps its log from being shortened: it grows'

/** Logs when the store’s log cannot be shortened, and when it can again. */
export function logWriteLog({ gateway: { events }, log }: Serving): void {
  events.on('write-log.held', ({ bytes }) =>
    log('warn', 'write-log.held', { bytes, consequence: LOG_HELD }),
  )
  events.on('write-log.released', ({ bytes }) => log('info', 'write-log.released', { bytes }))
}

// `gateway keys create` runs while the server does. Its write changes the store's version, which
// takes microseconds to read.
const watchForChanges = (gateway: Gateway) =>
  scheduleWork(CHANGES_INTERVAL, () => gateway.catchUp())

/**
 * Runs the work at an interval in milliseconds, and skips a turn while it still runs: requests to a
 * slow store do not pile up. A failure is left to the next turn.
 */
export function scheduleWork(milliseconds: number, work: () => Promise<unknown>): NodeJS.Timeout {
  let isRunning = false
  const runOnce = async () => {
    if (isRunning) return
    isRunning = true
    await work().catch(() => undefined)
    isRunning = false
  }
  return setInterval(() => void runOnce(), milliseconds)
}
