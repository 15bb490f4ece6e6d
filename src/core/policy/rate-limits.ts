import { FREE_VARIANT } from '../catalog/models/free.ts'
import type { Config } from '../config.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Clock } from '../kernel/clock.ts'
import type { CallBase } from '../language/call.ts'
import { routerCalled } from '../language/routing.ts'

/**
 * Limits how often keys may call, and how many calls of one key may run at once. Counted in this
 * process, which is the only one that serves.
 */
export interface RateLimits {
  /**
   * Counts a call against every limit that applies to it, or against none. Returns the function
   * that releases the call's permit when it ends. Throws 429 where a limit is reached, with the
   * time at which to try again.
   */
  enter(actor: Pick<Actor, 'key_hash'>, call: Pick<CallBase, 'models'>): () => void
  /** Throws what `acquire` would, and counts nothing. */
  check(actor: Pick<Actor, 'key_hash'>, call: Pick<CallBase, 'models'>): void
  /**
   * Returns how many calls of free models all keys together may make today (midnight to midnight
   * UTC), and how many they have made. Null: unlimited.
   */
  freeToday(): { limit: number; used: number } | null
  /**
   * Applies the limits of another config from the next call on. Existing counts are kept, and a new
   * limit counts from now on. A number as `freeSoFar` replaces the count of today's calls of free
   * models.
   */
  reconfigure(config: Config, freeSoFar: number | null): void
}

const MINUTE = 60_000
const DAY = 86_400_000

/** Milliseconds to wait when all permits are taken: it is unknown when a call ends. */
const A_MOMENT = 1_000

/** The state of one limit as one call meets it. */
interface Limit {
  /** Its name in the error, as the public service has it (wire reference L.5). */
  name: string
  most: number
  used: number
  /** Milliseconds since 1970: when it makes sense to try again. */
  reset: number
  count(): void
}

/**
 * Creates the limits of this config. Windows follow the clock: a minute is a full one, a day begins
 * at midnight UTC. The counts of a window are dropped with it, so that keys which no longer call
 * take no memory. `freeSoFar` is how many calls of free models today has seen already.
 */
export function openRateLimits(config: Config, clock: Clock, freeSoFar = 0): RateLimits {
  let { limits, service_name } = config
  const minute = new Window(MINUTE, clock)
  const freeMinute = new Window(MINUTE, clock)
  const freeDay = new Window(DAY, clock)
  const running = new Map<string, number>()
  freeDay.set(EVERYBODY, freeSoFar)

  function applying(key: string, { models }: Pick<CallBase, 'models'>): Limit[] {
    const { requests_per_minute, concurrent_requests, free_models } = limits
    const found: Limit[] = []
    if (free_models && models.some(slug => isFree(service_name, slug))) {
      const { requests_per_day, requests_per_minute: perMinute } = free_models
      if (requests_per_day !== undefined)
        found.push(freeDay.limit('free-models-per-day', EVERYBODY, requests_per_day))
      if (perMinute !== undefined)
        found.push(freeMinute.limit('free-models-per-min', EVERYBODY, perMinute))
    }
    if (requests_per_minute !== undefined)
      found.push(minute.limit('requests-per-min', key, requests_per_minute))
    if (concurrent_requests !== undefined) found.push(places(key, concurrent_requests))
    return found
  }

  const places = (key: string, most: number): Limit => ({
    name: 'concurrent-requests',
    most,
    used: running.get(key) ?? 0,
    reset: clock.now().getTime() + A_MOMENT,
    count: () => void running.set(key, (running.get(key) ?? 0) + 1),
  })

  const leaving = (key: string) => {
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      const left = (running.get(key) ?? 0) - 1
      if (left > 0) running.set(key, left)
      else running.delete(key)
    }
  }

  function open(key: string, call: Pick<CallBase, 'models'>): Limit[] {
    const found = applying(key, call)
    const reached = found.find(({ used, most }) => used >= most)
    if (reached) throw refusal(reached, clock.now().getTime())
    return found
  }

  return {
    enter({ key_hash }, call) {
      const key = key_hash ?? ''
      for (const limit of open(key, call)) limit.count()
      return limits.concurrent_requests === undefined ? NOTHING : leaving(key)
    },
    check({ key_hash }, call) {
      open(key_hash ?? '', call)
    },
    freeToday() {
      const limit = limits.free_models ? limits.free_models.requests_per_day : undefined
      return limit === undefined ? null : { limit, used: freeDay.counted(EVERYBODY) }
    },
    reconfigure(other, freeSoFar) {
      ;({ limits, service_name } = other)
      if (freeSoFar !== null) freeDay.set(EVERYBODY, freeSoFar)
    },
  }
}

const NOTHING = () => undefined

/**
 * Returns whether calls of free models are limited by the day. If so, those of today before the
 * start count too.
 */
export const countsFreeDays = ({ free_models }: Config['limits']): boolean =>
  free_models !== false && free_models.requests_per_day !== undefined

/**
 * Free models are counted for the account, as the public service does: another key is no way around
 * the limit.
 */
const EVERYBODY = ''

// A call that has a free model among its fallbacks may reach it, so it counts too. So does one with
// a variant after its name.
function isFree(service_name: string, slug: string): boolean {
  const [name = ''] = slug.split(':', 1)
  return `${slug}:`.includes(`${FREE_VARIANT}:`) || routerCalled({ service_name }, name) === 'free'
}

function refusal({ name, most, reset }: Limit, now: number): GatewayError {
  const headers = {
    'X-RateLimit-Limit': String(most),
    'X-RateLimit-Remaining': '0',
    'X-RateLimit-Reset': String(reset),
  }
  return new GatewayError('rate_limit_exceeded', `Rate limit exceeded: ${name}`, {
    retryAfter: Math.max(1, Math.ceil((reset - now) / 1000)),
    metadata: { headers, provider_name: null },
  })
}

/** Counts by name within the current window of the clock. */
class Window {
  readonly #length: number
  readonly #clock: Clock
  readonly #counts = new Map<string, number>()
  #number = 0

  constructor(length: number, clock: Clock) {
    this.#length = length
    this.#clock = clock
  }

  counted(name: string): number {
    this.#turn()
    return this.#counts.get(name) ?? 0
  }

  set(name: string, count: number): void {
    this.#turn()
    this.#counts.set(name, count)
  }

  limit(name: string, of: string, most: number): Limit {
    const used = this.counted(of)
    return {
      name,
      most,
      used,
      reset: (this.#number + 1) * this.#length,
      count: () => this.set(of, this.counted(of) + 1),
    }
  }

  #turn(): void {
    const number = Math.floor(this.#clock.now().getTime() / this.#length)
    if (number === this.#number) return
    this.#number = number
    this.#counts.clear()
  }
}
