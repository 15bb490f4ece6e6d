import { type Static, Type } from '@sinclair/typebox'
import { computeFirstDay, getIsoTime, type Period, toDayNumber } from '../base/clock.ts'
import { invalid } from '../base/errors.ts'
import { MAX_USD, toNanos, toUsd } from '../base/money.ts'
import { PAGE_SIZE, PageQuery } from '../base/pages.ts'
import { type Actor, assertCanManageAll } from '../resources/actor.ts'
import { defineAudit, identifyById } from '../resources/audit/entry.ts'
import { defineNoun, defineOperation, defineTerminalOperation } from '../resources/operation.ts'
import { type Bound, DAYS_KEPT, type Payer } from './ledger.ts'
import type { Credit, LedgerWorld } from './world.ts'

/** The input of the terminal command, which is the only way to add credits. */
export const NewCredit = Type.Object({
  amount: Type.Number({
    minimum: -MAX_USD,
    maximum: MAX_USD,
    description: 'USD; negative to correct',
  }),
  note: Type.Optional(Type.String({ minLength: 1, maxLength: 1000 })),
})
export type NewCredit = Static<typeof NewCredit>

/** The page that the terminal lists. */
export const CreditQuery = PageQuery
export type CreditQuery = Static<typeof CreditQuery>

/**
 * The largest sum of all credits, up or down. A sum of nano-dollars then fits 64 bits, even when
 * two terminals add at once.
 */
const MAX_SUM = toNanos(4_000_000_000)

/**
 * Returns the credits paid in and spent, in USD: `GET /credits`. Throws 403 for an actor who
 * manages only one workspace.
 */
export function getCredits(world: LedgerWorld, actor: Actor) {
  assertCanManageAll(world, actor)
  return {
    data: {
      total_credits: toUsd(world.memory.credits),
      total_usage: toUsd(world.ledger.getSpent('all', null, false)),
    },
  }
}

/**
 * Adds a credit or a correction. Throws 400 for an amount of zero or a sum that is no longer
 * plausible, and 403 as `getCredits` does.
 */
export async function addCredit(
  world: LedgerWorld,
  actor: Actor,
  { amount: usd, note }: NewCredit,
) {
  assertCanManageAll(world, actor)
  const amount = toNanos(usd)
  if (amount === 0n) throw invalid('amount: expected at least a nano-dollar', 'amount')
  if (isImplausible((await world.store.credits.computeTotal()) + amount))
    throw invalid('amount: expected one that keeps the sum within 4 billion USD', 'amount')
  const credit: Credit = {
    id: world.ids.uuid(),
    created_at: getIsoTime(world),
    amount,
    note: note ?? null,
    user_id: actor.user_id,
  }
  await world.store.credits.insert(credit, auditCredit(world, actor, null, credit))
  await reloadCredits(world)
  return { data: showCredit(credit) }
}

const isImplausible = (sum: bigint): boolean => sum > MAX_SUM || sum < -MAX_SUM

/** Lists credits, newest first. Throws 403 as `getCredits` does. */
export async function listCredits(
  world: LedgerWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE }: CreditQuery,
) {
  assertCanManageAll(world, actor)
  const { credits, count } = await world.store.credits.listPage(offset, limit)
  return { data: credits.map(showCredit), total_count: count }
}

/**
 * Returns the bound that paid-in credits set, if the config enables credits. It covers all spending
 * through the gateway's own credentials. With a negative balance it also stops free calls (wire
 * reference K.9).
 */
export function listCreditBounds({
  config,
  memory: { credits },
  instance: { siteUrl },
}: LedgerWorld): Bound[] {
  if (!config.limits.credits) return []
  const message = `Insufficient credits. Add more using ${siteUrl.replace(/\/$/, '')}/credits`
  return [{ account: 'all', period: null, limit: credits, byok: false, message }]
}

/** Reads the sum of credits from the store again. */
export async function reloadCredits(world: LedgerWorld): Promise<void> {
  world.memory.credits = await world.store.credits.computeTotal()
  world.memory.policies.clear()
}

const showCredit = ({ amount, ...credit }: Credit) => ({ ...credit, amount: toUsd(amount) })

const auditCredit = defineAudit<Credit>('credits', { identify: identifyById })

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
  await world.store.credits.insert(credit, auditCredit(world, actor, null, credit), charge)
  await world.ledger.catchUp()
  await reloadCredits(world)
}

/** Finds the day on which an opening counts: in its window, and in as few others as can be. */
export const findOpeningDay = (period: Period | null, now: Date): number =>
  period ? computeFirstDay(period, now) : toDayNumber(now) - DAYS_KEPT - 1

/** What can be done with prepaid credits. They are added only at the terminal. */
export const credits = defineNoun(
  { tag: 'Credits', access: 'management' },
  {
    create: defineTerminalOperation(addCredit, NewCredit),
    show: defineOperation(
      'GET /credits',
      'getCredits',
      'Get the credits paid in and spent',
      getCredits,
    ),
    list: defineTerminalOperation(listCredits, CreditQuery),
  },
)
