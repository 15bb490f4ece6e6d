import { GatewayError } from '../errors.ts'
import type { Clock } from '../kernel/clock.ts'
import { dayOf, firstDayOf, PERIODS, type Period } from '../kernel/clock.ts'
import { larger } from '../kernel/money.ts'
import type { LedgerHead, LedgerRow } from './chain.ts'

/** Whose spending is counted together: one key, all keys that a member made, all keys of a workspace, or everything. */
export type Account = `key ${string}` | `member ${string}` | `workspace ${string}` | 'all'

/** Who pays for a call: the key, who made it, and where it belongs. All of them are counted. */
export interface Payer {
  key_hash: string
  user_id: string
  workspace_id: string
}

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

/** Nano-dollars through the gateway's own credentials, or through a caller's own provider key. Null: the call cannot go that way. */
export interface Amounts {
  own: bigint | null
  byok: bigint | null
}

/** What a call may come to, and the least with which it is worth making: less than that is a refusal. */
export interface Need {
  most: Amounts
  least: Amounts
}

/** Money set aside for a call that runs. A call goes one way in the end, so its two amounts are not added. */
export interface Hold {
  payer: Payer
  amounts: Amounts
  /** Until it settles, or is given back. */
  isOpen: boolean
}

/** What one settled call cost, on the day on which it settled. Money in nano-dollars. */
export interface Charge extends Payer {
  day: number
  byok: boolean
  nanos: bigint
}

/** What one step of a call cost, a model turn, as the ledger keeps it. Most calls have one. */
export interface StepCharge extends Charge {
  /** The generation that the call becomes, and which of its steps this is, from 1. */
  id: string
  step: number
  /** ISO 8601, on that day. */
  settled_at: string
  source: Exclude<LedgerRow['source'], 'opening'>
}

/** What a key has spent on one day. */
export type DaySpend = Charge

/** Word of a call that runs, as it outlives the process. Money in nano-dollars. */
export interface HeldCall extends Payer {
  /** The generation that the call becomes. */
  id: string
  request_id: string
  created_at: string
  api_type: string
  model: string
  streamed: boolean
  /** Which step runs, from 1. Those before it are in the ledger when this is written. */
  step: number
  /** Whether it goes through the caller's own provider key, as far as that is known before. */
  byok: boolean
  /**
   * What is set aside, and what the step has come to so far: its cost when the process dies.
   */
  nanos: bigint
  spent: bigint
}

/** Word of one call. */
export interface Word {
  /** Resolves when it outlives the process. Throws 503 when it cannot be written. */
  written: Promise<void>
  /** There is no more to be remembered of the call: it is on record, or did not go out. */
  forget(): void
}

/** Remembers the calls that run, for the process that comes after this one. Only whoever serves writes there. */
export interface HoldJournal {
  /** Leaves word of a call, which must not go out before that is written. */
  open(held: HeldCall): Word
  /** What running calls have come to by now. */
  progress(calls: { held: HeldCall; spent: bigint }[]): void
  /** Every call of which there is word, also of those that are on record. */
  left(): HeldCall[]
  /** Forgets all but those that run. */
  clear(): void
}

/** All that money depends on besides the rows themselves, as it is kept. */
export interface LedgerBooks {
  /** What the database says of its own structure. */
  integrity: string[]
  spend: DaySpend[]
  /**
   * Calls whose steps' charges do not add up to what is on record of them. Null: there is none. One
   * that goes on after its first step is charged and not yet on record.
   */
  unmatched: { id: string; charged: bigint | null; recorded: bigint | null }[]
}

/** Remembers spending: all time in `totals`, and each day from `since` on. Every row in the order of settling. */
export interface LedgerStore {
  days(since: number): Promise<DaySpend[]>
  totals(): Promise<Omit<DaySpend, 'day'>[]>
  /** What the steps of a call were charged, in their order. */
  charges(id: string): Promise<Pick<StepCharge, 'step' | 'byok' | 'nanos'>[]>
  /** The last row that has a hash. */
  head(): Promise<LedgerHead | null>
  /**
   * Shows every row in its order to `see`, then gives the rest, all of it as it was at one moment,
   * whatever others write meanwhile. One row at a time: memory does not grow with their number.
   * Throws what `see` throws.
   */
  inspect(see: (row: LedgerRow) => void): Promise<LedgerBooks>
}

/**
 * What has been spent and what is set aside, in memory: the only place that changes a counter.
 * A call's money goes reserve → settle, or reserve → release. Every window is a sum over days, so none is ever reset.
 */
export interface Ledger {
  /**
   * Sets money aside in all accounts of the payer, or in none. Between the most and the least that is needed it takes what every bound
   * has left. A way that cannot be paid is closed: its amount is null. Throws 402 with the message of the first bound that stops the last.
   */
  reserve(payer: Payer, need: Need, bounds: Bound[]): Hold
  /** What `reserve` would set aside, or throw, without doing so. */
  grant(need: Need, bounds: Bound[]): Amounts
  /** What a bound has left, spending and holds taken off: below 0 where more was spent than it allows by now. */
  left(bound: Bound): bigint
  /** Turns a hold into spending. A hold settles once: a second time changes nothing. */
  settle(hold: Hold, charge: Charge): void
  /** Gives a hold back unspent. */
  release(hold: Hold): void
  /** Counts what was spent under no hold of this process. */
  charge(charge: Charge): void
  /** Spent in the running window, or ever when `period` is null. */
  spent(account: Account, period: Period | null, byok: boolean): bigint
  /** Set aside at this moment; with `byok`, what goes through callers' own provider keys counts too. */
  held(account: Account, byok: boolean): bigint
}

/** The longest window is a month; older days are only in the total. */
export const DAYS_KEPT = 31

/** The ledger with everything that the store remembers. */
export async function openLedger(store: LedgerStore, clock: Clock): Promise<Ledger> {
  const books = new Books()

  for (const total of await store.totals())
    for (const book of books.of(total)) book[way(total.byok)].total += total.nanos
  for (const one of await store.days(dayOf(clock.now()) - DAYS_KEPT))
    for (const book of books.of(one)) addDay(book[way(one.byok)], one.day, one.nanos)

  const left = ({ account, period, limit, byok }: Bound): bigint => {
    const book = books.at(account)
    return book ? limit - spentIn(book, period, byok, clock) - heldIn(book, byok) : limit
  }

  const grant = (need: Need, bounds: Bound[]): Amounts =>
    bounds.length === 0 ? need.most : granted(need, bounds, left)

  function charge(one: Charge): void {
    for (const book of books.of(one)) spend(book[way(one.byok)], one.day, one.nanos)
  }

  function release(hold: Hold): boolean {
    if (!hold.isOpen) return false
    hold.isOpen = false
    giveBack(books.of(hold.payer), hold.amounts)
    return true
  }

  return {
    reserve(payer, need, bounds) {
      const hold = { payer, amounts: grant(need, bounds), isOpen: true }
      setAside(books.of(payer), hold.amounts)
      return hold
    },
    grant,
    left,
    settle(hold, charged) {
      if (release(hold)) charge(charged)
    },
    release: hold => void release(hold),
    charge,
    spent(account, period, byok) {
      const book = books.at(account)
      return book ? spentOn(book[way(byok)], period, clock) : 0n
    },
    held(account, byok) {
      const book = books.at(account)
      return book ? heldIn(book, byok) : 0n
    },
  }
}

const way = (byok: boolean): 'own' | 'byok' => (byok ? 'byok' : 'own')

/** What every bound lets the call have, each way for itself. A way that cannot be paid is closed; throws 402 where none is left. */
function granted({ most, least }: Need, bounds: Bound[], left: (bound: Bound) => bigint): Amounts {
  const amounts = { ...most }
  let refusing: Bound | undefined
  for (const bound of bounds) {
    const available = left(bound)
    const before = { ...amounts }
    amounts.own = within(amounts.own, least.own, available)
    if (bound.byok) amounts.byok = within(amounts.byok, least.byok, available)
    if (amounts.own === null && before.own !== null) refusing ??= bound
    if (amounts.byok === null && before.byok !== null) refusing ??= bound
  }
  if (refusing && amounts.own === null && amounts.byok === null)
    throw new GatewayError('payment_required', refusing.message)
  return amounts
}

function within(most: bigint | null, least: bigint | null, available: bigint): bigint | null {
  if (most === null || most <= available) return most
  return least === null || least > available ? null : available
}

/** What one account has spent, ever and on each day that a window may still hold. */
interface Spending {
  total: bigint
  days: Map<number, bigint>
  /** What was found last: asking again within the same window adds nothing up. */
  found: { [P in Period]?: { first: number; nanos: bigint } }
}

interface Book {
  own: Spending
  byok: Spending
  /** Set aside through the gateway's own credentials, and through whichever way costs more. */
  heldOwn: bigint
  heldAny: bigint
}

/** Every account that ever spent. */
class Books {
  readonly #books = new Map<Account, Book>()
  /** The books that a key's calls are written in. */
  readonly #payers = new Map<string, Book[]>()

  at(account: Account): Book | undefined {
    return this.#books.get(account)
  }

  of({ key_hash, user_id, workspace_id }: Payer): Book[] {
    const known = this.#payers.get(key_hash)
    if (known) return known
    const accounts: Account[] = [
      `key ${key_hash}`,
      `member ${user_id}`,
      `workspace ${workspace_id}`,
      'all',
    ]
    const made = accounts.map(account => this.#made(account))
    this.#payers.set(key_hash, made)
    return made
  }

  #made(account: Account): Book {
    const known = this.#books.get(account)
    if (known) return known
    const made: Book = { own: nothing(), byok: nothing(), heldOwn: 0n, heldAny: 0n }
    this.#books.set(account, made)
    return made
  }
}

const nothing = (): Spending => ({ total: 0n, days: new Map(), found: {} })

function setAside(books: Book[], { own, byok }: Amounts): void {
  const any = larger(own ?? 0n, byok ?? 0n)
  for (const book of books) {
    if (own !== null) book.heldOwn += own
    book.heldAny += any
  }
}

function giveBack(books: Book[], { own, byok }: Amounts): void {
  const any = larger(own ?? 0n, byok ?? 0n)
  for (const book of books) {
    if (own !== null) book.heldOwn -= own
    book.heldAny -= any
  }
}

const heldIn = ({ heldOwn, heldAny }: Book, byok: boolean): bigint => (byok ? heldAny : heldOwn)

function spentIn(book: Book, period: Period | null, byok: boolean, clock: Clock): bigint {
  const own = spentOn(book.own, period, clock)
  return byok ? own + spentOn(book.byok, period, clock) : own
}

function spentOn(spending: Spending, period: Period | null, clock: Clock): bigint {
  if (period === null) return spending.total
  const first = firstDayOf(period, clock.now())
  const known = spending.found[period]
  if (known?.first === first) return known.nanos
  const nanos = sumSince(spending, first)
  spending.found[period] = { first, nanos }
  return nanos
}

// Days to come count too: a clock that was set back gives nothing back.
function sumSince({ days }: Spending, first: number): bigint {
  let sum = 0n
  for (const [day, nanos] of days) if (day >= first) sum += nanos
  return sum
}

function spend(spending: Spending, day: number, nanos: bigint): void {
  spending.total += nanos
  addDay(spending, day, nanos)
}

function addDay({ days, found }: Spending, day: number, nanos: bigint): void {
  days.set(day, (days.get(day) ?? 0n) + nanos)
  for (const period of PERIODS) {
    const window = found[period]
    if (window && day >= window.first) window.nanos += nanos
  }
  // The oldest, and not those before a certain day: after a clock that ran ahead the days in between are still needed.
  if (days.size > 2 * DAYS_KEPT) days.delete(Math.min(...days.keys()))
}
