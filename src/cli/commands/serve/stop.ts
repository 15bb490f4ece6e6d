import { closeSync, openSync } from 'node:fs'
import type { Gateway } from '../../../app/gateway.ts'
import type { Log } from '../../log.ts'
import { getCause } from './log.ts'

/**
 * Resolves with the first signal, which drains a server, or when there is another reason to stop. The
 * second signal ends it at once.
 */
export function waitForStop(endAtOnce: () => never, others: Promise<void>[] = []): Promise<void> {
  return new Promise(resolve => {
    let stopping = false
    const stop = () => {
      if (stopping) endAtOnce()
      stopping = true
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    for (const other of others) void other.then(resolve)
  })
}

/** Whether this process still has the terminal that it was started in. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

/** A server that stops, and how its process ends. */
interface Stopping {
  gateway: Gateway
  log: Log
  exit?: (code: number) => void
}

/** In milliseconds: how much longer than the drain and the last records a stop may take. */
const STOP_GRACE = 5_000

/** In milliseconds: how long a server that stops waits for a store that takes no records. */
const RECORD_GRACE = 3_000

/** In milliseconds: how much longer than its drain a server that stops may live at most. */
export const STOP_TIME = RECORD_GRACE + 2 * STOP_GRACE

/**
 * Writes the records and the ends of the calls that a server has made. Ends the process with 1 if
 * the store takes no records any more: what they came to is in the journal then.
 */
export async function finish(stopping: Stopping): Promise<void> {
  const { gateway, log } = stopping
  const { markEnds } = await import('../../../engine/recover.ts')
  const isWritten = gateway.recorder.flush().then(() => true)
  if (!(await Promise.race([isWritten, Bun.sleep(RECORD_GRACE).then(() => false)])))
    await endUnrecorded(stopping)
  await markEnds(gateway).catch(() => undefined)
  log('info', 'stopped', {})
}

/**
 * Ends the process when its time to stop is over, whatever it still waits for. `drain` is in
 * milliseconds.
 */
export function limitStop(stopping: Stopping, drain: number): void {
  setTimeout(
    () => {
      stopping.log('error', 'stop.overdue', { consequence: 'the server ends without waiting' })
      void endUnrecorded(stopping)
    },
    drain + RECORD_GRACE + STOP_GRACE,
  )
}

/** In milliseconds: how long a journal may take for its last lines. */
const JOURNAL_GRACE = 1_000
const LOOK_PAUSE = 100

// In short waits: a store that holds up the event loop is no disk that does not take the lines.
async function failLater(): Promise<never> {
  for (let waited = 0; waited < JOURNAL_GRACE; waited += LOOK_PAUSE) await Bun.sleep(LOOK_PAUSE)
  throw new Error('The disk does not keep up')
}

/**
 * Ends the process with 1, with what could not be recorded in the journal. Where that cannot be
 * written either, the log has what each call came to.
 */
export async function endUnrecorded({
  gateway,
  log,
  exit = process.exit,
}: Stopping): Promise<void> {
  const { keepUnrecorded } = await import('../../../engine/recover.ts')
  try {
    const calls = await Promise.race([keepUnrecorded(gateway), failLater()])
    const consequence = 'the store took no records; the next start charges what they came to'
    if (calls > 0) log('error', 'calls.unrecorded', { calls, consequence })
  } catch (thrown) {
    for (const { charge } of gateway.recorder.listPending())
      if (charge)
        log('error', 'call.lost', {
          ...{ generation: charge.id, nanos: String(charge.nanos), cause: getCause(thrown) },
          consequence: 'neither the store nor the journal could be written',
        })
  }
  exit(1)
}
