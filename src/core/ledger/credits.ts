import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { byId, defineAudit } from '../identity/audit/entry.ts'
import type { AuditEntry } from '../identity/audit.ts'
import { mustManageAll } from '../identity/management.ts'
import { isoNow } from '../kernel/clock.ts'
import { MOST_USD, nanosOf, usdOf } from '../kernel/money.ts'
import { PAGE_SIZE, PageQuery } from '../kernel/pages.ts'
import type { Bound } from './ledger.ts'
import type { LedgerWorld } from './world.ts'

/**
 * An amount paid in. A correction is another credit with a negative amount. Money in nano-dollars,
 * times in ISO 8601.
 */
export interface Credit {
  id: string
  created_at: string
  amount: bigint
  note: string | null
  user_id: string
}

/** Stores credits. They are only added, never changed or removed. */
export interface CreditStore {
  insert(credit: Credit, entry: AuditEntry): Promise<void>
  /** Returns the sum of all credits. */
  total(): Promise<bigint>
  /** Returns one page, newest first, and the total count. */
  page(offset: number, limit: number): Promise<{ credits: Credit[]; count: number }>
}

/** The input of the terminal command, which is the only way to add credits. */
export const NewCredit = Type.Object({
  amount: Type.Number({
    minimum: -MOST_USD,
    maximum: MOST_USD,
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
const MOST = nanosOf(4_000_000_000)

/**
 * Returns the credits paid in and spent, in USD: `GET /credits`. Throws 403 for an actor who
 * manages only one workspace.
 */
export function getCredits(gateway: LedgerWorld, actor: Actor) {
  mustManageAll(gateway, actor)
  return {
    data: {
      total_credits: usdOf(gateway.memory.credits),
      total_usage: usdOf(gateway.ledger.spent('all', null, false)),
    },
  }
}

/**
 * Adds a credit or a correction. Throws 400 for an amount of zero or a sum that is no longer
 * plausible, and 403 as `getCredits` does.
 */
export async function addCredit(
  gateway: LedgerWorld,
  actor: Actor,
  { amount: usd, note }: NewCredit,
) {
  mustManageAll(gateway, actor)
  const amount = nanosOf(usd)
  if (amount === 0n) throw invalid('amount: expected at least a nano-dollar', 'amount')
  if (isTooMuch((await gateway.store.credits.total()) + amount))
    throw invalid('amount: expected one that keeps the sum within 4 billion USD', 'amount')
  const credit: Credit = {
    id: gateway.ids.uuid(),
    created_at: isoNow(gateway),
    amount,
    note: note ?? null,
    user_id: actor.user_id,
  }
  await gateway.store.credits.insert(credit, auditCredit(gateway, actor, null, credit))
  await reloadCredits(gateway)
  return { data: showCredit(credit) }
}

const isTooMuch = (sum: bigint) => sum > MOST || sum < -MOST

/** Lists credits, newest first. Throws 403 as `getCredits` does. */
export async function listCredits(
  gateway: LedgerWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE }: CreditQuery,
) {
  mustManageAll(gateway, actor)
  const { credits, count } = await gateway.store.credits.page(offset, limit)
  return { data: credits.map(showCredit), total_count: count }
}

/**
 * Returns the bound that paid-in credits set, if the config enables credits. It covers all spending
 * through the gateway's own credentials. With a negative balance it also stops free calls (wire
 * reference K.9).
 */
export function creditBounds({
  config,
  memory: { credits },
  instance: { siteUrl },
}: LedgerWorld): Bound[] {
  if (!config.limits.credits) return []
  const message = `Insufficient credits. Add more using ${siteUrl.replace(/\/$/, '')}/credits`
  return [{ account: 'all', period: null, limit: credits, byok: false, message }]
}

/** Reads the sum of credits from the store again. */
export async function reloadCredits(gateway: LedgerWorld): Promise<void> {
  gateway.memory.credits = await gateway.store.credits.total()
  gateway.memory.policies.clear()
}

const showCredit = ({ amount, ...credit }: Credit) => ({ ...credit, amount: usdOf(amount) })

const auditCredit = defineAudit<Credit>('credits', { identify: byId })
