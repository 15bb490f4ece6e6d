import {
  type Cutoffs,
  PERCENTILES,
  type RoutingPreferences,
  type ServiceTier,
  type SortKey,
} from '../../language/routing.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { sumPrices } from '../../resources/prices.ts'
import type { Health } from '../health.ts'
import type { InferenceWorld } from '../world.ts'
import { matchesProviderName } from './constraints.ts'

/**
 * Moves the endpoints that the caller names to the front, in the order of the names. The others
 * keep their order.
 */
export function moveNamedFirst(endpoints: Endpoint[], names: string[]): Endpoint[] {
  const rank = (endpoint: Endpoint) => names.findIndex(name => matchesProviderName(endpoint, name))
  const ranked = endpoints.map(endpoint => ({ endpoint, position: rank(endpoint) }))
  const named = ranked
    .filter(({ position }) => position !== -1)
    .sort((a, b) => a.position - b.position)
  return [...named, ...ranked.filter(({ position }) => position === -1)].map(
    ({ endpoint }) => endpoint,
  )
}

/**
 * Moves the endpoints of the requested service tier to the front (wire reference K.5): those of
 * `priority` by throughput, those of `flex` by price.
 */
export function moveTierFirst(
  world: InferenceWorld,
  endpoints: Endpoint[],
  requested: ServiceTier | undefined,
  streamed: boolean,
): Endpoint[] {
  const isRequested = ({ service_tier }: Endpoint) => service_tier === requested
  if (requested === undefined || !endpoints.some(isRequested)) return endpoints
  const sort = requested === 'priority' ? 'throughput' : 'price'
  const first = sortEndpoints(world, endpoints.filter(isRequested), sort, streamed)
  return [...first, ...endpoints.filter(endpoint => !isRequested(endpoint))]
}

/**
 * Sorts endpoints, best first: by price, by the median speed of the last five minutes, or by how
 * well they call tools, as far as the answers of a day tell. Ties go to the cheaper one. Unknown
 * prices come last.
 */
export function sortEndpoints(
  world: InferenceWorld,
  endpoints: Endpoint[],
  sort: SortKey,
  streamed: boolean,
): Endpoint[] {
  if (sort === 'exacto')
    return sortByNumber(
      sortEndpoints(world, endpoints, 'price', streamed),
      endpoint => -(world.traffic.health.getToolCallQuality(endpoint)?.lower ?? UNKNOWN_QUALITY),
    )
  const getSortValue = createSortValue(world, sort, streamed)
  return sortByNumber(endpoints, endpoint => getSortValue(endpoint))
}

// An endpoint without a known quality ranks as one that is equally likely good or bad: `exacto` is
// no occasion to explore.
const UNKNOWN_QUALITY = 0.5

// An endpoint without measurements goes first if this call would measure it; otherwise it would
// never be measured.
function createSortValue(
  { traffic: { health } }: InferenceWorld,
  sort: Exclude<SortKey, 'exacto'>,
  streamed: boolean,
): (endpoint: Endpoint) => number {
  switch (sort) {
    case 'price':
      return endpoint => computePrice(endpoint) ?? Number.POSITIVE_INFINITY
    case 'throughput':
      return endpoint => -(health.getPercentiles(endpoint, sort)?.p50 ?? Number.POSITIVE_INFINITY)
    case 'latency':
      return endpoint =>
        health.getPercentiles(endpoint, sort)?.p50 ?? (streamed ? 0 : Number.POSITIVE_INFINITY)
  }
}

/**
 * Shuffles endpoints so that each comes first with a probability by the inverse square of its price
 * (wire reference K.1), and so on among the rest. Free ones precede all that cost something, each
 * equally likely. An unknown price counts as the highest known one. Keeps the listed order if the
 * config says so.
 */
export function shuffleByWeight(
  { config, ids: { random } }: InferenceWorld,
  endpoints: Endpoint[],
): Endpoint[] {
  if (config.routing.choice === 'listed' || endpoints.length < 2) return endpoints
  const getPrice = createPriceLookup(endpoints)
  // A race: if each waits for a random time with the mean 1/weight, each comes first with the
  // probability of its weight.
  const entries = endpoints.map(endpoint => ({
    endpoint,
    price: getPrice(endpoint),
    luck: -Math.log(1 - random()),
  }))
  entries.sort((a, b) => a.luck * a.price ** 2 - b.luck * b.price ** 2 || a.luck - b.luck)
  return entries.map(({ endpoint }) => endpoint)
}

/**
 * Returns a lookup of each endpoint's price for the shuffle. An unknown price counts as the highest
 * known one.
 */
export function createPriceLookup(endpoints: Endpoint[]): (endpoint: Endpoint) => number {
  const dearest =
    endpoints.reduce((most, endpoint) => Math.max(most, computePrice(endpoint) ?? 0), 0) || 1
  return endpoint => computePrice(endpoint) ?? dearest
}

/**
 * Finds the endpoints that call tools worse than the best one, beyond what chance explains. An
 * endpoint with too few answers is never among them.
 */
export function findPoorToolCallers(
  { traffic: { health } }: InferenceWorld,
  endpoints: Endpoint[],
): Set<Endpoint> {
  const best = endpoints.reduce(
    (most, endpoint) => Math.max(most, health.getToolCallQuality(endpoint)?.lower ?? 0),
    0,
  )
  return best === 0
    ? NO_ENDPOINTS
    : new Set(
        endpoints.filter(endpoint => (health.getToolCallQuality(endpoint)?.upper ?? 1) < best),
      )
}

export const NO_ENDPOINTS = new Set<Endpoint>()

/**
 * Computes the price of a token read and a token written, or of one unit, in atto-dollars. Null if
 * unknown.
 */
const computePrice = ({ prices }: Endpoint): number | null =>
  prices ? Number(sumPrices(prices)) : null

/**
 * Moves endpoints that miss a preferred throughput or latency to the back, and those in a cooldown
 * behind them, the first to end first. An endpoint without measurements misses nothing.
 */
export function deferEndpoints(
  { traffic: { health } }: InferenceWorld,
  endpoints: Endpoint[],
  routing: RoutingPreferences,
): Endpoint[] {
  const preferredFirst = sortByNumber(endpoints, endpoint =>
    Number(missesPreference(health, endpoint, routing)),
  )
  return sortByNumber(preferredFirst, endpoint => health.getCooldownEnd(endpoint))
}

/** Tells whether the measurements of the endpoint are worse than what the caller prefers. */
export function missesPreference(
  health: Health,
  endpoint: Endpoint,
  { preferred_min_throughput: least, preferred_max_latency: most }: RoutingPreferences,
): boolean {
  const isSlow = (
    cutoffs: Cutoffs,
    what: 'throughput' | 'latency',
    isMissed: (value: number, cutoff: number) => boolean,
  ) => {
    const measured = health.getPercentiles(endpoint, what)
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

/** Sorts by a number. Ties keep their order. */
export function sortByNumber<T>(items: T[], toNumber: (item: T) => number): T[] {
  if (items.length < 2) return items
  const entries = items.map(item => ({ item, number: toNumber(item) }))
  const isSorted = entries.every(
    ({ number }, i) => i === 0 || (entries[i - 1]?.number ?? 0) <= number,
  )
  return isSorted
    ? items
    : entries
        .sort((a, b) => (a.number < b.number ? -1 : Number(a.number > b.number)))
        .map(({ item }) => item)
}
