import { dayOf } from '../../src/core/kernel/clock.ts'
import type {
  Amounts,
  Bound,
  Charge,
  DaySpend,
  Ledger,
  LedgerStore,
  Need,
  Payer,
} from '../../src/core/ledger/ledger.ts'
import type { TestClock } from './gateway.ts'

/** Creates a ledger store with these days. */
export const remembering = (days: DaySpend[] = []): LedgerStore => ({
  days: async since => days.filter(one => one.day >= since),
  totals: async () => days.map(({ day: _, ...total }) => total),
  charges: async () => [],
  head: async () => null,
  inspect: async () => ({ integrity: ['ok'], spend: days, unmatched: [] }),
})

/** Builds a payer: key `k` of member `m` in workspace `w`, with `more` applied. */
export const payer = (more: Partial<Payer> = {}): Payer => ({
  key_hash: 'k',
  user_id: 'm',
  workspace_id: 'w',
  ...more,
})

export const own = (nanos: bigint): Amounts => ({ own: nanos, byok: null })

/** Builds an estimate whose lowest and highest amounts are equal. */
export const exactly = (amounts: Amounts): Need => ({ most: amounts, least: amounts })

export const boundOf = (more: Partial<Bound> = {}): Bound => ({
  account: 'key k',
  period: null,
  limit: 100n,
  byok: false,
  message: 'Key limit exceeded (total limit)',
  ...more,
})

export const chargeOn = (clock: TestClock, nanos: bigint, more: Partial<Charge> = {}): Charge => ({
  ...payer(),
  day: dayOf(clock.now()),
  byok: false,
  nanos,
  ...more,
})

/** Makes a call of this cost, from its hold to its charge. */
export function spend(
  ledger: Ledger,
  clock: TestClock,
  nanos: bigint,
  more: Partial<Charge> = {},
): void {
  const charge = chargeOn(clock, nanos, more)
  const amounts = charge.byok ? { own: null, byok: nanos } : own(nanos)
  ledger.settle(ledger.reserve(charge, exactly(amounts), []), charge)
}
