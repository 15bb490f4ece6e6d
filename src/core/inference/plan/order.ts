import type { Endpoint } from '../../catalog/models.ts'
import { sumPrices } from '../../catalog/prices.ts'
import {
  type Cutoffs,
  PERCENTILES,
  type RoutingPreferences,
  type SortKey,
} from '../../language/routing.ts'
import type { Health } from '../health.ts'
import type { InferenceWorld } from '../world.ts'
import { isCalled } from './wishes.ts'

/** The endpoints that the caller has named first, as they are named. The others stay as they are. */
export function asNamed(endpoints: Endpoint[], names: string[]): Endpoint[] {
  const rank = (endpoint: Endpoint) => names.findIndex(name => isCalled(endpoint, name))
  const ranked = endpoints.map(endpoint => ({ endpoint, at: rank(endpoint) }))
  const named = ranked.filter(({ at }) => at !== -1).sort((a, b) => a.at - b.at)
  return [...named, ...ranked.filter(({ at }) => at === -1)].map(({ endpoint }) => endpoint)
}

/**
 * The best first: the cheapest, by the median of the last five minutes the quickest, or who calls tools best as far as a day's answers tell, of
 * equals the cheapest. An unknown price comes last.
 */
export function sorted(
  gateway: InferenceWorld,
  endpoints: Endpoint[],
  sort: SortKey,
  streamed: boolean,
): Endpoint[] {
  if (sort === 'exacto')
    return by(
      sorted(gateway, endpoints, 'price', streamed),
      endpoint => -(gateway.traffic.health.quality(endpoint)?.lower ?? UNJUDGED),
    )
  const badness = badnessBy(gateway, sort, streamed)
  return by(endpoints, endpoint => badness(endpoint))
}

// Who was not judged stands where one would that is as likely good as bad: nobody asks for the best to find out about the others.
const UNJUDGED = 0.5

// Who was not measured goes first where this call would measure him, or nobody ever would.
function badnessBy(
  { traffic: { health } }: InferenceWorld,
  sort: Exclude<SortKey, 'exacto'>,
  streamed: boolean,
): (endpoint: Endpoint) => number {
  switch (sort) {
    case 'price':
      return endpoint => priceOf(endpoint) ?? Number.POSITIVE_INFINITY
    case 'throughput':
      return endpoint => -(health.measured(endpoint, sort)?.p50 ?? Number.POSITIVE_INFINITY)
    case 'latency':
      return endpoint =>
        health.measured(endpoint, sort)?.p50 ?? (streamed ? 0 : Number.POSITIVE_INFINITY)
  }
}

/**
 * The endpoints in an order drawn at random, in which each comes first with a probability by the inverse square of its price (wire
 * reference K.1), and so on among the rest. Free ones come before all that cost something, one as likely as another; one whose price
 * nobody knows is taken to be as dear as the dearest of the others. As they are listed, where the config says so.
 */
export function drawn(
  { config, ids: { random } }: InferenceWorld,
  endpoints: Endpoint[],
): Endpoint[] {
  if (config.routing.choice === 'listed' || endpoints.length < 2) return endpoints
  const price = lotPriceAmong(endpoints)
  // A race: who waits for a time with the mean of 1/weight comes first with the probability of his weight.
  const racers = endpoints.map(endpoint => ({
    endpoint,
    price: price(endpoint),
    luck: -Math.log(1 - random()),
  }))
  racers.sort((a, b) => a.luck * a.price ** 2 - b.luck * b.price ** 2 || a.luck - b.luck)
  return racers.map(({ endpoint }) => endpoint)
}

/** Says at which price each of these takes part in the lot. */
export function lotPriceAmong(endpoints: Endpoint[]): (endpoint: Endpoint) => number {
  const dearest =
    endpoints.reduce((most, endpoint) => Math.max(most, priceOf(endpoint) ?? 0), 0) || 1
  return endpoint => priceOf(endpoint) ?? dearest
}

/** Those who call tools worse than the best of them does, beyond what chance explains. Nobody is of whom too little is known. */
export function worse(
  { traffic: { health } }: InferenceWorld,
  endpoints: Endpoint[],
): Set<Endpoint> {
  const best = endpoints.reduce(
    (most, endpoint) => Math.max(most, health.quality(endpoint)?.lower ?? 0),
    0,
  )
  return best === 0
    ? NOBODY
    : new Set(endpoints.filter(endpoint => (health.quality(endpoint)?.upper ?? 1) < best))
}

export const NOBODY = new Set<Endpoint>()

/** A token read and a token written, or one unit, in atto-dollars. Null where it is unknown. */
const priceOf = ({ prices }: Endpoint): number | null => (prices ? Number(sumPrices(prices)) : null)

/**
 * The same endpoints, with those put behind that miss a preferred throughput or latency, and behind them those that rest, the
 * first to be well again first. What was not measured misses nothing.
 */
export function deferred(
  { traffic: { health } }: InferenceWorld,
  endpoints: Endpoint[],
  routing: RoutingPreferences,
): Endpoint[] {
  const meeting = by(endpoints, endpoint => Number(misses(health, endpoint, routing)))
  return by(meeting, endpoint => health.restsUntil(endpoint))
}

/** Whether what was measured of the endpoint is worse than what the caller prefers. */
export function misses(
  health: Health,
  endpoint: Endpoint,
  { preferred_min_throughput: least, preferred_max_latency: most }: RoutingPreferences,
): boolean {
  const isSlow = (
    cutoffs: Cutoffs,
    what: 'throughput' | 'latency',
    isMissed: (value: number, cutoff: number) => boolean,
  ) => {
    const measured = health.measured(endpoint, what)
    return (
      measured !== null &&
      PERCENTILES.some(name => isMissed(measured[name], cutoffs[name] ?? Number.NaN))
    )
  }
  return (
    (least !== undefined && isSlow(least, 'throughput', (value, cutoff) => value < cutoff)) ||
    (most !== undefined && isSlow(most, 'latency', (value, cutoff) => value > cutoff * 1000))
  )
}

/** In the order of a number, as they were where it is the same. */
export function by<T>(all: T[], numberOf: (one: T) => number): T[] {
  if (all.length < 2) return all
  const numbered = all.map(one => ({ one, number: numberOf(one) }))
  const isSorted = numbered.every(
    ({ number }, i) => i === 0 || (numbered[i - 1]?.number ?? 0) <= number,
  )
  return isSorted
    ? all
    : numbered
        .sort((a, b) => (a.number < b.number ? -1 : Number(a.number > b.number)))
        .map(({ one }) => one)
}
