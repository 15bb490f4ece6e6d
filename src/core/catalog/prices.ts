import type { UsdPerMillionTokens } from '../config/prices.ts'
import { attosOfUsd, attosPerThousandth, attosPerToken } from '../kernel/money.ts'
import { UNIT_ROWS } from '../language/units.ts'

/** The name of a price. */
type Priced = Exclude<keyof UsdPerMillionTokens, 'tiers'>

/**
 * Prices as the ledger counts them, in atto-dollars: per token, per call (`request`), and per unit.
 * Where a unit is measured in fractions the price is that of a thousandth.
 */
export type Prices = Partial<Record<Priced, bigint>> & BasePrices

interface BasePrices {
  prompt: bigint
  completion: bigint
  tiers?: Tier[]
}

/** All prices for an input of more than `above` tokens. */
export interface Tier {
  above: number
  prices: Prices
}

/**
 * Converts a price list to exact prices. Each tier is complete: it takes what it leaves out from
 * the tier below.
 */
export function pricesOf({ tiers = [], ...rates }: UsdPerMillionTokens): Prices {
  const base = exact(rates) as Prices
  if (tiers.length === 0) return base
  return { ...base, tiers: tiersOver(base, tiers) }
}

function tiersOver(base: Prices, tiers: NonNullable<UsdPerMillionTokens['tiers']>): Tier[] {
  let prices = base
  return tiers
    .toSorted((a, b) => a.above - b.above)
    .map(({ above, ...rates }) => {
      prices = { ...prices, ...exact(rates) }
      return { above, prices }
    })
}

function exact(rates: Partial<Record<Priced, number>>): Partial<Record<Priced, bigint>> {
  const prices: Partial<Record<Priced, bigint>> = {}
  for (const [name, rate] of Object.entries(rates) as [Priced, number | undefined][])
    if (rate !== undefined) prices[name] = (EACH.get(name) ?? attosPerToken)(rate)
  return prices
}

/** Converters for the prices that are not per token. */
const EACH = new Map<Priced, (usd: number) => bigint>([
  ['request', attosOfUsd],
  ...UNIT_ROWS.map(row => [row.price, row.parts === 1 ? attosOfUsd : attosPerThousandth] as const),
])

/**
 * Picks the prices of a call by its whole input, cached or not: the tier is chosen before anything
 * is priced.
 */
export function pricesFor(prices: Prices, inputTokens: number): Prices {
  return prices.tiers?.findLast(tier => inputTokens > tier.above)?.prices ?? prices
}

/**
 * Returns the highest of each price that may apply to an input of at most so many tokens: a smaller
 * input may be in another tier.
 */
export function dearestFor(prices: Prices, mostInputTokens: number): Prices {
  let dearest = prices
  for (const tier of prices.tiers ?? NONE)
    if (mostInputTokens > tier.above) dearest = dearer(dearest, tier.prices)
  return dearest
}

const NONE: Tier[] = []

function dearer({ tiers: _, ...one }: Prices, { tiers: __, ...other }: Prices): Prices {
  const dearest: Prices = { ...one }
  for (const [name, price] of Object.entries(other) as [Priced, bigint][]) {
    if (price > (dearest[name] ?? 0n)) dearest[name] = price
  }
  return dearest
}

/**
 * Returns the sum of what one token read, one token written and one of each unit cost, in
 * atto-dollars. Endpoints are compared by it. Units that come beside others are left out. Every
 * plan needs it, so it is computed once for each price list.
 */
export function sumPrices(prices: Prices): bigint {
  const known = SUMS.get(prices)
  if (known !== undefined) return known
  let sum = prices.prompt + prices.completion
  for (const name of COMPARED) sum += prices[name] ?? 0n
  SUMS.set(prices, sum)
  return sum
}

const SUMS = new WeakMap<Prices, bigint>()

const COMPARED = UNIT_ROWS.filter(row => !row.isBeside).map(row => row.price)

/** Returns whether every price is zero. */
export const isFree = ({ tiers = NONE, ...rates }: Prices): boolean =>
  Object.values(rates).every(rate => rate === 0n) && tiers.every(({ prices }) => isFree(prices))

/** The prices of a free endpoint. */
export const FREE: Prices = { prompt: 0n, completion: 0n }
