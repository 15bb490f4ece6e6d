import { toDayNumber } from '../../src/base/clock.ts'
import { openMac } from '../../src/base/mac.ts'
import { openSeal } from '../../src/base/seal.ts'
import type {
  Amounts,
  Bound,
  Charge,
  CostEstimate,
  DaySpend,
  Ledger,
  LedgerStore,
  Payer,
} from '../../src/limits/ledger.ts'
import type { RecordSecrets } from '../../src/limits/seals.ts'
import type { TestClock } from './gateway.ts'

/** A gateway that has this secret reads and verifies the stores of tests. */
export const TEST_SECRET = 'the secret of tests'

/** Creates what seals and encrypts the records of a secret. */
export const createSecrets = (secret: string): RecordSecrets => {
  const open = (purpose: string) => () => openSeal(Buffer.from(secret), purpose)
  return {
    mac: openMac(Buffer.from(secret), 'records'),
    seal: open('byok'),
    presetSeal: open('presets'),
    contentSeal: open('content'),
    destinationSeal: open('destinations'),
  }
}

/** What seals the records of tests. */
export const TEST_SECRETS = createSecrets(TEST_SECRET)

/** The key that seals the ledgers of tests. */
export const TEST_MAC = TEST_SECRETS.mac

/** Creates a ledger store with these days. */
export const createLedgerStore = (days: DaySpend[] = []): LedgerStore => ({
  listDays: async since => days.filter(one => one.day >= since),
  listTotals: async () => days.map(({ day: _, ...total }) => total),
  listSubaccountDays: async () => [],
  removeSubaccountDays: async () => 0,
  listCharges: async () => [],
  listOpenings: async () => [],
  readHead: async () => null,
  has: async () => true,
  inspect: async () => ({
    integrity: [],
    spend: days,
    parts: [],
    unmatched: [],
    records: { count: 0, unsealed: 0, problems: [], unpaid: [] },
  }),
})

/** Builds a payer: key `k` of member `m` in workspace `w`, with `more` applied. */
export const buildPayer = (more: Partial<Payer> = {}): Payer => ({
  key_hash: 'k',
  user_id: 'm',
  workspace_id: 'w',
  ...more,
})

export const toOwnAmounts = (nanos: bigint): Amounts => ({ own: nanos, byok: null })

/** Builds an estimate whose lowest and highest amounts are equal. */
export const toExactEstimate = (amounts: Amounts): CostEstimate => ({
  maximum: amounts,
  minimum: amounts,
})

export const buildBound = (more: Partial<Bound> = {}): Bound => ({
  account: 'key k',
  period: null,
  limit: 100n,
  byok: false,
  message: 'Key limit exceeded (total limit)',
  ...more,
})

export const buildCharge = (
  clock: TestClock,
  nanos: bigint,
  more: Partial<Charge> = {},
): Charge => ({
  ...buildPayer(),
  day: toDayNumber(clock.now()),
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
  const charge = buildCharge(clock, nanos, more)
  const amounts = charge.byok ? { own: null, byok: nanos } : toOwnAmounts(nanos)
  ledger.settle(ledger.reserve(charge, toExactEstimate(amounts), []), charge)
}
