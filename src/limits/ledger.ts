import { type Clock, computeFirstDay, PERIODS, type Period, toDayNumber } from '../base/clock.ts'
import { GatewayError, unavailable } from '../base/errors.ts'
import { LiveSet } from '../base/live-set.ts'
import type { Mac } from '../base/mac.ts'
import { pickLarger } from '../base/money.ts'
import type { Region } from '../language/call.ts'
import type { LedgerHead, LedgerRow } from './chain.ts'

/**
 * The spending that is counted together: one key, all keys made by a member, all keys of a
 * workspace, everything, or a part of such an account.
 */
export type Account =
  | (`key ${string}` | `member ${string}` | `workspace ${string}` | 'all')
  | Subaccount

/** What calls of one end user, tag or model cost of what an account spends. */
export type Subaccount = `${'end_user' | 'tag' | 'model'} ${string}`

/** What limits are of: an account, and whether spending through callers' own keys counts. */
export type Meter = `${'own' | 'any'} ${Account}`

/**
 * Who pays for a call: the key, the member who made it and its workspace. All of them are counted.
 */
export interface Payer {
  key_hash: string
  user_id: string
  workspace_id: string
  /** The parts of their accounts that budgets count besides; absent for almost all. */
  subaccounts?: Subaccount[]
}

/** What one account may spend in one window. */
export interface Limit {
  account: Account
  /** The window; null means all time. */
  period: Period | null
  /** Nano-dollars. */
  limit: bigint
  /** Whether spending through callers' own provider keys counts. */
  byok: boolean
}

/** A limit that calls are held to. */
export interface Bound extends Limit {
  /** The message of the 402 that it causes. */
  message: string
}

/**
 * Nano-dollars through the gateway's own credentials, or through a caller's own provider key. Null:
 * the call cannot be paid that way.
 */
export interface Amounts {
  own: bigint | null
  byok: bigint | null
}

/**
 * What a call may cost at most, and the least that makes it worth sending. With less than that it
 * is refused.
 */
export interface CostEstimate {
  maximum: Amounts
  minimum: Amounts
  /** What is enough where nothing more will be left: the minimum, if absent. */
  least?: Amounts
}

/**
 * Money set aside for a running call. A call is paid in one way only, so its two amounts are not
 * added.
 */
export interface Hold {
  payer: Payer
  amounts: Amounts
  /** False once it is settled or released. */
  isOpen: boolean
  /** Takes it from the open ones. */
  leave?(): void
}

/** The cost of a settled call, on the day when it settled. Money in nano-dollars. */
export interface Charge extends Payer {
  day: number
  byok: boolean
  nanos: bigint
  /** The meters of which this node had it on lease; absent for a node that is alone. */
  leased?: Meter[]
}

/** The cost of one step (one model turn) of a call. Most calls have one step. */
export interface StepCharge extends Charge {
  /** The generation that the call becomes, and which of its steps this is, counted from 1. */
  id: string
  step: number
  /** ISO 8601, on `day`. */
  settled_at: string
  source: Exclude<LedgerRow['source'], 'opening'>
}

/** What was spent elsewhere before a key or a workspace came here, as the ledger opens with it. */
export type Opening = Omit<StepCharge, 'source'>

/** The spending of a key on one day. */
export type DaySpend = Omit<Charge, 'subaccounts' | 'leased'>

/** The spending of a subaccount on one day. */
export interface SubaccountSpend extends Pick<Charge, 'day' | 'byok' | 'nanos'> {
  account: Subaccount
}

/** What a subaccount counts of a day, and what the rows of the ledger let it count. */
export interface PartSum extends SubaccountSpend {
  least: bigint
  most: bigint
}

/**
 * A running call as the journal keeps it, so that it survives the process. Money in nano-dollars.
 */
export interface HeldCall extends Payer {
  /** The generation that the call becomes. */
  id: string
  /** The batch that it is a line of; absent for almost all. */
  batch_id?: string
  request_id: string
  created_at: string
  api_type: string
  model: string
  streamed: boolean
  /**
   * The running step, counted from 1. Earlier steps are already in the ledger when this is written.
   */
  step: number
  /** Whether a use of a tool takes the step, beside the running one and others. Absent if not. */
  inner?: true
  /**
   * Whether it is paid through the caller's own provider key, as far as that is known in advance.
   */
  byok: boolean
  /** The provider that is asked first, and the region of the call unless it is `global`. */
  provider?: string
  region?: Region
  /**
   * What is set aside, and what the step has cost so far. If the process dies, the latter is its
   * cost.
   */
  nanos: bigint
  spent: bigint
}

/** What can be read of a line that is not as it was written. Null: nothing that could be true. */
export interface GarbledCall {
  id: string | null
  request_id: string | null
  key_hash: string | null
  model: string | null
  api_type: string | null
  created_at: string | null
  /** The lower one of what was set aside and what was spent, in nano-dollars. */
  estimate: bigint
}

/** The journal's entry of one call. */
export interface JournalEntry {
  /** Resolves when the entry survives the process. Throws 503 when it cannot be written. */
  written: Promise<void>
  /** Drops the call: it is on record, or it was never sent. */
  forget(): void
}

/** Keeps the running calls for the next process. Only the serving process writes to it. */
export interface HoldJournal {
  /** How much of the disk its log takes. */
  readonly bytes: number
  /** How long the disk has been taking for what is being written, in milliseconds. */
  readonly lag: number
  /** Whether the disk keeps up: else no call should begin. */
  readonly keepsUp: boolean
  /** Adds a call. The call must not be sent before the entry is written. */
  append(held: HeldCall): JournalEntry
  /** Updates what running calls have cost so far. Throws when that cannot be written. */
  updateSpent(calls: { held: HeldCall; spent: bigint }[]): Promise<void>
  /**
   * Returns every journaled call, including those that are on record by now: its last step, and
   * after that every inner one.
   */
  listCalls(): HeldCall[]
  /** Lists the lines that are not as they were written: their calls may not be listed. */
  listGarbled(): GarbledCall[]
  /** Gives the journal another name, under which it goes on. */
  moveTo(name: string): Promise<void>
  /**
   * Seals what is written with the current secret, and nothing with the one before, which may not be
   * known any more.
   */
  reseal(isKnown: boolean): Promise<void>
  /** Drops all calls but the running ones. A copy of garbled lines stays beside the journal. */
  clear(): Promise<void>
}

/** Everything that money depends on, apart from the ledger's rows. */
export interface LedgerBooks {
  /** What is wrong with the structure of the database, or cannot be read. */
  integrity: string[]
  spend: DaySpend[]
  /** What the parts of accounts count that budgets are of, beside what their calls cost. */
  parts: PartSum[]
  /**
   * Calls whose charged steps do not add up to what is on record; null: not there. A call that goes
   * on after its first step is charged and not yet on record.
   */
  unmatched: { id: string; charged: bigint | null; recorded: bigint | null }[]
  records: RecordReport
}

/** What was found about the records of calls. */
export interface RecordReport {
  count: number
  /** How many are covered by no seal that can be checked: from before the seals, for example. */
  unsealed: number
  problems: string[]
  /** Calls of which providers have taken more prompts than are charged: how many of each. */
  unpaid: { id: string; taken: number; charged: number }[]
}

/** How an inspection is made. */
export interface InspectionOptions {
  /** The key of the seals; the store's own unless it is given. */
  mac?: Mac
  /** Of what parts are summed beside those that are counted, by `nameParts`. */
  parts?: string[]
  /** Called now and then with how many rows were read, and how many there are. */
  onProgress?(done: number, total: number): void
}

/**
 * Stores spending: all time in `listTotals`, each day since a given one in `listDays`, and every
 * charge in settlement order.
 */
export interface LedgerStore {
  listDays(since: number): Promise<DaySpend[]>
  listTotals(): Promise<Omit<DaySpend, 'day'>[]>
  /** Lists the days of subaccounts since a given one. */
  listSubaccountDays(accounts: Subaccount[], since: number): Promise<SubaccountSpend[]>
  /** Removes some of the days of subaccounts before a given one, and returns how many. */
  removeSubaccountDays(before: number): Promise<number>
  /** Returns what the steps of a call were charged, in order. */
  listCharges(id: string): Promise<Pick<StepCharge, 'step' | 'byok' | 'nanos'>[]>
  /** Lists the openings after a row of the ledger, in order. */
  listOpenings(after: number): Promise<(Charge & { seq: number })[]>
  /** Returns the last row that has a hash. */
  readHead(): Promise<LedgerHead | null>
  /** Whether the chain passes here: true for the start of it, row 0. */
  has(head: LedgerHead): Promise<boolean>
  /**
   * Passes every row to `onRow` in order, then returns the rest. The counters are those of the
   * last row, whatever others write meanwhile. Rows are read in slices, so that memory does not
   * grow with their number, and writers are not kept waiting. What cannot be read is named and
   * passed over. Throws what `onRow` throws.
   */
  inspect(onRow: (row: LedgerRow) => void, options?: InspectionOptions): Promise<LedgerBooks>
}

/** What was spent in all, on each day since one, and up to which row of the ledger. */
export interface AllSpending {
  totals: Omit<DaySpend, 'day'>[]
  days: DaySpend[]
  last: number
}

/** What is set aside of what a node has on lease. */
export interface HeldBooks {
  getHeld(account: Account, byok: boolean): bigint
  listAccounts(payer: Payer): Account[]
  charge(charge: Charge): void
}

/**
 * The money that this node may spend of accounts that have limits, where several nodes spend it:
 * `leases.ts` has them.
 */
export interface Leases {
  /** Reads all spending at one moment; what others charge is heard of from there on. */
  readSpending(since: number): Promise<AllSpending>
  /** Begins to lend, once what an earlier process has left is settled. */
  begin(): Promise<void>
  /** Gives back what is not held, and ends. */
  end(): Promise<void>
  /** Gives back what is not needed, and hears what others need and have spent. */
  beat(): Promise<void>
  /** What a call may take of a bound. */
  getAvailable(bound: Pick<Bound, 'account' | 'byok'>): bigint
  /** What is left of a bound for all nodes, where it is known because a call has found too little. */
  findLeft(bound: Pick<Bound, 'account' | 'byok'>): bigint | null
  /** Takes a charge from what is in hand, and returns of which meters. */
  spend(charge: Charge): Meter[]
  /** Notes of a charge that an earlier process of this node had it on lease, as all it had. */
  noteEarlier(charge: Charge): void
  /** Notes which calls run here, and what they have cost so far, if there are any or were. */
  noteRunning(calls: { held: HeldCall; spent: bigint }[]): Promise<void>
  /**
   * Calls `take` as soon as what is in hand covers an estimate, or all there is: at once if it does.
   * Throws what it throws, and 503 where the store cannot be asked and what is in hand is not enough.
   */
  cover<Taken>(estimate: CostEstimate, bounds: Bound[], take: () => Taken): Taken | Promise<Taken>
}

/**
 * Holds all spending and holds in memory, and is the only place that changes a counter. A call's
 * money goes reserve → settle, or reserve → release. Every window is a sum over days, so none is
 * ever reset.
 */
export interface Ledger {
  /** What this node may spend of what several do; null for one that is alone. */
  readonly leases: Leases | null
  /**
   * Sets money aside that may have to be asked for: in the process that has taken the books over, or
   * of what several nodes spend. Promises what `reserve` does. Calls `free` right before the money is
   * taken here: nobody else takes what that gives back. Null while they are kept here.
   */
  reserveElsewhere:
    | ((...of: [...Parameters<Ledger['reserve']>, free?: () => void]) => Hold | Promise<Hold>)
    | null
  /** Lists what is set aside. */
  listHolds(): Hold[]
  /**
   * Sets money aside in all accounts of the payer, or in none. It takes the estimated maximum, or else
   * half of what each bound has left, and at least the minimum. The amount of a way that cannot be
   * paid becomes null. If neither can, throws 402 with the message of the first bound that refused.
   * Throws a RangeError for a negative estimate.
   */
  reserve(payer: Payer, estimate: CostEstimate, bounds: Bound[]): Hold
  /** Returns what `reserve` would set aside, or throws what it would throw, and changes nothing. */
  computeGrant(estimate: CostEstimate, bounds: Bound[]): Amounts
  /**
   * Returns what a bound has left after spending and holds. Below 0 if more was spent than it now
   * allows.
   */
  getRemaining(bound: Limit): bigint
  /**
   * Reads what subaccounts have spent, unless that is known, and keeps it known until what is
   * returned is called: once what is charged to them meanwhile is on record. Before that none of
   * them bounds a call. Of those that nobody uses, the last 10,000 stay known.
   */
  openSubaccounts(accounts: Subaccount[]): Promise<() => void>
  /** Lists the subaccounts that are known. */
  listSubaccounts(): Subaccount[]
  /** Returns a place among those that wait for money of an account to be given back. */
  queue(account: Account): MoneyPlace
  /** Turns a hold into spending. A hold settles once; settling it again changes nothing. */
  settle(hold: Hold, charge: Charge): void
  /** Returns a hold unspent. */
  release(hold: Hold): void
  /** Counts spending that had no hold in this process. */
  charge(charge: Charge): void
  /** Counts the openings that were written since, by whichever process. */
  catchUp(): Promise<void>
  /** Returns the spending in the current window, or of all time when `period` is null. */
  getSpent(account: Account, period: Period | null, byok: boolean): bigint
  /**
   * Returns what is set aside at this moment. With `byok`, calls through callers' own provider keys
   * count too.
   */
  getHeld(account: Account, byok: boolean): bigint
}

/** A place among those that wait for money of one account, in the order in which they came. */
export interface MoneyPlace {
  /** Resolves when money was given back, once this place is the first one. */
  freed(): Promise<void>
  /** Leaves the place to the next. */
  leave(): void
}

/** How many days are kept: the longest window is a month, and older days are only in the total. */
export const DAYS_KEPT = 31

/** Creates the ledger from everything that the store has. Several nodes spend what they lease. */
export async function openLedger(
  store: LedgerStore,
  clock: Clock,
  openLeases?: (books: HeldBooks) => Leases,
): Promise<Ledger> {
  const books = new Books()
  const openHolds = new LiveSet<Hold>()
  const waiting = new Map<Account, Waiter[]>()
  // Read first: one that is written meanwhile is counted twice rather than never.
  let lastOpening = (await store.listOpenings(0)).at(-1)?.seq ?? 0

  const getHeld: Ledger['getHeld'] = (account, byok) => {
    const book = books.find(account)
    return book ? getHeldAmount(book, byok) : 0n
  }
  const leases =
    openLeases?.({ getHeld, listAccounts, charge: spending => charge(spending) }) ?? null
  const since = toDayNumber(clock.now()) - DAYS_KEPT
  const { totals, days } = leases
    ? await leases.readSpending(since)
    : { totals: await store.listTotals(), days: await store.listDays(since) }
  for (const total of totals)
    for (const book of books.findForPayer(total))
      book[toSpendingKey(total.byok)].total += total.nanos
  for (const spending of days)
    for (const book of books.findForPayer(spending))
      addDay(book[toSpendingKey(spending.byok)], spending.day, spending.nanos)

  const getRemaining = ({ account, period, limit, byok }: Limit): bigint => {
    const left = leases?.findLeft({ account, byok })
    if (left != null) return left
    const book = books.find(account)
    return book
      ? limit - sumBookSpending(book, period, byok, clock) - getHeldAmount(book, byok)
      : limit
  }

  const getAvailable = leases ? (bound: Bound) => leases.getAvailable(bound) : getRemaining

  const computeGrant = (estimate: CostEstimate, bounds: Bound[]): Amounts =>
    bounds.length === 0 ? estimate.maximum : limitAmounts(estimate, bounds, getRemaining)

  function charge(spending: Charge): void {
    const { day, nanos } = spending
    const key = toSpendingKey(spending.byok)
    for (const { [key]: spent } of books.findForPayer(spending, true)) {
      spent.total += nanos
      addDay(spent, day, nanos)
    }
  }

  function release(hold: Hold): boolean {
    if (!hold.isOpen) return false
    hold.isOpen = false
    hold.leave?.()
    subtractHold(books.findForPayer(hold.payer), hold.amounts)
    if (hold.payer.subaccounts) for (const account of hold.payer.subaccounts) books.rest(account)
    if (waiting.size > 0) for (const account of listAccounts(hold.payer)) wakeFirst(account)
    return true
  }

  const wakeFirst = (account: Account): void => waiting.get(account)?.[0]?.wake()

  function queue(account: Account): MoneyPlace {
    const waiter = new Waiter()
    const places = waiting.get(account) ?? []
    waiting.set(account, places)
    places.push(waiter)
    return {
      freed: () => waiter.freed(),
      leave() {
        places.splice(places.indexOf(waiter), 1)
        if (places.length === 0) waiting.delete(account)
        wakeFirst(account)
      },
    }
  }

  async function openSubaccounts(accounts: Subaccount[]): Promise<() => void> {
    for (const account of accounts) books.use(account)
    let isOpen = true
    const close = () => {
      if (!isOpen) return
      isOpen = false
      for (const account of accounts) books.leave(account)
    }
    const since = toDayNumber(clock.now()) - DAYS_KEPT
    try {
      const unknown = accounts.filter(account => !books.isRead(account))
      const old = leases ? books.listOld(accounts, clock.ticks()) : []
      if (old.length > 0) {
        const reading = store.listSubaccountDays(old, since).catch(() => null)
        // What is known is better than nothing.
        const fresh = await Promise.race([reading, Bun.sleep(LONGEST)])
        if (fresh) books.replace(old, fresh)
      }
      if (unknown.length > 0) books.add(unknown, await store.listSubaccountDays(unknown, since))
      return close
    } catch (cause) {
      close()
      throw unavailable('The budget of the call could not be read', undefined, cause)
    }
  }

  function reserve(payer: Payer, estimate: CostEstimate, bounds: Bound[]): Hold {
    requireNonNegative(estimate)
    const amounts =
      bounds.length === 0 ? estimate.maximum : limitAmounts(estimate, bounds, getAvailable)
    const hold: Hold = { payer, amounts, isOpen: true }
    hold.leave = openHolds.add(hold)
    addHold(books.findForPayer(payer), hold.amounts)
    return hold
  }

  return {
    leases,
    reserveElsewhere:
      leases &&
      ((payer, estimate, bounds, free) =>
        leases.cover(estimate, bounds, () => {
          free?.()
          return reserve(payer, estimate, bounds)
        })),
    listHolds: () => [...openHolds],
    reserve,
    computeGrant,
    getRemaining,
    openSubaccounts,
    listSubaccounts: () => books.listSubaccounts(),
    queue,
    settle(hold, charged) {
      if (!release(hold)) return
      if (leases) charged.leased = leases.spend(charged)
      charge(charged)
    },
    release: hold => void release(hold),
    charge,
    async catchUp() {
      for (const { seq, ...opening } of await store.listOpenings(lastOpening)) {
        if (seq <= lastOpening) continue
        lastOpening = seq
        charge(opening)
      }
    },
    getSpent(account, period, byok) {
      const book = books.find(account)
      return book ? sumSpending(book[toSpendingKey(byok)], period, clock) : 0n
    },
    getHeld,
  }
}

// A negative hold would be credit for everyone who pays from the same accounts.
function requireNonNegative({ maximum, minimum }: CostEstimate): void {
  for (const nanos of [maximum.own, maximum.byok, minimum.own, minimum.byok])
    if (nanos !== null && nanos < 0n) throw new RangeError('A hold is never negative')
}

const toSpendingKey = (byok: boolean): 'own' | 'byok' => (byok ? 'byok' : 'own')

/**
 * Returns what every bound allows, each way for itself. The amount of a way that cannot be paid is
 * null. Throws 402 where neither can be paid.
 */
function limitAmounts(
  { maximum, minimum }: CostEstimate,
  bounds: Bound[],
  getRemaining: (bound: Bound) => bigint,
): Amounts {
  const amounts = { ...maximum }
  let firstRefusal: Bound | undefined
  for (const bound of bounds) {
    const available = getRemaining(bound)
    const before = { ...amounts }
    amounts.own = capAmount(amounts.own, minimum.own, available)
    if (bound.byok) amounts.byok = capAmount(amounts.byok, minimum.byok, available)
    if (amounts.own === null && before.own !== null) firstRefusal ??= bound
    if (amounts.byok === null && before.byok !== null) firstRefusal ??= bound
  }
  if (firstRefusal && amounts.own === null && amounts.byok === null)
    throw new GatewayError('payment_required', firstRefusal.message)
  return amounts
}

// Half of what is left stays for calls beside this one, if it can do with that.
function capAmount(
  maximum: bigint | null,
  minimum: bigint | null,
  available: bigint,
): bigint | null {
  if (maximum === null || minimum === null || minimum > available) return null
  const half = available / 2n
  const most = half > minimum ? half : minimum
  return maximum < most ? maximum : most
}

/** The spending of one account: all time, and each day that a window may still include. */
interface Spending {
  total: bigint
  days: Map<number, bigint>
  /** The last computed sum of each window, so that reading it again adds nothing up. */
  windows: { [P in Period]?: { first: number; nanos: bigint } }
}

interface Book {
  own: Spending
  byok: Spending
  /**
   * Set aside through the gateway's own credentials, and through either way, whichever costs more.
   */
  heldOwn: bigint
  heldAny: bigint
  /** Set while only what is held of a subaccount is known, and not what it has spent. */
  isUnread?: true
  /** When a subaccount was read last, where several nodes spend. */
  readAt?: number
}

/** Who waits for money. What is freed while nobody listens is told to the next who does. */
class Waiter {
  #isFreed = false
  #resolve: (() => void) | null = null

  wake(): void {
    this.#isFreed = true
    this.#resolve?.()
  }

  async freed(): Promise<void> {
    if (!this.#isFreed) await new Promise<void>(resolve => (this.#resolve = resolve))
    this.#isFreed = false
    this.#resolve = null
  }
}

/** Lists the accounts that a payer's calls are counted in. */
const listAccounts = ({
  key_hash,
  user_id,
  workspace_id,
  subaccounts = NO_SUBACCOUNTS,
}: Payer): Account[] => [
  ...([`key ${key_hash}`, `member ${user_id}`, `workspace ${workspace_id}`, 'all'] as const),
  ...subaccounts,
]

const NO_SUBACCOUNTS: Subaccount[] = []

/** In milliseconds: how long what others have spent of a subaccount may be unknown. */
const FRESH = 1_000
/** In milliseconds: how long a call waits to hear of it. */
const LONGEST = 500

/** How many subaccounts stay known that nobody uses: about a kilobyte each. */
const MOST_IDLE = 10_000

/** Every account that ever spent anything, and the subaccounts that were used last. */
class Books {
  readonly #books = new Map<Account, Book>()
  /** How many use a subaccount, and those that nobody uses: the one that was used last at the end. */
  readonly #users = new Map<Subaccount, number>()
  readonly #idle = new Set<Subaccount>()
  /** The books that the calls of a key are counted in. */
  readonly #payers = new Map<string, Book[]>()

  find(account: Account): Book | undefined {
    return this.#books.get(account)
  }

  /**
   * Finds the books that a payer's calls are counted in; to charge them, without those of subaccounts
   * that are not read: they will be.
   */
  findForPayer(payer: Payer, toCharge = false): Book[] {
    const { key_hash, subaccounts } = payer
    const books = this.#payers.get(key_hash) ?? this.#createForPayer(payer)
    return subaccounts ? [...books, ...this.#getParts(subaccounts, toCharge)] : books
  }

  #getParts(accounts: Subaccount[], areRead: boolean): Book[] {
    return accounts
      .filter(account => !areRead || this.isRead(account))
      .map(account => this.#getPart(account))
  }

  listSubaccounts(): Subaccount[] {
    return [...this.#users.keys(), ...this.#idle].filter(account => this.isRead(account))
  }

  /** Whether it is known what a subaccount has spent. */
  isRead(account: Subaccount): boolean {
    const book = this.#books.get(account)
    return book !== undefined && !book.isUnread
  }

  /** Keeps a subaccount, known or not, until all who use it have left it. */
  use(account: Subaccount): void {
    this.#users.set(account, (this.#users.get(account) ?? 0) + 1)
    this.#idle.delete(account)
  }

  leave(account: Subaccount): void {
    const users = (this.#users.get(account) ?? 0) - 1
    if (users > 0) this.#users.set(account, users)
    else this.#users.delete(account)
    this.rest(account)
  }

  /** Forgets a subaccount that nobody uses: once many others were used since, if it was read. */
  rest(account: Subaccount): void {
    const book = this.#books.get(account)
    const isHeld = book && (book.heldOwn > 0n || book.heldAny > 0n)
    if (!book || isHeld || this.#users.has(account)) return
    if (book.isUnread) {
      this.#books.delete(account)
      return
    }
    this.#idle.add(account)
    const [oldest] = this.#idle
    if (oldest === undefined || this.#idle.size <= MOST_IDLE) return
    this.#idle.delete(oldest)
    this.#books.delete(oldest)
  }

  /** Adds what was read of subaccounts that nobody has added meanwhile. */
  add(accounts: Subaccount[], days: SubaccountSpend[]): void {
    const added = new Set(accounts.filter(account => !this.isRead(account)))
    for (const account of added) delete this.#getPart(account).isUnread
    for (const { account, byok, day, nanos } of days)
      if (added.has(account)) addDay(this.#getPart(account)[toSpendingKey(byok)], day, nanos)
  }

  /** Lists those of which others may have spent since they were read, and notes that they are read. */
  listOld(accounts: Subaccount[], now: number): Subaccount[] {
    return accounts.filter(account => {
      const book = this.#books.get(account)
      if (!book || book.isUnread) return false
      const isOld = now - (book.readAt ?? Number.NEGATIVE_INFINITY) > FRESH
      if (isOld) book.readAt = now
      return isOld
    })
  }

  /** Forgets what is known of subaccounts for what was read of them. */
  replace(accounts: Subaccount[], days: SubaccountSpend[]): void {
    for (const account of accounts)
      Object.assign(this.#getPart(account), { own: createSpending(), byok: createSpending() })
    for (const { account, byok, day, nanos } of days)
      addDay(this.#getPart(account)[toSpendingKey(byok)], day, nanos)
  }

  #getPart(account: Subaccount): Book {
    const known = this.#books.get(account)
    if (known) return known
    const book = this.#getOrCreate(account)
    book.isUnread = true
    return book
  }

  #createForPayer({ key_hash, user_id, workspace_id }: Payer): Book[] {
    const accounts = listAccounts({ key_hash, user_id, workspace_id })
    const books = accounts.map(account => this.#getOrCreate(account))
    this.#payers.set(key_hash, books)
    return books
  }

  #getOrCreate(account: Account): Book {
    const known = this.#books.get(account)
    if (known) return known
    const book: Book = { own: createSpending(), byok: createSpending(), heldOwn: 0n, heldAny: 0n }
    this.#books.set(account, book)
    return book
  }
}

const createSpending = (): Spending => ({ total: 0n, days: new Map(), windows: {} })

function addHold(books: Book[], { own, byok }: Amounts): void {
  const any = pickLarger(own ?? 0n, byok ?? 0n)
  for (const book of books) {
    if (own !== null) book.heldOwn += own
    book.heldAny += any
  }
}

function subtractHold(books: Book[], { own, byok }: Amounts): void {
  const any = pickLarger(own ?? 0n, byok ?? 0n)
  for (const book of books) {
    if (own !== null) book.heldOwn -= own
    book.heldAny -= any
  }
}

const getHeldAmount = ({ heldOwn, heldAny }: Book, byok: boolean): bigint =>
  byok ? heldAny : heldOwn

function sumBookSpending(book: Book, period: Period | null, byok: boolean, clock: Clock): bigint {
  const own = sumSpending(book.own, period, clock)
  return byok ? own + sumSpending(book.byok, period, clock) : own
}

function sumSpending(spending: Spending, period: Period | null, clock: Clock): bigint {
  if (period === null) return spending.total
  const first = computeFirstDay(period, clock.now())
  const cached = spending.windows[period]
  if (cached?.first === first) return cached.nanos
  const nanos = sumDays(spending, first)
  spending.windows[period] = { first, nanos }
  return nanos
}

// Future days count too: setting the clock back frees no money.
function sumDays({ days }: Spending, first: number): bigint {
  let sum = 0n
  for (const [day, nanos] of days) if (day >= first) sum += nanos
  return sum
}

function addDay({ days, windows }: Spending, day: number, nanos: bigint): void {
  days.set(day, (days.get(day) ?? 0n) + nanos)
  for (const period of PERIODS) {
    const window = windows[period]
    if (window && day >= window.first) window.nanos += nanos
  }
  // Drops the oldest day rather than all before some date: after a clock that ran ahead, the days
  // in between are still needed.
  if (days.size > 2 * DAYS_KEPT) days.delete(Math.min(...days.keys()))
}
