import type { Cancellation } from '../base/cancellation.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../config.ts'
import type { CallBase } from '../language/call.ts'
import { findRouter } from '../language/routing.ts'
import type { Actor } from '../resources/actor.ts'
import { FREE_VARIANT } from '../resources/models/derived.ts'
import type { Bound, Charge, CostEstimate, Hold, Ledger, Payer } from './ledger.ts'
import {
  coverLimits,
  halveCount,
  type Limit,
  openRates,
  type Rates,
  RETRY_HINT,
  rateLimitExceeded,
  type TokenHold,
} from './rates.ts'

/** The books that money is taken from. */
type Books = Pick<Ledger, 'reserve' | 'reserveElsewhere' | 'settle' | 'release'>

/** Whose calls are counted: null for the operator, who has no key. */
type Claimant = Pick<Actor, 'key_hash'>

/** What a call, or one turn of it, wants of the counters: it gets all of it, or nothing. */
interface Claim {
  actor: Claimant
  call: Pick<CallBase, 'models'>
  /** A line of a batch gets half of each limit, and never less than 1. */
  isInBatch?: boolean
  /** Whether a request counts: against those per minute, and against those of free models. */
  request?: boolean
  /** Whether it needs one of the places of the calls of its key that run at once. */
  place?: boolean
  money?: MoneyClaim | null
  /** What is given back in the same step, so that nobody else can take it. */
  instead?: Grant | null
  /** What it is added to: the money of a turn whose request and place are taken already. */
  to?: Grant | null
}

/** What is to be set aside, and what bounds it. */
interface MoneyClaim {
  payer: Payer
  estimate: CostEstimate
  bounds: Bound[]
}

/** What was taken. It is given back once. */
export interface Grant {
  readonly key: string
  /** The requests that were counted, by window: those that were not made are given back. */
  requests: Limit[]
  hasPlace: boolean
  /** Null if no money was claimed. */
  hold: Hold | null
  /** The tokens that its turn is expected to take; absent where no guardrail limits them. */
  tokens?: TokenHold
  /** False once it is given back. */
  isOpen: boolean
}

/** What became of a grant. */
interface Used {
  /** What the money became; absent if it was not spent. */
  charge?: Charge
  /** Whether the request was not made. */
  isUnmade?: boolean
  /** The tokens that its turn took; none if absent. */
  tokens?: number
}

/**
 * Counts what calls take from what their key, or all keys, may have: requests of a minute or a day,
 * calls that run at once, and money. Counted in this process, and where others serve from the same
 * database, together with them: what is not in hand is a promise then, and 503 where the database
 * cannot be asked. Nothing goes to a provider without a grant.
 */
export interface Counters {
  /** What is taken of the rates of guardrails. */
  readonly rates: Rates
  /** The clock whose windows these are. */
  readonly clock: Clock
  /**
   * Takes all that is claimed, or nothing. Throws 429 where a limit is reached, with the time at
   * which to try again, and 402 if a bound has not enough left. A promise only while others have to be
   * asked.
   */
  take(claim: Claim): Grant | Promise<Grant>
  /**
   * Takes what is claimed once the key has a place, after those that wait already. Throws as `take`
   * does, but for the place, and the reason of the cancellation.
   */
  takeInTurn(claim: Claim, cancellation: Cancellation): Promise<Grant>
  /** Gives a grant back, with what was used of it. What was given back already stays as it is. */
  give(grant: Grant, used?: Used): void
  /**
   * Counts a reading of a public dataset: by key for the minute, and by all keys together for the
   * day. Throws 429 where a limit is reached, and counts nothing then.
   */
  countReading(actor: Pick<Actor, 'key_hash'>): void | Promise<void>
  /**
   * Counts a request without a key, by the network that it came from. Throws 429 where that has
   * sent as many in this minute as the config allows. At most 10,000 networks are told apart in a
   * minute: all others share one place. This node counts alone while the database cannot be asked.
   */
  countVisit(network: string): void | Promise<void>
  /**
   * Counts a request about files or about those of containers, by key. Throws 429 where the limit is
   * reached, and counts nothing then.
   */
  countFileRequest(actor: Pick<Actor, 'key_hash'>): void | Promise<void>
  /**
   * Counts a request of a management key to what only such may use. Throws 429 where the limit is
   * reached, and counts nothing then. This node counts alone while the database cannot be asked.
   */
  countManagement(actor: Pick<Actor, 'key_hash'>): void | Promise<void>
  /** Throws the 429 that `take` would for a call, and counts nothing. */
  check(actor: Claimant, call: Pick<CallBase, 'models'>): void
  /**
   * Returns how many calls of free models all keys together may make today (midnight to midnight
   * UTC), and how many they have made. Null: unlimited.
   */
  getFreeUsage(): { limit: number; used: number } | null
  /**
   * Applies the limits of another config from the next call on. Existing counts are kept, and a new
   * limit counts from now on. A number as `freeSoFar` replaces the count of today's calls of free
   * models.
   */
  reconfigure(config: Config, freeSoFar: number | null): void
  /** Returns the counts of the current windows, for the process that counts on. */
  exportCounts(): WindowCounts[]
  /** Takes the counts of another process over. */
  importCounts(windows: WindowCounts[]): void
  /** Returns how many calls of each key run here. */
  exportRunning(): Map<string, number>
  /** Counts these calls too: they run in another process, which takes their ends back from them. */
  importRunning(running: Map<string, number>): void
  /** Has all that is counted here told to another process; null: to none any more. */
  share(tell: ((count: SharedCount) => void) | null): void
  /** Counts what another process tells. */
  takeCount(count: SharedCount): void
}

/** Keeps how many calls of free models a day has seen, over restarts. */
export interface FreeCalls {
  /** Returns the count of a day, which is numbered from 1970; 0 if another day was noted last. */
  read(day: number): number
  /** Notes a count, before the call that it counts goes out. */
  note(day: number, count: number): void
}

/** One more or less in a window, or of the calls that run. */
export interface SharedCount {
  /** The number of the window; null for the calls that run. */
  window: number | null
  name: string
  by: number
}

/** What is counted by name in one window. */
export interface WindowCounts {
  number: number
  counts: Map<string, number>
}

/** What the nodes of one database count together. */
export interface SharedCounts {
  /** The clock of the database. */
  clock: Clock
  /** Has what a window counts counted by all nodes, under a name that no version changes. */
  openWindow(name: string, window: CountedWindow): SharedWindow
  /** Has places of calls given by all nodes together. */
  openPlaces(places: CountedPlaces): SharedPlaces
}

/** What a node counts by name: what all nodes have taken but what it has in hand. */
export interface CountedWindow {
  /** In milliseconds. */
  readonly length: number
  readonly number: number
  getCount(name: string): number
  setCount(name: string, count: number): void
}

/** What all nodes count in a window. */
export interface SharedWindow {
  /**
   * Resolves once there may be enough in hand, or it is known that there is not. Null: that is so
   * already. Throws 503 where the database cannot be asked.
   */
  cover(name: string, count: number, maximum: number): Promise<void> | null
  /** Hears of a count. */
  note(name: string): void
  /** Whether others have been asked for it in this window. */
  isShared(name: string): boolean
}

/** The places that calls of a node are in. */
export interface CountedPlaces {
  count(name: string): number
  /** Is told that some may be free. */
  wake(name: string): void
}

/** The places of all nodes. */
export interface SharedPlaces {
  /** Counts those that are taken, as far as this node knows. */
  getUsed(name: string): number
  /** Whether this node has one in hand. */
  isFree(name: string): boolean
  /** As that of a window, for one place. */
  cover(name: string, maximum: number): Promise<void> | null
  /** Hears that a call has left. */
  left(name: string): void
  /** Resolves when it makes sense to ask again. */
  awaitChange(): Promise<void>
}

const MINUTE = 60_000
/** The most networks that are told apart in a minute: some hundred bytes each. */
const MOST_NETWORKS = 10_000
const DAY = 86_400_000

/** Who waits for a place. */
interface Waiter {
  maximum(): number
  resolve(): void
}

/**
 * Creates the counters of this config over the books of the ledger. Windows follow the clock: a
 * minute is a full one, a day begins at midnight UTC. A clock that jumps gives no count back. The
 * counts of a window are dropped soon after it, so that keys which no longer call take no memory.
 * `freeSoFar` is how many calls of free models are on record today; `free` knows of those that are not.
 * With `shared`, the limits are those of all nodes together, and its clock is the one that counts.
 */
export function openCounters(
  config: Config,
  own: Clock,
  ledger: Books,
  freeSoFar = 0,
  { free = FORGETFUL, shared }: { free?: FreeCalls | undefined; shared?: SharedCounts } = {},
): Counters {
  const clock = shared?.clock ?? own
  /** Asks other nodes for what is not in hand; null where there are none. */
  const cover = shared ? coverLimits : null
  let { limits, datasets, files, oauth, service_name } = config
  const minute = new Window(MINUTE, clock)
  const freeMinute = new Window(MINUTE, clock)
  const freeDay = new Window(DAY, clock)
  const fileMinute = new Window(MINUTE, clock)
  const readingMinute = new Window(MINUTE, clock)
  const readingDay = new Window(DAY, clock)
  const visits = new Window(MINUTE, clock, MOST_NETWORKS)
  const managementMinute = new Window(MINUTE, clock)
  const rateRequests = new Window(MINUTE, clock)
  const rateTokens = new Window(MINUTE, clock)
  const running = new Map<string, number>()
  const waiting = new Map<string, Waiter[]>()
  /** The calls that run in another process. */
  let elsewhere = new Map<string, number>()
  let tell: ((count: SharedCount) => void) | null = null
  freeDay.setCount(ALL_KEYS, Math.max(freeSoFar, free.read(freeDay.number)))
  // In an order that no version changes.
  const windows = [
    ...[minute, freeMinute, freeDay, fileMinute, readingMinute, readingDay, visits],
    ...[managementMinute, rateRequests, rateTokens],
  ]
  for (const [window, one] of windows.entries()) {
    one.onCount = (name, by) => {
      if (one === freeDay) free.note(one.number, one.getCount(name))
      tell?.({ window, name, by })
    }
    one.shared = shared?.openWindow(SHARED_NAMES[window] as string, one) ?? null
  }
  const places = shared?.openPlaces({ count: name => countRunning(name), wake: wakeWaiters })

  function listLimits({ actor, call, request, place, isInBatch }: Claim): Limit[] {
    const key = actor.key_hash ?? ''
    const { requests_per_minute, concurrent_requests, free_models } = limits
    const applicable: Limit[] = []
    if (request && free_models && call.models.some(slug => isFreeModel(service_name, slug))) {
      const { requests_per_day, requests_per_minute: perMinute } = free_models
      if (requests_per_day !== undefined)
        applicable.push(freeDay.buildLimit('free-models-per-day', ALL_KEYS, requests_per_day))
      if (perMinute !== undefined)
        applicable.push(freeMinute.buildLimit('free-models-per-min', ALL_KEYS, perMinute))
    }
    if (request && requests_per_minute !== undefined)
      applicable.push(minute.buildLimit('requests-per-min', key, requests_per_minute))
    if (place && concurrent_requests !== undefined)
      applicable.push(buildPlaceLimit('concurrent-requests', key, concurrent_requests))
    if (!isInBatch) return applicable
    return applicable.map(limit => ({ ...limit, maximum: halveCount(limit.maximum) }))
  }

  const countRunning = (key: string) => (running.get(key) ?? 0) + (elsewhere.get(key) ?? 0)

  const countUsed = places ? (key: string) => places.getUsed(key) : countRunning

  function buildPlaceLimit(name: string, key: string, maximum: number): Limit {
    const limit: Limit = {
      ...{ name, maximum, used: countUsed(key) },
      reset: clock.now().getTime() + RETRY_HINT,
      count: () => enterPlace(key),
    }
    if (places) limit.cover = (_, most) => places.cover(key, most)
    return limit
  }

  function enterPlace(key: string): void {
    addTo(running, key, 1)
    tell?.({ window: null, name: key, by: 1 })
  }

  function leavePlace(key: string): void {
    addTo(running, key, -1)
    tell?.({ window: null, name: key, by: -1 })
    wakeWaiters(key)
    places?.left(key)
  }

  /** Gives free places to those that wait for them, in their order. */
  function wakeWaiters(key: string): void {
    const queue = waiting.get(key)
    for (let next = findNext(queue, key); next; next = findNext(queue, key)) {
      queue?.splice(queue.indexOf(next), 1)
      enterPlace(key)
      next.resolve()
    }
    if (queue?.length === 0) waiting.delete(key)
  }

  // A line of a batch may have fewer places: others do not wait for it.
  const findNext = (queue: Waiter[] | undefined, key: string): Waiter | undefined =>
    queue?.find(({ maximum }) => {
      const most = maximum()
      if (!places || most === Number.POSITIVE_INFINITY) return countRunning(key) < most
      return places.isFree(key) && places.getUsed(key) < most
    })

  /** Resolves once the key has a place, which is taken then. */
  async function waitForPlace(
    { actor, isInBatch }: Claim,
    cancellation: Cancellation,
  ): Promise<void> {
    const key = actor.key_hash ?? ''
    const { promise, resolve } = Promise.withResolvers<void>()
    const maximum = () => {
      const most = limits.concurrent_requests ?? Number.POSITIVE_INFINITY
      return isInBatch ? halveCount(most) : most
    }
    const waiter = { maximum, resolve }
    const queue = waiting.get(key) ?? []
    waiting.set(key, queue)
    queue.push(waiter)
    wakeWaiters(key)
    try {
      const free = places ? Promise.race([promise, askForPlace(places, key, waiter)]) : promise
      await cancellation.awaitUnlessCancelled(free)
    } catch (thrown) {
      const at = queue.indexOf(waiter)
      if (at === -1) leavePlace(key)
      else queue.splice(at, 1)
      if (queue.length === 0 && waiting.get(key) === queue) waiting.delete(key)
      throw thrown
    }
  }

  /** Asks other nodes for a place until the waiter has one. Throws 503 where they cannot be asked. */
  async function askForPlace(shared: SharedPlaces, key: string, waiter: Waiter): Promise<void> {
    for (let failed = 0; waiting.get(key)?.includes(waiter); await shared.awaitChange())
      try {
        await shared.cover(key, waiter.maximum())
        failed = 0
        wakeWaiters(key)
      } catch (thrown) {
        failed += 1
        if (failed === MOST_FAILED) throw thrown
      }
  }

  function take(claim: Claim): Grant | Promise<Grant> {
    const pending = cover?.(listLimits(claim))
    if (pending) return pending.then(() => take(claim))
    const { actor, money, instead, place, to } = claim
    const isElsewhere = money ? ledger.reserveElsewhere !== null : false
    const free = instead ? () => give(instead) : undefined
    if (!isElsewhere) free?.()
    if (to && money && !ledger.reserveElsewhere) {
      to.hold = ledger.reserve(money.payer, money.estimate, money.bounds)
      return to
    }
    if (to) return money ? holdElsewhere(to, money, free) : to
    const counted = admit(listLimits(claim))
    const hold = money && !isElsewhere ? reserveMoney(money) : null
    for (const limit of counted) limit.count()
    const grant: Grant = {
      key: actor.key_hash ?? '',
      requests: counted.filter(isOfWindow),
      hasPlace: place === true && limits.concurrent_requests !== undefined,
      ...{ hold, isOpen: true },
    }
    return money && isElsewhere ? completeElsewhere(grant, money, free) : grant
  }

  const reserveMoney = ({ payer, estimate, bounds }: MoneyClaim): Hold =>
    ledger.reserve(payer, estimate, bounds)

  /** Sets money aside that may have to be asked for; at once where it is in hand. */
  function holdElsewhere(
    grant: Grant,
    money: MoneyClaim,
    free: (() => void) | undefined,
  ): Grant | Promise<Grant> {
    const { payer, estimate, bounds } = money
    const asked = ledger.reserveElsewhere?.(payer, estimate, bounds, free) ?? reserveMoney(money)
    if (asked instanceof Promise) return awaitHold(grant, asked.finally(free))
    grant.hold = asked
    return grant
  }

  async function awaitHold(grant: Grant, asked: Promise<Hold>): Promise<Grant> {
    const hold = await asked
    // Nobody would give it back.
    if (!grant.isOpen) ledger.release(hold)
    else grant.hold = hold
    return grant
  }

  /** Takes the money of a grant that has the rest already, which goes back where there is too little. */
  function completeElsewhere(
    grant: Grant,
    money: MoneyClaim,
    free: (() => void) | undefined,
  ): Grant | Promise<Grant> {
    const giveBack = (thrown: unknown): never => {
      give(grant, { isUnmade: true })
      throw thrown
    }
    try {
      const held = holdElsewhere(grant, money, free)
      return held instanceof Promise ? held.catch(giveBack) : held
    } catch (thrown) {
      return giveBack(thrown)
    }
  }

  function give(grant: Grant, { charge, isUnmade, tokens }: Used = {}): void {
    const { hold, key, requests } = grant
    grant.isOpen = false
    if (hold && charge) ledger.settle(hold, charge)
    else if (hold) ledger.release(hold)
    if (isUnmade) for (const { uncount } of requests) uncount?.()
    if (grant.tokens) settleTokens(grant, tokens)
    grant.hold = null
    grant.requests = NO_LIMITS
    if (!grant.hasPlace) return
    grant.hasPlace = false
    leavePlace(key)
  }

  const rates = openRates(
    {
      ...{ requests: rateRequests, tokens: rateTokens, cover },
      places: { buildLimit: buildPlaceLimit, leave: leavePlace },
    },
    clock,
  )

  function settleTokens(grant: Grant, used = 0): void {
    if (grant.tokens) rates.settleTokens(grant.tokens, used)
    delete grant.tokens
  }

  const listReadingLimits = (key: string): Limit[] => [
    readingMinute.buildLimit('datasets-per-min', key, datasets.requests_per_minute),
    readingDay.buildLimit('datasets-per-day', ALL_KEYS, datasets.requests_per_day),
  ]

  function admit(applicable: Limit[]): Limit[] {
    const reached = applicable.find(({ used, maximum }) => used >= maximum)
    if (reached) throw rateLimitExceeded(reached, clock.now().getTime())
    return applicable
  }

  /** Counts in all of these, or none. `isAlone`: also while other nodes cannot be asked. */
  function countIn(build: () => Limit[], isAlone = false): void | Promise<void> {
    const limits = build()
    const pending = cover?.(limits)
    if (pending)
      return pending.then(
        () => countIn(build, isAlone),
        (thrown: unknown) => {
          if (!isAlone) throw thrown
          for (const limit of admit(build())) limit.count()
        },
      )
    for (const limit of admit(limits)) limit.count()
  }

  return {
    rates,
    clock,
    take,
    async takeInTurn(claim, cancellation) {
      if (limits.concurrent_requests === undefined) return take({ ...claim, place: true })
      await waitForPlace(claim, cancellation)
      try {
        const grant = await take({ ...claim, place: false })
        grant.hasPlace = true
        return grant
      } catch (thrown) {
        leavePlace(claim.actor.key_hash ?? '')
        throw thrown
      }
    },
    give,
    countReading: ({ key_hash }) => countIn(() => listReadingLimits(key_hash ?? '')),
    countVisit(network) {
      const { requests_per_minute: most } = oauth
      return countIn(() => [visits.buildLimit('oauth-per-min', network, most)], true)
    },
    countFileRequest({ key_hash }) {
      const { requests_per_minute: most } = files
      if (most === undefined) return
      return countIn(() => [fileMinute.buildLimit('files-per-min', key_hash ?? '', most)])
    },
    countManagement({ key_hash }) {
      const { management_per_minute: most } = limits
      const named = ['management-per-min', key_hash ?? '', most] as const
      return countIn(() => [managementMinute.buildLimit(...named)], true)
    },
    check(actor, call) {
      admit(listLimits({ actor, call, request: true, place: true }))
    },
    getFreeUsage() {
      const limit = limits.free_models ? limits.free_models.requests_per_day : undefined
      return limit === undefined ? null : { limit, used: freeDay.getCount(ALL_KEYS) }
    },
    reconfigure(other, freeSoFar) {
      ;({ limits, datasets, files, oauth, service_name } = other)
      // What all nodes count is known better.
      if (freeSoFar !== null && !freeDay.shared?.isShared(ALL_KEYS))
        freeDay.setCount(ALL_KEYS, Math.max(freeSoFar, freeDay.getCount(ALL_KEYS)))
      for (const key of [...waiting.keys()]) wakeWaiters(key)
    },
    exportCounts: () => windows.map(window => window.exportCounts()),
    importCounts(exported) {
      for (const [i, counts] of exported.entries()) windows[i]?.importCounts(counts)
    },
    exportRunning: () => new Map(running),
    importRunning(others) {
      elsewhere = new Map(others)
      for (const key of [...waiting.keys()]) wakeWaiters(key)
    },
    share(other) {
      tell = other
    },
    takeCount({ window, name, by }) {
      if (window !== null) return windows[window]?.addCount(name, by)
      addTo(elsewhere, name, by)
      wakeWaiters(name)
    },
  }
}

function addTo(counts: Map<string, number>, name: string, by: number): void {
  const sum = (counts.get(name) ?? 0) + by
  if (sum > 0) counts.set(name, sum)
  else counts.delete(name)
}

const isOfWindow = ({ uncount }: Limit): boolean => uncount !== undefined

const NO_LIMITS: Limit[] = []

/** What windows are called among nodes, in their order. */
const SHARED_NAMES = [
  ...['requests', 'free', 'free-day', 'files', 'datasets', 'datasets-day', 'visits'],
  ...['management', 'rate-requests', 'rate-tokens'],
]

/** How often a place is asked for in vain where the database is away: for some seconds. */
const MOST_FAILED = 20

const FORGETFUL: FreeCalls = { read: () => 0, note: () => undefined }

/**
 * Returns whether calls of free models are limited by the day. If so, those of today before the
 * start count too.
 */
export const hasDailyFreeLimit = ({ free_models }: Config['limits']): boolean =>
  free_models !== false && free_models.requests_per_day !== undefined

/**
 * Free models are counted for the account, as the public service does: another key is no way around
 * the limit.
 */
const ALL_KEYS = ''
/** The place of all names beyond the most. */
const OTHERS = ''

// A call that has a free model among its fallbacks may reach it, so it counts too. So does one with
// a variant after its name.
function isFreeModel(service_name: string, slug: string): boolean {
  const [name = ''] = slug.split(':', 1)
  return `${slug}:`.includes(`${FREE_VARIANT}:`) || findRouter({ service_name }, name) === 'free'
}

/**
 * Counts by name within the current window of the clock, which may jump back and forth. Beyond the
 * most names, all others count as one.
 */
class Window implements CountedWindow {
  readonly length: number
  readonly #clock: Clock
  readonly #most: number
  /** The counts of the windows that were entered last, the current one at the end. */
  readonly #entered = new Map<number, Map<string, number>>()
  #counts = new Map<string, number>()
  #number = 0
  /** Hears of each count by a limit. */
  onCount: ((name: string, by: number) => void) | null = null
  /** What other nodes count too; null where there are none. */
  shared: SharedWindow | null = null

  constructor(length: number, clock: Clock, most = Number.POSITIVE_INFINITY) {
    this.length = length
    this.#clock = clock
    this.#most = most
  }

  /** The number of the current window, from 1970. */
  get number(): number {
    this.#advance()
    return this.#number
  }

  getCount(name: string): number {
    this.#advance()
    return this.#counts.get(this.#findPlace(name)) ?? 0
  }

  setCount(name: string, count: number): void {
    this.#advance()
    this.#counts.set(this.#findPlace(name), count)
  }

  buildLimit(name: string, counter: string, maximum: number): Limit {
    const used = this.getCount(counter)
    const window = this.#number
    const limit: Limit = {
      name,
      maximum,
      used,
      reset: (window + 1) * this.length,
      count: () => this.count(counter, 1),
      uncount: () => {
        this.#advance()
        if (this.#number === window) this.count(counter, -1)
      },
    }
    const { shared } = this
    if (shared) limit.cover = (count, most) => shared.cover(this.#findPlace(counter), count, most)
    return limit
  }

  /** Adds to a count that others have told of; none falls below zero. */
  addCount(name: string, by: number): void {
    this.setCount(name, Math.max(0, this.getCount(name) + by))
  }

  /** Adds to a count that others are told of. */
  count(counter: string, by: number): void {
    this.addCount(counter, by)
    this.onCount?.(counter, by)
    this.shared?.note(this.#findPlace(counter))
  }

  exportCounts(): WindowCounts {
    this.#advance()
    return { number: this.#number, counts: new Map(this.#counts) }
  }

  /** Counts of another window are over. */
  importCounts({ number, counts }: WindowCounts): void {
    this.#advance()
    if (number === this.#number) keepLarger(this.#counts, counts)
  }

  #findPlace(name: string): string {
    return this.#counts.size < this.#most || this.#counts.has(name) ? name : OTHERS
  }

  #advance(): void {
    const number = Math.floor(this.#clock.now().getTime() / this.length)
    if (number === this.#number) return
    const entered = this.#entered.get(number) ?? new Map<string, number>()
    // A clock that is set back begins no new window: what was counted in the later one still counts.
    if (number < this.#number) keepLarger(entered, this.#counts)
    this.#number = number
    this.#counts = entered
    this.#entered.delete(number)
    this.#entered.set(number, entered)
    for (const old of this.#entered.keys())
      if (this.#entered.size > WINDOWS_KEPT) this.#entered.delete(old)
  }
}

/** A window that the clock has left is entered again after a jump, soon or never. */
const WINDOWS_KEPT = 3

function keepLarger(counts: Map<string, number>, others: Map<string, number>): void {
  for (const [name, count] of others) counts.set(name, Math.max(count, counts.get(name) ?? 0))
}
