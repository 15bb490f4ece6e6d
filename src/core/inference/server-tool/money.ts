import { createFreeReceipt, createTextUsage, type Receipt } from '../../language/usage.ts'
import type { Hold, JournalEntry } from '../../ledger/ledger.ts'
import { buildHeldCall, reserveAnywhere } from '../reserve.ts'
import type { Run } from '../run.ts'
import { recordCharge } from '../settle.ts'
import type { InferenceWorld } from '../world.ts'
import type { ToolUse } from './use.ts'

/**
 * The money of the uses of one turn: a step of the call in the ledger, besides those of the model.
 * They are set aside together before any of them runs.
 */
export interface UsesMoney {
  run: Run
  uses: ToolUse[]
  /** The step's number in the ledger. */
  number: number
  hold: Hold | null
  journalEntry: JournalEntry | null
  receipt: Receipt | null
  isCharged: boolean
}

/**
 * Sets aside what the uses of a turn may cost and writes that to the journal; null if all are free.
 * Throws 402 if a limit has not enough left, and 503 if the journal cannot be written.
 */
export async function reserveUses(
  world: InferenceWorld,
  run: Run,
  uses: ToolUse[],
): Promise<UsesMoney | null> {
  const nanos = uses.reduce((sum, { price }) => sum + price, 0n)
  if (nanos === 0n) return null
  const money: UsesMoney = {
    ...{ run, uses, number: run.takeNumber() },
    ...{ hold: null, journalEntry: null, receipt: null, isCharged: false },
  }
  run.toolMoney = [...(run.toolMoney ?? []), money]
  const { key_hash, user_id, workspace_id } = run.actor
  if (key_hash === null) return money
  const payer = { key_hash, user_id, workspace_id }
  const amounts = { own: nanos, byok: null }
  money.hold = await reserveAnywhere(
    world,
    payer,
    { maximum: amounts, minimum: amounts },
    run.policy.bounds,
  )
  try {
    // What is not known to have failed is charged after a crash: its server has done the work.
    const held = buildHeldCall(run, payer, { step: money.number, byok: false, nanos, spent: nanos })
    money.journalEntry = world.journal.holds.append(held)
    await money.journalEntry.written
  } catch (thrown) {
    releaseUses(world, money)
    throw thrown
  }
  run.step?.journalEntry?.forget()
  return money
}

/** Gives back what was set aside for uses that do not run. */
export function releaseUses({ ledger }: InferenceWorld, { hold, journalEntry }: UsesMoney): void {
  journalEntry?.forget()
  if (hold) ledger.release(hold)
}

/** Charges what the uses cost. Resolves when that is on disk. Throws as `recordRun` does. */
export async function chargeUses(world: InferenceWorld, money: UsesMoney): Promise<void> {
  const cost = money.uses.reduce((sum, { result }) => sum + (result?.cost ?? 0n), 0n)
  money.receipt = {
    ...createFreeReceipt(createTextUsage(0, 0)),
    usageSource: 'exact',
    cost,
    cost_details: { prompt: 0n, completion: 0n, tools: cost },
  }
  await recordCharge(world, money)
}
