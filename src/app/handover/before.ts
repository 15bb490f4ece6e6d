import { join } from 'node:path'
import { type Recovery, recoverCalls } from '../../engine/recover.ts'
import type { Hold, HoldJournal } from '../../limits/ledger.ts'
import { hasEarlierJournal, openHoldJournal } from '../../store/hold-journal.ts'
import { hasLog, LOG_BEFORE, Log, openLogMacs, removeLog } from '../../store/log.ts'
import { lockFile, tryLock } from '../../store/sqlite/lock.ts'
import type { Gateway } from '../gateway.ts'

/** Locks the place of the server before this one. Throws 409 while that runs. */
export const lockBefore = (data: string): (() => void) =>
  lockFile(
    join(data, 'before.lock'),
    'The server before this one still finishes its answers: take over when it has ended',
  )

/** Whether the server before this one still finishes its answers. */
export function hasBefore(data: string): boolean {
  const unlock = tryLock(() => lockBefore(data))
  unlock?.()
  return unlock === null
}

/**
 * Settles the calls that the server before this one has left, as `recoverCalls` does. Returns null
 * while that server runs. May only run with the lock of the data directory.
 */
export async function recoverBefore(gateway: Gateway, data: string): Promise<Recovery | null> {
  const unlock = tryLock(() => lockBefore(data))
  if (!unlock) return null
  try {
    const holds = openBefore(gateway, data)
    if (!holds) return NOTHING
    await gateway.recorder.flush()
    const journal = { ...gateway.journal, holds }
    const recovery = await recoverCalls(Object.assign(Object.create(gateway), { journal }))
    removeLog(data, LOG_BEFORE)
    return recovery
  } finally {
    unlock()
  }
}

/** Opens the journal of the server before this one; null where it has left none. */
function openBefore({ secrets }: Gateway, data: string): HoldJournal | null {
  const isThere = hasLog(data, LOG_BEFORE) || hasEarlierJournal(data, LOG_BEFORE)
  return isThere ? openHoldJournal(data, new Log(data, openLogMacs(secrets), LOG_BEFORE)) : null
}

const NOTHING: Recovery = { calls: 0, garbled: { lines: 0, charged: 0, unknown: 0 } }

/**
 * Sets aside what the calls of the server before this one may cost, as its journal has them: it runs
 * on, but the one that took over from it is gone. Returns what gives it back.
 */
export function holdBefore(gateway: Gateway, data: string): () => void {
  const { ledger } = gateway
  const held: Hold[] = []
  for (const { byok, nanos, ...payer } of openBefore(gateway, data)?.listCalls() ?? []) {
    const amounts = { own: byok ? null : nanos, byok: byok ? nanos : null }
    held.push(ledger.reserve(payer, { maximum: amounts, minimum: amounts }, []))
  }
  return () => held.forEach(ledger.release)
}
