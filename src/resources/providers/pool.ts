import type { Clock } from '../../base/clock.ts'
import type { GatewayError } from '../../base/errors.ts'

/** What a pool has of each of its credentials. */
export interface Weighted {
  /** What operators call it. It is no secret. */
  name: string
  /** Its share of the calls, beside the weights of the others. 0: only when none of those is well. */
  weight: number
}

/** What a failure says of a credential. */
export interface CredentialFailure {
  /** For how many milliseconds it rests. */
  rest: number
  /** Whether it rests for every model, or for the one that was asked for. */
  isWhole: boolean
  /** Why it rests. */
  reason: GatewayError['type']
}

/** A credential that rests, for one model or for all: null. */
export interface Rest {
  name: string
  model: string | null
  reason: GatewayError['type'] | null
  /** Milliseconds until it is awake. */
  left: number
}

/** What is known of a credential for one model. Times in steady milliseconds. */
interface State {
  restsUntil: number
  /** Why it rests, or has rested last. */
  reason: GatewayError['type'] | null
  /** Whether a call finds out if it is well again, and the others stay away meanwhile. */
  isProbed: boolean
  /** The part of its limits that is left, from 0 to 1, as the provider said last. */
  left: number
  /** How many requests are left by that; infinite where nothing was said. */
  requests: number
  /** When the limits are whole again. */
  resetsAt: number
}

/** The headers of a response, by their lower-case names. */
interface Headers {
  header(name: string): string | null
}

/** What a call needs of a pool. */
interface Wanted<Credential> {
  model: string
  /** Names the conversation, which stays at one credential where it can; null: any may do. */
  session: string | null
  /** The credentials that the call has tried; null before the first. */
  tried: ReadonlySet<Credential> | null
  /** Steady milliseconds. */
  now: number
  /** Returns a random number in [0, 1). */
  random: () => number
}

/** How a refused credential is probed: by one call in so many milliseconds. */
export const REFUSED_REST = 60_000

/** A limit that is told without the time at which it is whole again. Milliseconds. */
const UNKNOWN_RESET = 1_000
const LONGEST_RESET = 300_000

const EVERY_MODEL = ''

/** The most models that something is known of at a credential: callers may choose their names. */
const MOST_MODELS = 10_000

/**
 * The credentials of one provider, and which of them a call is sent with: by weight, and by what
 * the provider says is left of the limits of each. One that is refused or limited rests alone.
 */
export class CredentialPool<Credential extends Weighted> {
  readonly credentials: Credential[]
  readonly #states = new Map<Credential, Map<string, State>>()

  constructor(credentials: Credential[]) {
    this.credentials = credentials
  }

  /**
   * Picks the credential for a request. Those whose limit is used up come after the others. One that
   * rests is picked only for the first request of a call, where all rest: the one that is awake
   * soonest. Undefined if there is none.
   */
  pick({ model, session, tried, now, random }: Wanted<Credential>): Credential | undefined {
    const untried = this.credentials.filter(credential => !tried?.has(credential))
    const awake = untried.filter(credential => this.getRestEnd(credential, model) <= now)
    const candidates = awake.length > 0 ? awake : tried ? [] : untried
    const rank = (credential: Credential) =>
      awake.length > 0
        ? this.#rank(credential, { model, session, now, random })
        : this.getRestEnd(credential, model)
    const [picked] = candidates
      .map(credential => ({ credential, rank: rank(credential) }))
      .sort((a, b) => a.rank - b.rank)
    if (picked) this.#take(picked.credential, model, now)
    return picked?.credential
  }

  /** Returns when a credential has rested, in steady milliseconds; 0 or the past if it is awake. */
  getRestEnd(credential: Credential, model: string): number {
    return Math.max(0, ...this.#listStates(credential, model).map(({ restsUntil }) => restsUntil))
  }

  /**
   * Returns the milliseconds until a credential is awake for the model: 0 if one is already.
   */
  getShortestRest(model: string, now: number): number {
    const ends = this.credentials.map(credential => this.getRestEnd(credential, model))
    return Math.max(0, Math.min(...ends) - now)
  }

  /** Lists the credentials that rest, for any model. */
  listRests(now: number): Rest[] {
    return [...this.#states].flatMap(([{ name }, states]) =>
      [...states].flatMap(([model, { restsUntil, reason }]) =>
        restsUntil > now ? [{ name, model: model || null, reason, left: restsUntil - now }] : [],
      ),
    )
  }

  /** Notes a failure: the credential rests. */
  recordFailure(
    credential: Credential,
    model: string,
    { rest, isWhole, reason }: CredentialFailure,
    now: number,
  ): void {
    const state = this.#getState(credential, isWhole ? EVERY_MODEL : model)
    state.restsUntil = Math.max(state.isProbed ? 0 : state.restsUntil, now + rest)
    state.isProbed = false
    state.reason = reason
  }

  /**
   * Notes that an answer has begun: a credential that has rested is well again. What began before it
   * was refused or limited tells nothing.
   */
  recordAnswer(credential: Credential, model: string): void {
    for (const state of this.#listStates(credential, model)) {
      if (state.isProbed) state.restsUntil = 0
      state.isProbed = false
    }
  }

  /** Reads what the headers of a response say is left. What is no such number is not believed. */
  readLimits(credential: Credential, model: string, response: Headers, clock: Clock): void {
    const limits = LIMITS.flatMap(names => readLimit(response, names, clock) ?? [])
    const [tightest] = limits.toSorted((a, b) => a.left - b.left)
    if (!tightest) return
    const state = this.#getState(credential, model)
    const requests = limits.filter(({ of }) => of === 'requests')
    state.left = tightest.left
    state.requests = Math.min(Number.POSITIVE_INFINITY, ...requests.map(one => one.remaining))
    state.resetsAt = clock.ticks() + tightest.resetsIn
  }

  /**
   * Orders credentials as if each draws a time to wait, shorter the more of the calls it should
   * have. A conversation draws the same each time, whoever else is in the pool.
   */
  #rank(
    credential: Credential,
    { model, session, now, random }: Omit<Wanted<Credential>, 'tried'>,
  ): number {
    const { name, weight } = credential
    const state = this.#states.get(credential)?.get(model)
    const isKnown = state !== undefined && state.resetsAt > now
    if (isKnown && (state.left <= 0 || state.requests <= 0)) return USED_UP + state.resetsAt
    const share = session === null && isKnown ? weight * state.left : weight
    const drawn = session === null ? random() : hashToUnit(`${session} ${name}`)
    const time = -Math.log(1 - drawn)
    return share > 0 ? time / share : WITHOUT_WEIGHT + time
  }

  #take(credential: Credential, model: string, now: number): void {
    for (const state of this.#listStates(credential, model)) {
      state.requests -= 1
      if (state.restsUntil === 0 || state.restsUntil > now) continue
      state.restsUntil = now + PROBE
      state.isProbed = true
    }
  }

  #listStates(credential: Credential, model: string): State[] {
    const states = this.#states.get(credential)
    return [states?.get(EVERY_MODEL), states?.get(model)].filter(state => state !== undefined)
  }

  #getState(credential: Credential, model: string): State {
    const states = this.#states.get(credential) ?? new Map<string, State>()
    this.#states.set(credential, states)
    const known = states.get(model)
    // The one that was heard of last is forgotten last.
    if (known) states.delete(model)
    else if (states.size >= MOST_MODELS) forgetOldest(states, MOST_MODELS / 10)
    const state: State = known ?? {
      restsUntil: 0,
      reason: null,
      isProbed: false,
      left: 1,
      requests: Number.POSITIVE_INFINITY,
      resetsAt: 0,
    }
    states.set(model, state)
    return state
  }
}

function forgetOldest(states: Map<string, State>, count: number): void {
  const oldest = [...states.keys()].filter(model => model !== EVERY_MODEL).slice(0, count)
  for (const model of oldest) states.delete(model)
}

/** How long the others wait for the outcome of the one call that probes a credential. */
const PROBE = 5_000

// Ranks above every time that is drawn, the less wanted the higher.
const WITHOUT_WEIGHT = 1e6
const USED_UP = 1e12

const hashToUnit = (text: string): number => Number(Bun.hash(text) % 1_000_003n) / 1_000_003

/** The headers of one limit. */
interface LimitHeaders {
  of: 'requests' | 'tokens'
  limit: string
  remaining: string
  reset: string
}

const LIMITS: LimitHeaders[] = [
  ...(['requests', 'tokens'] as const).map(of => ({
    of,
    limit: `x-ratelimit-limit-${of}`,
    remaining: `x-ratelimit-remaining-${of}`,
    reset: `x-ratelimit-reset-${of}`,
  })),
  ...['requests', 'tokens', 'input-tokens', 'output-tokens'].map(name => ({
    of: name === 'requests' ? ('requests' as const) : ('tokens' as const),
    limit: `anthropic-ratelimit-${name}-limit`,
    remaining: `anthropic-ratelimit-${name}-remaining`,
    reset: `anthropic-ratelimit-${name}-reset`,
  })),
]

function readLimit(response: Headers, names: LimitHeaders, clock: Clock) {
  const remaining = readCount(response.header(names.remaining))
  if (remaining === null) return null
  const limit = readCount(response.header(names.limit)) ?? 0
  const left = limit > 0 ? Math.min(1, remaining / limit) : Math.min(1, remaining)
  const resetsIn = readReset(response.header(names.reset), clock)
  return { of: names.of, remaining, left, resetsIn }
}

function readCount(text: string | null): number | null {
  const count = text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null
  return count !== null && Number.isSafeInteger(count) ? count : null
}

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Reads when a limit is whole again, in milliseconds: `6m0s`, `120ms`, seconds, or a moment. */
function readReset(text: string | null, clock: Clock): number {
  if (text === null) return UNKNOWN_RESET
  const milliseconds = /^\d+(\.\d+)?$/.test(text)
    ? Number(text) * 1_000
    : /^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)
      ? sumUnits(text)
      : Date.parse(text) - clock.now().getTime()
  return Number.isFinite(milliseconds)
    ? Math.min(Math.max(milliseconds, 0), LONGEST_RESET)
    : UNKNOWN_RESET
}

const sumUnits = (text: string): number =>
  [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ''] ?? 0),
    0,
  )
