import { GatewayError } from '../../../base/errors.ts'
import { RECOVERED, type Serving } from './serving.ts'
import { LOOK_INTERVAL, scheduleWork } from './timers.ts'

/** Runs the checks and the recovery that come before the first call. Throws where a check fails. */
export async function prepare(serving: Serving): Promise<void> {
  const { gateway, log } = serving
  const { verifyLedgerEnd, recoverCalls } = await import('../../../engine/recover.ts')
  const { listUnreadableByokKeys } = await import('../../../resources/byok.ts')
  const { isEmbedded } = await import('../../../resources/models/built-in.ts')
  for (const key of listUnreadableByokKeys(gateway)) gateway.events.publish('byok.unreadable', key)
  await verifyLedgerEnd(gateway)
  if (!isEmbedded()) gateway.catalog.getBuiltIn()
  const { probeSandbox } = await import('../../../network/sandboxes/registry.ts')
  await probeSandbox(gateway)
  logSandbox({ gateway, log })
  const { sweepBlobs } = await import('../../../network/containers.ts')
  // Calls need no files: a bucket that is not there keeps no server from starting.
  const isAlone = await recoverServerBefore(serving)
  const swept = await (isAlone ? sweepBlobs(gateway) : Promise.resolve(0)).catch(thrown => {
    if (!(thrown instanceof GatewayError)) throw thrown
    log('error', 'files.unreachable', { reason: thrown.message })
    return 0
  })
  if (swept > 0)
    log('warn', 'files.swept', {
      files: swept,
      consequence: 'uploads that a killed process left were deleted',
    })
  const { calls, garbled } = await recoverCalls(gateway)
  await gateway.ledger.leases?.begin()
  if (!gateway.jobs || (await gateway.jobs.claim())) await gateway.videos.load()
  if (garbled.lines > 0)
    log('error', 'holds.garbled', {
      ...garbled,
      consequence:
        'what is not on record was charged at what can be read of it; the lines are kept ' +
        '(log.garbled)',
    })
  if (gateway.journal.garbledRecords > 0)
    log('error', 'records.garbled', {
      lines: gateway.journal.garbledRecords,
      consequence:
        'their calls were charged their last known cost; the lines are kept (log.garbled)',
    })
  if (calls > 0)
    log('warn', 'calls.recovered', {
      calls,
      consequence: RECOVERED,
    })
}

/** Says what runs the commands of models, and what it lacks: what it has may be the server’s alone. */
function logSandbox({
  gateway: { config, sandboxes },
  log,
}: Pick<Serving, 'gateway' | 'log'>): void {
  const { kind } = config.sandbox
  const sandbox = sandboxes.find(({ name }) => name === kind)
  if (!sandbox) return
  const { obstacle, missing } = sandbox
  const level = obstacle === null ? 'info' : 'warn'
  log(level, 'sandbox.tried', { kind, holds: obstacle === null, missing: obstacle ?? missing })
}

/**
 * Settles the calls of a server that has handed over to one that is gone. Returns false where it
 * still runs: then they are held, and settled when it has ended.
 */
async function recoverServerBefore({ gateway, log, data, taken }: Serving): Promise<boolean> {
  if (taken) return false
  const { holdBefore, recoverBefore } = await import('../../../app/handover/before.ts')
  const recover = async () => {
    const recovery = await recoverBefore(gateway, data)
    if (recovery && recovery.calls > 0)
      log('warn', 'calls.recovered', { calls: recovery.calls, consequence: RECOVERED })
    return recovery !== null
  }
  if (await recover()) return true
  const release = holdBefore(gateway, data)
  const timer = scheduleWork(LOOK_INTERVAL, async () => {
    if (!(await recover())) return
    clearInterval(timer)
    release()
  })
  return false
}
