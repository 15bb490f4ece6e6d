import { awaitWithin, type Period } from '../base/clock.ts'
import { unavailable } from '../base/errors.ts'
import { pickLarger } from '../base/money.ts'
import type {
  Account,
  AllSpending,
  Amounts,
  Bound,
  Charge,
  CostEstimate,
  HeldBooks,
  HeldCall,
  Leases,
  Meter,
} from './ledger.ts'

const nameMeter = ({ account, byok }: Pick<Bound, 'account' | 'byok'>): Meter =>
  `${byok ? 'any' : 'own'} ${account}`

/** Lists the meters that count what is paid one way from these accounts. */
export const listMeters = (accounts: Account[], byok: boolean): Meter[] =>
  accounts.flatMap(account =>
    byok
      ? nameMeter({ account, byok })
      : [nameMeter({ account, byok }), nameMeter({ account, byok: true })],
  )

/** What a node gives back of a meter, and what it wants to be lent. Nano-dollars. */
export interface LeaseRequest {
  meter: Meter
  /** The limits that hold for it, by window: '' is all time. */
  limits: Map<Period | '', bigint>
  returned: bigint
  /** Less is of little use. 0: nothing is wanted. */
  least: bigint
  /** More than the least, where there is plenty. */
  wanted: bigint
}

/** What a node was lent of a meter. Nano-dollars. */
export interface Lent {
  meter: Meter
  amount: bigint
  /** What is left of its limits for all nodes. Below 0 if more is used than they now allow. */
  left: bigint
  /** Whether other nodes may give some back: where it was too little, they are asked. */
  isElsewhere: boolean
}

/** What several nodes spend from: limits less what was spent and what is on lease. */
export interface LeaseStore {
  /**
   * Null: what this node has on lease is its own. Else resolves once that is known, as after a pause
   * in which it may have been forgotten. Throws 503.
   */
  confirm(): Promise<void> | null
  /**
   * Takes back and lends, in one transaction, and notes the answer under a number. Ends with the
   * transaction, however long that takes. Throws where it is not known whether it was done:
   * `findAnswer` finds out.
   */
  exchange(number: number, requests: LeaseRequest[]): Promise<Lent[]>
  /** Returns what `exchange` has answered under a number; null: it was not done. */
  findAnswer(number: number): Promise<Lent[] | null>
  /** Notes which calls run here, for whoever settles them where this node does not come back. */
  noteRunning(calls: HeldCall[]): Promise<void>
  /** Lists what other nodes want of what this one has. */
  listWanted(): Promise<Meter[]>
  /** Takes back all that an earlier process of this node has had. */
  takeBackAll(): Promise<void>
  /** Reads all spending at one moment, and the row of the ledger where it ends. */
  readSpending(since: number): Promise<AllSpending>
  /** Lists what other nodes have charged after a row, and the row where that ends. */
  listOthers(after: number): Promise<{ charges: Charge[]; last: number }>
}

interface Lease {
  account: Account
  byok: boolean
  /** What this node may still spend and hold. Below 0 where calls have cost more than was lent. */
  amount: bigint
  /** Whether the store has answered: before that a charge is taken from nothing that was lent. */
  isLent: boolean
  limits: LeaseRequest['limits']
  left: bigint
  isElsewhere: boolean
  /** When it was last needed, and the most that was needed at once lately. */
  usedAt: number
  largest: bigint
  /** What was spent since a moment, and in a second of the time before. */
  spent: bigint
  since: number
  rate: bigint
  /** Until when no more than this is asked for: there was not as much. */
  emptyUntil: number
  refused: bigint
}

/** An exchange on its way. */
interface Exchange {
  number: number
  requests: LeaseRequest[]
  ended: Promise<Lent[]>
}

/** What callers want of a meter with the next exchange. */
interface Asked extends Pick<LeaseRequest, 'limits' | 'least' | 'wanted'> {
  isStale: boolean
}

/** In milliseconds, between two looks at what is not needed, and at what others have spent. */
const BEAT = 1_000
/** In milliseconds: what was not used for so long is given back. */
const REST = 10_000
/** In milliseconds: how long others are waited for that have what a call needs, and between looks. */
const PATIENCE = 2_500
const PAUSE = 50
/** In milliseconds: in less time nothing can be told of how fast money is spent. */
const SHORTEST = 100
/** In milliseconds: how long what came of an exchange is waited for at once. */
const ANSWER = 2_000
/** In milliseconds: how long an account is known to be empty. */
const EMPTY = 250

/**
 * The money that this node may spend of accounts that have limits: no call asks the store as long as
 * what is in hand covers it twice. What is lent is taken from the limit before it is spent, so that
 * nodes together never pass one, whatever ends. It is given back when it is not needed.
 */
export class NodeLeases implements Leases {
  readonly #store: LeaseStore
  readonly #books: HeldBooks
  readonly #ticks: () => number
  readonly #leases = new Map<Meter, Lease>()
  #asked = new Map<Meter, Asked>()
  /** The exchange that takes what is asked, and the end of all before. */
  #next: Promise<void> | null = null
  #before: Promise<void> = Promise.resolve()
  #number = 0
  /** The exchange of which it is not known yet what came of it: none begins before that is. */
  #open: Exchange | null = null
  #last = 0
  #timer: ReturnType<typeof setInterval> | undefined
  #isBeating = false
  /** Whether the store knows that no call runs. */
  #isIdle = true

  constructor(store: LeaseStore, books: HeldBooks, ticks: () => number) {
    this.#store = store
    this.#books = books
    this.#ticks = ticks
  }

  async readSpending(since: number): Promise<AllSpending> {
    const spending = await this.#store.readSpending(since)
    this.#last = spending.last
    return spending
  }

  async begin(): Promise<void> {
    await this.#store.takeBackAll()
    this.#timer = setInterval(() => void this.beat(), BEAT)
    this.#timer.unref()
  }

  async end(): Promise<void> {
    clearInterval(this.#timer)
    const giveBack = () => this.#exchange(lease => this.#getFree(lease))
    // Once more where it was not heard, which finds out first.
    await giveBack()
      .catch(giveBack)
      .catch(() => undefined)
  }

  getAvailable({ account, byok }: Pick<Bound, 'account' | 'byok'>): bigint {
    const amount = this.#leases.get(nameMeter({ account, byok }))?.amount ?? 0n
    return amount - this.#books.getHeld(account, byok)
  }

  findLeft(bound: Pick<Bound, 'account' | 'byok'>): bigint | null {
    const lease = this.#leases.get(nameMeter(bound))
    return lease && this.#ticks() < lease.emptyUntil ? lease.left + this.getAvailable(bound) : null
  }

  spend({ byok, nanos, ...payer }: Charge): Meter[] {
    if (this.#leases.size === 0 || nanos === 0n) return []
    const meters = listMeters(this.#books.listAccounts(payer), byok)
    return meters.filter(meter => {
      const lease = this.#leases.get(meter)
      if (!lease?.isLent) return false
      lease.amount -= nanos
      lease.spent += nanos
      return true
    })
  }

  async noteRunning(calls: { held: HeldCall; spent: bigint }[]): Promise<void> {
    const isIdle = calls.length === 0
    if (isIdle && this.#isIdle) return
    this.#isIdle = false
    await this.#store.noteRunning(calls.map(({ held, spent }) => ({ ...held, spent }))).then(
      () => {
        this.#isIdle = isIdle
      },
      () => undefined,
    )
  }

  noteEarlier(charge: Charge): void {
    charge.leased = listMeters(this.#books.listAccounts(charge), charge.byok)
  }

  cover<Taken>(estimate: CostEstimate, bounds: Bound[], take: () => Taken): Taken | Promise<Taken> {
    for (const bound of bounds)
      if (!this.#covers(bound, estimate.maximum)) return this.#coverLater(estimate, bounds, take)
    // Nothing else happens between the two, nor before money is taken.
    const doubt = bounds.length > 0 ? this.#store.confirm() : null
    return doubt ? doubt.then(() => this.cover(estimate, bounds, take)) : take()
  }

  async #coverLater<Taken>(
    { maximum, minimum }: CostEstimate,
    bounds: Bound[],
    take: () => Taken,
  ): Promise<Taken> {
    const takeOwn = (): Taken | Promise<Taken> => {
      const doubt = this.#store.confirm()
      return doubt ? doubt.then(() => this.cover({ maximum, minimum }, bounds, take)) : take()
    }
    const until = this.#ticks() + PATIENCE
    for (let pause = PAUSE; ; pause *= 2) {
      const short = bounds.filter(bound => !this.#covers(bound, maximum))
      if (short.length === 0) return takeOwn()
      const lacking = short.filter(bound => this.getAvailable(bound) < getNeed(bound, minimum))
      if (lacking.some(bound => this.#isEmpty(bound, minimum))) return takeOwn()
      try {
        await this.#ask(bounds, short, maximum)
      } catch (thrown) {
        if (lacking.length === 0) return takeOwn()
        throw thrown
      }
      const missing = bounds.filter(bound => this.getAvailable(bound) < getNeed(bound, minimum))
      if (missing.length === 0) return takeOwn()
      const gone = missing.filter(bound => this.#isUsedUp(bound, minimum))
      // Callers of the same moment were faster, and there is more.
      if (gone.length === 0 && this.#ticks() < until) continue
      if (this.#ticks() >= until || gone.some(bound => !this.#isElsewhere(bound))) {
        for (const bound of gone) this.#noteEmpty(bound, minimum)
        return takeOwn()
      }
      await Bun.sleep(pause)
    }
  }

  async beat(): Promise<void> {
    if (this.#isBeating) return
    this.#isBeating = true
    try {
      await this.#follow()
      const wanted = new Set(await this.#store.listWanted())
      for (const lease of this.#leases.values()) this.#measure(lease)
      await this.#exchange((lease, meter) => this.#findUnneeded(lease, wanted.has(meter)), wanted)
      for (const [meter, lease] of this.#leases) if (this.#isOver(lease)) this.#leases.delete(meter)
    } catch {
      // The store is away: what is in hand stays there.
    } finally {
      this.#isBeating = false
    }
  }

  /** Counts what other nodes have charged. */
  async #follow(): Promise<void> {
    const { charges, last } = await this.#store.listOthers(this.#last)
    this.#last = last
    for (const charge of charges) this.#books.charge(charge)
  }

  #getFree({ amount, account, byok }: Lease): bigint {
    const free = amount - this.#books.getHeld(account, byok)
    return free > 0n ? free : 0n
  }

  #findUnneeded(lease: Lease, isWanted: boolean): bigint {
    const free = this.#getFree(lease)
    if (isWanted || lease.usedAt + REST < this.#ticks()) return free
    const kept = pickLarger(2n * lease.rate, 4n * lease.largest)
    return free > 2n * kept ? free - kept : 0n
  }

  #measure(lease: Lease): void {
    const elapsed = Math.max(SHORTEST, this.#ticks() - lease.since)
    lease.rate = (lease.rate + (lease.spent * 1_000n) / BigInt(Math.ceil(elapsed))) / 2n
    lease.spent = 0n
    lease.since = this.#ticks()
    lease.largest /= 2n
  }

  #isOver({ amount, account, byok, usedAt }: Lease): boolean {
    const isHeld = this.#books.getHeld(account, byok) > 0n
    return amount === 0n && !isHeld && usedAt + REST < this.#ticks()
  }

  /** Whether a bound pays for so much and as much again, by the limits that were asked for last. */
  #covers(bound: Bound, amounts: Amounts): boolean {
    const need = getNeed(bound, amounts)
    // What costs nothing asks only where calls have cost more than was lent.
    if (need === 0n && (!isPaid(bound, amounts) || this.getAvailable(bound) >= 0n)) return true
    const lease = this.#leases.get(nameMeter(bound))
    if (!lease || isStale(lease, bound)) return false
    lease.usedAt = this.#ticks()
    if (need > lease.largest) lease.largest = need
    return this.getAvailable(bound) >= 2n * need
  }

  #isEmpty(bound: Bound, minimum: Amounts): boolean {
    const lease = this.#leases.get(nameMeter(bound))
    if (!lease || isStale(lease, bound)) return false
    return this.#ticks() < lease.emptyUntil && getNeed(bound, minimum) >= lease.refused
  }

  /** Whether all nodes together have not left what a call needs at least. */
  #isUsedUp(bound: Bound, minimum: Amounts): boolean {
    const left = this.#leases.get(nameMeter(bound))?.left ?? 0n
    return this.getAvailable(bound) + left < getNeed(bound, minimum)
  }

  #isElsewhere = (bound: Bound): boolean => this.#leases.get(nameMeter(bound))?.isElsewhere === true

  #noteEmpty(bound: Bound, minimum: Amounts): void {
    const lease = this.#leases.get(nameMeter(bound))
    if (!lease) return
    lease.emptyUntil = this.#ticks() + EMPTY
    lease.refused = getNeed(bound, minimum)
  }

  /** Asks for what bounds lack; all of them have the limits that hold for their meters. */
  #ask(bounds: Bound[], short: Bound[], maximum: Amounts): Promise<void> {
    for (const bound of short) {
      const meter = nameMeter(bound)
      const lease = this.#leases.get(meter) ?? this.#begin(meter, bound)
      const need = getNeed(bound, maximum)
      lease.usedAt = this.#ticks()
      if (need > lease.largest) lease.largest = need
      const known = this.#asked.get(meter)
      const least = 2n * need - this.getAvailable(bound)
      this.#asked.set(meter, {
        limits: listLimits(bounds, meter, known?.limits),
        isStale: known?.isStale === true || isStale(lease, bound),
        least: pickLarger(known?.least ?? 0n, least),
        wanted: known ? known.wanted + 2n * need : this.#findWanted(lease, need),
      })
    }
    return this.#exchange()
  }

  /** Finds what lasts for two seconds, as far as can be told, and for a few calls at least. */
  #findWanted(lease: Lease, need: bigint): bigint {
    const elapsed = Math.max(SHORTEST, this.#ticks() - lease.since)
    const rate = (lease.spent * 1_000n) / BigInt(Math.ceil(elapsed))
    return pickLarger(2n * pickLarger(rate, lease.rate), 4n * need)
  }

  #begin(meter: Meter, { account, byok }: Bound): Lease {
    const lease: Lease = {
      ...{ account, byok, amount: 0n, isLent: false, limits: new Map(), left: 0n },
      ...{ usedAt: this.#ticks(), largest: 0n, spent: 0n, since: this.#ticks(), rate: 0n },
      ...{ isElsewhere: false, emptyUntil: 0, refused: 0n },
    }
    this.#leases.set(meter, lease)
    return lease
  }

  /** Makes the next exchange, with all that is asked until it begins. Those before have ended then. */
  #exchange(
    findReturned?: (lease: Lease, meter: Meter) => bigint,
    answered: ReadonlySet<Meter> = NONE,
  ): Promise<void> {
    if (!findReturned && this.#next) return this.#next
    const exchange = this.#before.then(() => {
      if (this.#next === exchange) this.#next = null
      return this.#send(findReturned ?? keepAll, answered)
    })
    this.#next = exchange
    this.#before = exchange.catch(() => undefined)
    return exchange
  }

  async #send(
    findReturned: (lease: Lease, meter: Meter) => bigint,
    answered: ReadonlySet<Meter>,
  ): Promise<void> {
    const asked = this.#asked
    this.#asked = new Map()
    await this.#settle()
    const requests: LeaseRequest[] = []
    for (const [meter, lease] of this.#leases) {
      const wish = asked.get(meter)
      const returned = wish?.isStale ? this.#getFree(lease) : wish ? 0n : findReturned(lease, meter)
      if (!wish && returned === 0n && !answered.has(meter)) continue
      const { limits, least, wanted } = wish ?? NOTHING
      const needed = wish?.isStale ? least + returned : least
      requests.push({ meter, limits, returned, least: pickLarger(needed, 0n), wanted })
      lease.amount -= returned
      if (wish) lease.limits = limits
    }
    // Of what is not in hand, others wait for an answer too.
    for (const meter of answered)
      if (!this.#leases.has(meter)) requests.push({ meter, returned: 0n, ...NOTHING })
    if (requests.length === 0) return
    const number = ++this.#number
    this.#open = { number, requests, ended: this.#store.exchange(number, requests) }
    const fault = await this.#settle()
    if (fault) throw fault.thrown
  }

  /**
   * Finds out what came of the last exchange. Returns why it was not done, or null; throws 503 where
   * that is not known in time.
   */
  async #settle(): Promise<{ thrown: unknown } | null> {
    if (!this.#open) return null
    const { number, requests, ended } = this.#open
    let fault: { thrown: unknown } | null = null
    const heard = ended.catch((thrown: unknown) => {
      fault = { thrown }
      return this.#store.findAnswer(number)
    })
    const lent = await awaitShortly(heard)
    this.#open = null
    if (!lent) this.#takeAgain(requests)
    else this.#keep(lent)
    return lent ? null : fault
  }

  /** What was given back is in hand again: nobody has taken it. */
  #takeAgain(requests: LeaseRequest[]): void {
    for (const { meter, returned } of requests) {
      const lease = this.#leases.get(meter)
      if (lease) lease.amount += returned
    }
  }

  #keep(lent: Lent[]): void {
    for (const { meter, amount, left, isElsewhere } of lent) {
      const lease = this.#leases.get(meter)
      if (!lease) continue
      lease.amount += amount
      Object.assign(lease, { isLent: true, left, isElsewhere })
    }
  }
}

const awaitShortly = <Value>(promise: Promise<Value>): Promise<Value> =>
  awaitWithin(ANSWER, promise, () => unavailable('The database does not answer'))

const keepAll = () => 0n
const NONE: ReadonlySet<Meter> = new Set()
const NOTHING: Asked = { limits: new Map(), least: 0n, wanted: 0n, isStale: false }

/** What a call of this cost takes of a bound. */
const getNeed = ({ byok: counts }: Pick<Bound, 'byok'>, { own, byok }: Amounts): bigint =>
  counts ? pickLarger(own ?? 0n, byok ?? 0n) : (own ?? 0n)

/** Whether a call takes of a bound at all: what cannot be paid that way does not. */
const isPaid = ({ byok: counts }: Pick<Bound, 'byok'>, { own, byok }: Amounts): boolean =>
  own !== null || (counts && byok !== null)

/** Whether a lease was lent by other rules: a window had no limit, or a higher one. */
function isStale({ limits }: Lease, { period, limit }: Bound): boolean {
  const known = limits.get(period ?? '')
  return known === undefined || limit < known
}

/** The lowest limit of each window of a meter, also of those that others ask by. */
function listLimits(
  bounds: Bound[],
  meter: Meter,
  others?: LeaseRequest['limits'],
): LeaseRequest['limits'] {
  const limits: LeaseRequest['limits'] = new Map(others)
  for (const bound of bounds) {
    if (nameMeter(bound) !== meter) continue
    const window = bound.period ?? ''
    const known = limits.get(window)
    if (known === undefined || bound.limit < known) limits.set(window, bound.limit)
  }
  return limits
}
