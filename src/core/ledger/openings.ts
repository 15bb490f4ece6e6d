import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { assertCanManageAll } from '../identity/management.ts'
import { computeFirstDay, getIsoTime, type Period, toDayNumber } from '../kernel/clock.ts'
import { toNanos } from '../kernel/money.ts'
import { auditCredit, isImplausible, reloadCredits } from './credits.ts'
import { DAYS_KEPT, type Payer } from './ledger.ts'
import type { LedgerWorld } from './world.ts'

/** What was spent elsewhere, before a key or a workspace came here. */
export interface SpentElsewhere extends Payer {
  /** The window in which it counts, from its first day; null: of all time, and in no window. */
  period: Period | null
  /** USD. */
  spent: number
}

/**
 * Counts what was spent elsewhere against the limits here: an entry of the ledger that opens an
 * account, once for a key. It was paid elsewhere, so a credit of the same amount goes with it, and
 * the balance stays. One transaction. Throws 400 where credits would no longer be plausible, and 403
 * for an actor who manages only one workspace.
 */
export async function countSpentElsewhere(
  world: LedgerWorld,
  actor: Actor,
  { period, spent, ...payer }: SpentElsewhere,
): Promise<void> {
  assertCanManageAll(world, actor)
  const nanos = toNanos(spent)
  if (nanos === 0n) return
  if (isImplausible((await world.store.credits.computeTotal()) + nanos))
    throw invalid('spend: expected one that keeps the sum of credits within 4 billion USD', 'spend')
  const now = world.clock.now()
  const day = findOpeningDay(period, now)
  const settled_at = new Date(day * 86_400_000).toISOString()
  const id = `opening-import-${payer.key_hash}`
  const credit = {
    ...{ id: world.ids.uuid(), created_at: getIsoTime(world), amount: nanos },
    ...{ note: `Spent elsewhere before the import: ${id}`, user_id: actor.user_id },
  }
  const charge = { ...payer, id, step: 1, settled_at, day, byok: false, nanos }
  await world.store.ledger.open(charge, credit, auditCredit(world, actor, null, credit))
  await world.ledger.catchUp()
  await reloadCredits(world)
}

/** Finds the day on which an opening counts: in its window, and in as few others as can be. */
export const findOpeningDay = (period: Period | null, now: Date): number =>
  period ? computeFirstDay(period, now) : toDayNumber(now) - DAYS_KEPT - 1
