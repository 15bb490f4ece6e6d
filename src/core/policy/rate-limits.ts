import { FREE_VARIANT } from '../catalog/models/free.ts'
import type { Config } from '../config.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Clock } from '../kernel/clock.ts'
import type { CallBase } from '../language/call.ts'
import { findRouter } from '../language/routing.ts'

/**
 * Limits how often keys may call, and how many calls of one key may run at once. Counted in this
 * process, which is the only one that serves.
 */
export interface RateLimits {
  /**
   * Counts a call against every limit that applies to it, or against none. Returns the function
   * that releases the call's permit when it ends. Throws 429 where a limit is reached, with the
   * time at which to try again. A line of a batch gets half of each limit, and never less than 1.
   */
  acquire(
    actor: Pick<Actor, 'key_hash'>,
    call: Pick<CallBase, 'models'>,
    isInBatch?: boolean,
  ): () => void
  /**
   * Counts a reading of a public dataset: by key for the minute, and by all keys together for the
   * day. Throws 429 where a limit is reached, and counts nothing then.
   */
  countReading(actor: Pick<Actor, 'key_hash'>): void
  /**
   * Counts a request without a key, by the network that it came from. Throws 429 where that has
   * sent as many in this minute as the config allows. At most 10,000 networks are told apart in a
   * minute: all others share one place.
   */
  countVisit(network: string): void
  /**
   * Counts a request about files or about those of containers, by key. Throws 429 where the limit is
   * reached, and counts nothing then.
   */
  countFileRequest(actor: Pick<Actor, 'key_hash'>): void
  /** Throws what `acquire` would, and counts nothing. */
  check(actor: Pick<Actor, 'key_hash'>, call: Pick<CallBase, 'models'>): void
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

/** One more in a window, or one more or less of the calls that run. */
export interface SharedCount {
  /** The number of the window; null for the calls that run. */
  window: number | null
  name: string
  by: 1 | -1
}

/** What is counted by name in one window. */
export interface WindowCounts {
  number: number
  counts: Map<string, number>
}

const MINUTE = 60_000
/** The most networks that are told apart in a minute: some hundred bytes each. */
const MOST_NETWORKS = 10_000
const DAY = 86_400_000

/** Milliseconds to wait when all permits are taken: it is unknown when a call ends. */
const RETRY_HINT = 1_000

/** The state of one limit as one call meets it. */
interface Limit {
  /** Its name in the error, as the public service has it (wire reference L.5). */
  name: string
  maximum: number
  used: number
  /** Milliseconds since 1970: when it makes sense to try again. */
  reset: number
  count(): void
}

/**
 * Creates the limits of this config. Windows follow the clock: a minute is a full one, a day begins
 * at midnight UTC. A clock that jumps gives no count back. The counts of a window are dropped soon
 * after it, so that keys which no longer call take no memory. `freeSoFar` is how many calls of free
 * models today has seen already.
 */
export function openRateLimits(config: Config, clock: Clock, freeSoFar = 0): RateLimits {
  let { limits, datasets, files, oauth, service_name } = config
  const minute = new Window(MINUTE, clock)
  const freeMinute = new Window(MINUTE, clock)
  const freeDay = new Window(DAY, clock)
  const fileMinute = new Window(MINUTE, clock)
  const readingMinute = new Window(MINUTE, clock)
  const readingDay = new Window(DAY, clock)
  const visits = new Window(MINUTE, clock, MOST_NETWORKS)
  const running = new Map<string, number>()
  /** The calls that run in another process. */
  let elsewhere = new Map<string, number>()
  let tell: ((count: SharedCount) => void) | null = null
  freeDay.setCount(ALL_KEYS, freeSoFar)
  // In an order that no version changes.
  const windows = [minute, freeMinute, freeDay, fileMinute, readingMinute, readingDay, visits]
  for (const [window, one] of windows.entries())
    one.onCount = name => tell?.({ window, name, by: 1 })

  function listLimits(key: string, { models }: Pick<CallBase, 'models'>): Limit[] {
    const { requests_per_minute, concurrent_requests, free_models } = limits
    const applicable: Limit[] = []
    if (free_models && models.some(slug => isFreeModel(service_name, slug))) {
      const { requests_per_day, requests_per_minute: perMinute } = free_models
      if (requests_per_day !== undefined)
        applicable.push(freeDay.buildLimit('free-models-per-day', ALL_KEYS, requests_per_day))
      if (perMinute !== undefined)
        applicable.push(freeMinute.buildLimit('free-models-per-min', ALL_KEYS, perMinute))
    }
    if (requests_per_minute !== undefined)
      applicable.push(minute.buildLimit('requests-per-min', key, requests_per_minute))
    if (concurrent_requests !== undefined)
      applicable.push(buildConcurrencyLimit(key, concurrent_requests))
    return applicable
  }

  const buildConcurrencyLimit = (key: string, maximum: number): Limit => ({
    name: 'concurrent-requests',
    maximum,
    used: (running.get(key) ?? 0) + (elsewhere.get(key) ?? 0),
    reset: clock.now().getTime() + RETRY_HINT,
    count() {
      addTo(running, key, 1)
      tell?.({ window: null, name: key, by: 1 })
    },
  })

  const createRelease = (key: string) => {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      addTo(running, key, -1)
      tell?.({ window: null, name: key, by: -1 })
    }
  }

  const admitCall = (key: string, call: Pick<CallBase, 'models'>, isInBatch = false): Limit[] => {
    const applicable = listLimits(key, call)
    return admit(isInBatch ? applicable.map(halve) : applicable)
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

  return {
    acquire({ key_hash }, call, isInBatch) {
      const key = key_hash ?? ''
      for (const limit of admitCall(key, call, isInBatch)) limit.count()
      return limits.concurrent_requests === undefined ? RELEASE_NOTHING : createRelease(key)
    },
    countReading({ key_hash }) {
      for (const limit of admit(listReadingLimits(key_hash ?? ''))) limit.count()
    },
    countVisit(network) {
      const { requests_per_minute } = oauth
      const limit = visits.buildLimit('oauth-per-min', network, requests_per_minute)
      for (const reached of admit([limit])) reached.count()
    },
    countFileRequest({ key_hash }) {
      const { requests_per_minute: maximum } = files
      if (maximum === undefined) return
      const limit = fileMinute.buildLimit('files-per-min', key_hash ?? '', maximum)
      for (const one of admit([limit])) one.count()
    },
    check({ key_hash }, call) {
      admitCall(key_hash ?? '', call)
    },
    getFreeUsage() {
      const limit = limits.free_models ? limits.free_models.requests_per_day : undefined
      return limit === undefined ? null : { limit, used: freeDay.getCount(ALL_KEYS) }
    },
    reconfigure(other, freeSoFar) {
      ;({ limits, datasets, files, oauth, service_name } = other)
      if (freeSoFar !== null) freeDay.setCount(ALL_KEYS, freeSoFar)
    },
    exportCounts: () => windows.map(window => window.exportCounts()),
    importCounts(exported) {
      for (const [i, counts] of exported.entries()) windows[i]?.importCounts(counts)
    },
    exportRunning: () => new Map(running),
    importRunning(others) {
      elsewhere = new Map(others)
    },
    share(other) {
      tell = other
    },
    takeCount({ window, name, by }) {
      if (window === null) addTo(elsewhere, name, by)
      else windows[window]?.addCount(name)
    },
  }
}

function addTo(counts: Map<string, number>, name: string, by: number): void {
  const sum = (counts.get(name) ?? 0) + by
  if (sum > 0) counts.set(name, sum)
  else counts.delete(name)
}

// The other half stays for clients who wait.
const halve = (limit: Limit): Limit => ({
  ...limit,
  maximum: Math.max(Math.min(limit.maximum, 1), Math.floor(limit.maximum / 2)),
})

const RELEASE_NOTHING = () => undefined

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

function rateLimitExceeded({ name, maximum, reset }: Limit, now: number): GatewayError {
  const headers = {
    'X-RateLimit-Limit': String(maximum),
    'X-RateLimit-Remaining': '0',
    'X-RateLimit-Reset': String(reset),
  }
  return new GatewayError('rate_limit_exceeded', `Rate limit exceeded: ${name}`, {
    retryAfter: Math.max(1, Math.ceil((reset - now) / 1000)),
    metadata: { headers, provider_name: null },
  })
}

/**
 * Counts by name within the current window of the clock, which may jump back and forth. Beyond the
 * most names, all others count as one.
 */
class Window {
  readonly #length: number
  readonly #clock: Clock
  readonly #most: number
  /** The counts of the windows that were entered last, the current one at the end. */
  readonly #entered = new Map<number, Map<string, number>>()
  #counts = new Map<string, number>()
  #number = 0
  /** Hears of each count by a limit. */
  onCount: ((name: string) => void) | null = null

  constructor(length: number, clock: Clock, most = Number.POSITIVE_INFINITY) {
    this.#length = length
    this.#clock = clock
    this.#most = most
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
    return {
      name,
      maximum,
      used,
      reset: (this.#number + 1) * this.#length,
      count: () => {
        this.addCount(counter)
        this.onCount?.(counter)
      },
    }
  }

  addCount(name: string): void {
    this.setCount(name, this.getCount(name) + 1)
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
    const number = Math.floor(this.#clock.now().getTime() / this.#length)
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
