import type { Gateway } from '../../../app/gateway.ts'
import { drain, type Listeners } from './listeners.ts'
import type { Serving } from './serving.ts'
import { finish, limitStop } from './stop.ts'
import { CHECKPOINT_INTERVAL, scheduleWork } from './timers.ts'

/** In milliseconds: how long clients may use the connections that they keep, and between looks. */
const LINGER = 5_000
const LOOK_PAUSE = 50

/** In milliseconds: changes at the server that has taken over are read within this time. */
const CHANGES_ELSEWHERE_INTERVAL = 2_000

/**
 * Finishes all answers, however long they take, since another server has taken over. A signal ends
 * them as it ends a server.
 */
export async function finishAnswers(
  serving: Serving,
  listeners: Listeners,
  stopped: Promise<void>,
): Promise<void> {
  const { gateway, log } = serving
  const { calls, readOns } = gateway.traffic
  log('info', 'handed.over', { running: calls.size })
  const journal = scheduleWork(CHECKPOINT_INTERVAL, () => updateJournal(gateway))
  const changes = scheduleWork(CHANGES_ELSEWHERE_INTERVAL, () => gateway.catchUp())
  let isStopped = false
  void stopped.then(() => {
    isStopped = true
  })
  const countConnections = await openConnectionCount(listeners)
  const isBusy = () => calls.size > 0 || readOns.size > 0 || listeners.busy > 0
  const isOver = (waited: number) => !isBusy() && (waited >= LINGER || countConnections() === 0)
  for (let waited = 0; !isStopped && !isOver(waited); waited += LOOK_PAUSE) {
    if (waited >= LINGER) listeners.closeIdle()
    await Bun.sleep(LOOK_PAUSE)
  }
  clearInterval(changes)
  if (isStopped) limitStop(serving, serving.options.drain * 1000)
  await (isStopped ? drain(serving, listeners) : listeners.stop(0))
  clearInterval(journal)
  await finish(serving)
}

async function openConnectionCount({ ports: [port = 0] }: Listeners): Promise<() => number> {
  const { openListenerCalls } = await import('../../../base/listener-calls.ts')
  const calls = await openListenerCalls()
  return () => calls?.countConnections(port) ?? 0
}

// What cannot be written now is written with the next look, as far as it has changed.
const updateJournal = ({ journal, traffic }: Gateway): Promise<void> =>
  journal.holds.updateSpent(traffic.calls.listProgress()).catch(() => undefined)
