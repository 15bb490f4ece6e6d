import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Recovery, recoverCalls } from '../../engine/recover.ts'
import type { Hold } from '../../limits/ledger.ts'
import { openHoldJournal } from '../../store/hold-journal.ts'
import { lockFile, tryLock } from '../../store/lock.ts'
import type { Gateway } from '../gateway.ts'

/** The journal of a server that finishes its answers after another one has taken over. */
export const BEFORE_JOURNAL = 'holds.before.log'

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
    if (!existsSync(join(data, BEFORE_JOURNAL))) return NOTHING
    await gateway.recorder.flush()
    const holds = openHoldJournal(data, BEFORE_JOURNAL)
    const journal = { ...gateway.journal, holds }
    const recovery = await recoverCalls(Object.assign(Object.create(gateway), { journal }))
    rmSync(join(data, BEFORE_JOURNAL), { force: true })
    return recovery
  } finally {
    unlock()
  }
}

const NOTHING: Recovery = { calls: 0, garbled: { lines: 0, charged: 0, unknown: 0 } }

/**
 * Sets aside what the calls of the server before this one may cost, as its journal has them: it runs
 * on, but the one that took over from it is gone. Returns what gives it back.
 */
export function holdBefore({ ledger }: Gateway, data: string): () => void {
  const held: Hold[] = []
  for (const { byok, nanos, ...payer } of openHoldJournal(data, BEFORE_JOURNAL).listCalls()) {
    const amounts = { own: byok ? null : nanos, byok: byok ? nanos : null }
    held.push(ledger.reserve(payer, { maximum: amounts, minimum: amounts }, []))
  }
  return () => held.forEach(ledger.release)
}
