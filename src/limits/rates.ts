import type { Clock } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import type { Account } from './ledger.ts'

/** The fields of a guardrail that limit how often calls are made. */
export const RATE_FIELDS = [
  'requests_per_minute',
  'tokens_per_minute',
  'concurrent_requests',
] as const
type RateField = (typeof RATE_FIELDS)[number]

/** How often calls of one account may be made, as one guardrail says; null for any number. */
export interface Rate extends Record<RateField, number | null> {
  scope: 'workspace' | 'member' | 'key'
  account: Account
  guardrail: { id: string; name: string }
}

/** How a call is counted. */
export interface RateClaim {
  /** A line of a batch gets half of each limit, and never less than 1. */
  isInBatch: boolean
  /** Whether it needs a place among those that run at once. */
  place: boolean
}

/** The state of one limit as one call meets it. */
export interface Limit {
  /** Its name in the error, as the public service has it (wire reference L.5). */
  name: string
  maximum: number
  used: number
  /** Milliseconds since 1970: when it makes sense to try again. */
  reset: number
  count(): void
  /** Takes the count back, unless its window is over. Absent if it is a place. */
  uncount?(): void
  /**
   * Asks other nodes for what is not in hand of so much; null if there is no need to, or no sense in
   * it. Absent where there are none.
   */
  cover?: (count: number, maximum: number) => Promise<void> | null
}

/**
 * Resolves once other nodes have been asked for what is not in hand: then it is looked at again.
 * Undefined where all is. Throws 503.
 */
export function coverLimits(limits: Limit[], count = 1): Promise<unknown> | undefined {
  const pending = limits.flatMap(({ cover, maximum }) => cover?.(count, maximum) ?? [])
  return pending.length === 0 ? undefined : Promise.all(pending)
}

/** What counts by name in a minute. */
interface Minute {
  readonly number: number
  buildLimit(name: string, counter: string, maximum: number): Limit
  count(name: string, by: number): void
}

/** What a call has taken of its rates until it ends. */
export interface RateGrant {
  requests: Limit[]
  places: Limit[]
}

/** The tokens that a turn is expected to take, in the minute that counts them. */
export interface TokenHold {
  accounts: Account[]
  count: number
  minute: number
}

/** Where an account stands in one limit. A minute has a reset, in milliseconds since 1970. */
interface RateState {
  limit: number
  used: number
  remaining: number
  reset?: number
}

/** Where the accounts of a policy stand in one guardrail. */
export type DescribedRate = { scope: Rate['scope']; guardrail_id: string } & Partial<
  Record<RateField, RateState>
>

/**
 * Counts what accounts take of the rates of their guardrails. A call counts once, whatever turns and
 * fallbacks it has; its tokens are those of all its turns. Each account is counted by itself.
 */
export interface Rates {
  /**
   * Takes a request of each, and perhaps a place, or nothing. Throws 429 where one is used up. A
   * promise only while other nodes have to be asked, which throws 503 where they cannot be.
   */
  take(rates: Rate[], claim: RateClaim): RateGrant | Promise<RateGrant>
  /** Throws the 429 that `take` would, and counts nothing. */
  check(rates: Rate[]): void
  /** Gives the places back, and the requests if the call was not made. Does so once. */
  give(grant: RateGrant, isUnmade: boolean): void
  /**
   * Takes the tokens of a turn, or nothing. Throws 429 where too few are left in this minute, and
   * 400 where no minute has as many. A promise as that of `take`.
   */
  takeTokens(rates: Rate[], count: number, isInBatch: boolean): TokenHold | Promise<TokenHold>
  /**
   * Counts what a turn took instead of what was expected. What it took beyond that counts in the
   * minute in which it ends; a minute that is over gets nothing back.
   */
  settleTokens(hold: TokenHold, used: number): void
  /** Tells where the accounts stand. */
  describe(rates: Rate[]): DescribedRate[]
}

/** Counts the calls that run, by account. */
interface Places {
  buildLimit(name: string, account: Account, maximum: number): Limit
  leave(account: Account): void
}

/** What rates are counted in. */
interface RateBooks {
  requests: Minute
  tokens: Minute
  places: Places
  /** Null where there are no other nodes. */
  cover: typeof coverLimits | null
}

/** Milliseconds to wait when all places are taken: it is unknown when a call ends. */
export const RETRY_HINT = 1_000

const NAMES: Record<RateField, string> = {
  requests_per_minute: 'requests-per-min',
  tokens_per_minute: 'tokens-per-min',
  concurrent_requests: 'concurrent-requests',
}

const OWNERS = { workspace: 'its workspace', member: 'its member', key: 'this key' }

/** Counts rates in these books. */
export function openRates({ requests, tokens, places, cover }: RateBooks, clock: Clock): Rates {
  const buildPlaceLimit = (name: string, account: Account, maximum: number): Limit => ({
    ...places.buildLimit(name, account, maximum),
    uncount: () => places.leave(account),
  })

  const build = {
    requests_per_minute: (name: string, account: Account, maximum: number) =>
      requests.buildLimit(name, account, maximum),
    tokens_per_minute: (name: string, account: Account, maximum: number) =>
      tokens.buildLimit(name, account, maximum),
    concurrent_requests: buildPlaceLimit,
  }

  const listLimits = (rates: Rate[], field: RateField): Limit[] =>
    rates.flatMap(rate => {
      const maximum = rate[field]
      return maximum === null ? [] : build[field](nameRate(rate, field), rate.account, maximum)
    })

  function admit(limits: Limit[], count = 1): Limit[] {
    const reached = limits.find(({ used, maximum }) => used + count > maximum)
    if (reached) throw rateLimitExceeded(reached, clock.now().getTime())
    return limits
  }

  const listOfCall = (rates: Rate[]): RateGrant => ({
    requests: listLimits(rates, 'requests_per_minute'),
    places: listLimits(rates, 'concurrent_requests'),
  })

  function take(rates: Rate[], claim: RateClaim): RateGrant | Promise<RateGrant> {
    const grant = listOfCall(rates)
    if (!claim.place) grant.places = []
    const limits = [...grant.requests, ...grant.places]
    const applicable = claim.isInBatch
      ? limits.map(limit => ({ ...limit, maximum: halveCount(limit.maximum) }))
      : limits
    const pending = cover?.(applicable)
    if (pending) return pending.then(() => take(rates, claim))
    for (const limit of admit(applicable)) limit.count()
    return grant
  }

  function takeTokens(
    rates: Rate[],
    count: number,
    isInBatch: boolean,
  ): TokenHold | Promise<TokenHold> {
    const limits = listLimits(rates, 'tokens_per_minute')
    const smaller = limits.find(({ maximum }) => count > maximum)
    if (smaller) throw neverFits(smaller, count)
    // A line of a batch that is larger than half a limit has to fit at some time.
    const most = ({ maximum }: Limit) => Math.max(count, Math.floor(maximum / 2))
    const applicable = isInBatch ? limits.map(one => ({ ...one, maximum: most(one) })) : limits
    const pending = cover?.(applicable, count)
    if (pending) return pending.then(() => takeTokens(rates, count, isInBatch))
    admit(applicable, count)
    const accounts = rates.flatMap(rate => (rate.tokens_per_minute === null ? [] : rate.account))
    for (const account of accounts) tokens.count(account, count)
    return { accounts, count, minute: tokens.number }
  }

  return {
    take,
    check(rates) {
      const { requests, places } = listOfCall(rates)
      admit([...requests, ...places, ...listLimits(rates, 'tokens_per_minute')])
    },
    give(grant, isUnmade) {
      const { requests, places } = grant
      grant.requests = []
      grant.places = []
      if (isUnmade) for (const { uncount } of requests) uncount?.()
      for (const { uncount } of places) uncount?.()
    },
    takeTokens,
    settleTokens({ accounts, count, minute }, used) {
      const by = minute === tokens.number ? used - count : Math.max(0, used - count)
      if (by !== 0) for (const account of accounts) tokens.count(account, by)
    },
    describe: rates =>
      rates.map(rate => ({
        ...{ scope: rate.scope, guardrail_id: rate.guardrail.id },
        ...Object.fromEntries(
          RATE_FIELDS.flatMap(field =>
            listLimits([rate], field).map(limit => [field, describeLimit(field, limit)]),
          ),
        ),
      })),
  }
}

function describeLimit(field: RateField, { maximum: limit, used, reset }: Limit): RateState {
  const remaining = Math.max(0, limit - used)
  return { limit, used, remaining, ...(field === 'concurrent_requests' ? {} : { reset }) }
}

const nameRate = ({ guardrail, scope }: Rate, field: RateField): string =>
  `${NAMES[field]} of the guardrail “${guardrail.name}” for ${OWNERS[scope]}`

/** Halves a maximum for a line of a batch: the other half stays for clients who wait. */
export const halveCount = (maximum: number): number =>
  Math.max(Math.min(maximum, 1), Math.floor(maximum / 2))

/** Creates the refusal of a call that a limit has nothing left for. */
export function rateLimitExceeded({ name, maximum, reset }: Limit, now: number): GatewayError {
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

const neverFits = ({ name, maximum }: Limit, count: number): GatewayError =>
  new GatewayError(
    'token_limit_exceeded',
    `The call may take ${count} tokens, and ${name} are at most ${maximum}: ask for fewer max_tokens`,
  )
