import type { Clock } from '../kernel/clock.ts'
import { dayOf, firstDayOf, type Period } from './periods.ts'

/** Whose spending is counted together: one key, all keys that a member made, all keys of a workspace, or everything. */
export type Account = `key ${string}` | `member ${string}` | `workspace ${string}` | 'all'

/** What one account may spend in one window. */
export interface Bound {
  account: Account
  /** The window; null: ever. */
  period: Period | null
  /** Nano-dollars. */
  limit: bigint
  /** Whether spending through callers' own provider keys counts. */
  byok: boolean
  /** What a caller is told whom it stops: 402. */
  message: string
}

/** Money set aside for a call that runs. */
export interface Hold {
  key_hash: string
  nanos: bigint
}

/** What one settled call cost one key, on the day on which it settled. Money in nano-dollars. */
export interface Charge {
  key_hash: string
  day: number
  byok: boolean
  nanos: bigint
}

/** What a key has spent on one day. */
export type DaySpend = Charge

/** Remembers spending: all time in `totals`, and each day from `since` on. */
export interface LedgerStore {
  days(since: number): Promise<DaySpend[]>
  totals(): Promise<Omit<DaySpend, 'day'>[]>
}

/**
 * What has been spent and what is set aside, in memory: the only place that changes a counter.
 * A call's money goes reserve → settle, or reserve → release. Every window is a sum over days, so none is ever reset.
 */
export interface Ledger {
  /** Sets money aside for a call of this key. */
  reserve(key_hash: string, nanos: bigint): Hold
  /** Turns a hold into spending. A hold settles once: a second time changes nothing. */
  settle(hold: Hold, charge: Charge): void
  /** Gives a hold back unspent. */
  release(hold: Hold): void
  /** Spent in the running window, or ever when `period` is null. */
  spent(key_hash: string, period: Period | null, byok: boolean): bigint
  /** Set aside at this moment. */
  held(key_hash: string): bigint
}

interface Spending {
  total: bigint
  days: Map<number, bigint>
}

// The longest window is a month; older days are only in the total.
const DAYS_KEPT = 31

/** The ledger with everything that the store remembers. */
export async function openLedger(store: LedgerStore, clock: Clock): Promise<Ledger> {
  const accounts = new Map<string, Spending>()
  const holds = new Map<string, bigint>()
  const open = new Set<Hold>()

  for (const { key_hash, byok, nanos } of await store.totals()) accountOf(accounts, key_hash, byok).total = nanos
  for (const { key_hash, byok, day, nanos } of await store.days(dayOf(clock.now()) - DAYS_KEPT)) {
    accountOf(accounts, key_hash, byok).days.set(day, nanos)
  }

  function release(hold: Hold): boolean {
    if (!open.delete(hold)) return false
    const left = (holds.get(hold.key_hash) ?? 0n) - hold.nanos
    if (left > 0n) holds.set(hold.key_hash, left)
    else holds.delete(hold.key_hash)
    return true
  }

  return {
    reserve(key_hash, nanos) {
      const hold = { key_hash, nanos }
      open.add(hold)
      holds.set(key_hash, (holds.get(key_hash) ?? 0n) + nanos)
      return hold
    },
    settle(hold, charge) {
      if (release(hold)) spend(accountOf(accounts, charge.key_hash, charge.byok), charge)
    },
    release: hold => void release(hold),
    spent(key_hash, period, byok) {
      const account = accounts.get(accountName(key_hash, byok))
      if (!account) return 0n
      return period === null ? account.total : sumSince(account, firstDayOf(period, clock.now()))
    },
    held: key_hash => holds.get(key_hash) ?? 0n,
  }
}

const accountName = (key_hash: string, byok: boolean) => (byok ? `${key_hash} byok` : key_hash)

function accountOf(accounts: Map<string, Spending>, key_hash: string, byok: boolean): Spending {
  const name = accountName(key_hash, byok)
  const known = accounts.get(name)
  if (known) return known
  const made: Spending = { total: 0n, days: new Map() }
  accounts.set(name, made)
  return made
}

function spend(account: Spending, { day, nanos }: Charge): void {
  account.total += nanos
  account.days.set(day, (account.days.get(day) ?? 0n) + nanos)
  if (account.days.size > 2 * DAYS_KEPT) for (const old of account.days.keys()) if (old < day - DAYS_KEPT) account.days.delete(old)
}

function sumSince(account: Spending, first: number): bigint {
  let sum = 0n
  for (const [day, nanos] of account.days) if (day >= first) sum += nanos
  return sum
}
