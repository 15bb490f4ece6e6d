import { openBudgets } from '../../engine/reserve/budgets.ts'
import { buildHeldCall, getPayer } from '../../engine/reserve.ts'
import type { Run } from '../../engine/run.ts'
import { recordCharge } from '../../engine/settle.ts'
import { createFreeReceipt, createTextUsage, type Receipt } from '../../language/usage.ts'
import type { Grant } from '../../limits/counters.ts'
import type { JournalEntry } from '../../limits/ledger.ts'
import type { ExtensionWorld } from '../world.ts'
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
  grant: Grant | null
  /** The model that asks for them; undefined before the first turn. */
  model: string | undefined
  /** Counts what they cost in the budget of the call, which counts what they may cost until then. */
  spend: (cost: bigint) => void
  journalEntry: JournalEntry | null
  receipt: Receipt | null
  isCharged: boolean
}

/**
 * Sets aside what the uses of a turn may cost and writes that to the journal; null if all are free.
 * Throws 402 if a limit has not enough left, and 503 if the journal cannot be written.
 */
export async function reserveUses(
  world: ExtensionWorld,
  run: Run,
  uses: ToolUse[],
): Promise<UsesMoney | null> {
  const nanos = uses.reduce((sum, { price }) => sum + price, 0n)
  if (nanos === 0n) return null
  const money: UsesMoney = {
    ...{ run, uses, number: run.takeNumber() },
    ...{ model: run.step?.model, grant: null, journalEntry: null, receipt: null, isCharged: false },
    spend: doNothing,
  }
  const { actor, call, tree } = run
  const { budgets } = run.policy
  if (budgets && !run.subaccounts) await openBudgets(world, run, budgets, [])
  const { policy } = run
  const amounts = { own: nanos, byok: null }
  const estimate = { maximum: amounts, minimum: amounts }
  const payer = getPayer(run)
  if (actor.key_hash !== null)
    money.grant = await world.traffic.counters.take({
      ...{ actor, call, money: { payer, estimate, bounds: policy.bounds } },
    })
  run.toolMoney = [...(run.toolMoney ?? []), money]
  money.spend = tree?.holdUses(nanos) ?? doNothing
  if (!money.grant) return money
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

const doNothing = () => undefined

/** Gives back what was set aside for uses that do not run. */
export function releaseUses(
  { traffic: { counters } }: ExtensionWorld,
  { grant, journalEntry, spend }: UsesMoney,
): void {
  journalEntry?.forget()
  spend(0n)
  if (grant) counters.give(grant)
}

/** Charges what the uses cost. Resolves when that is on disk. Throws as `recordRun` does. */
export async function chargeUses(world: ExtensionWorld, money: UsesMoney): Promise<void> {
  const cost = money.uses.reduce((sum, { result }) => sum + (result?.cost ?? 0n), 0n)
  money.receipt = {
    ...createFreeReceipt(createTextUsage(0, 0)),
    usageSource: 'exact',
    cost,
    cost_details: { prompt: 0n, completion: 0n, tools: cost },
  }
  money.spend(cost)
  await recordCharge(world, money)
}
