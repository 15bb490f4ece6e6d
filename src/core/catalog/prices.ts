import type { UsdPerMillionTokens } from '../config/prices.ts'
import { toAttosPerThousandth, toAttosPerToken, toAttosPerUnit } from '../kernel/money.ts'
import { UNIT_ROWS } from '../language/units.ts'

/** The name of a price. */
type PriceName = Exclude<keyof UsdPerMillionTokens, 'tiers'>

/**
 * Prices as the ledger counts them, in atto-dollars: per token, per call (`request`), and per unit.
 * Where a unit is measured in fractions the price is that of a thousandth.
 */
export type Prices = Partial<Record<PriceName, bigint>> & BasePrices

interface BasePrices {
  prompt: bigint
  completion: bigint
  tiers?: PriceTier[]
}

/** All prices for an input of more than `above` tokens. */
export interface PriceTier {
  above: number
  prices: Prices
}

/**
 * Converts a price list to exact prices. Each tier is complete: it takes what it leaves out from
 * the tier below.
 */
export function toExactPrices({ tiers = [], ...rates }: UsdPerMillionTokens): Prices {
  const base = toExactRates(rates) as Prices
  if (tiers.length === 0) return base
  return { ...base, tiers: buildPriceTiers(base, tiers) }
}

function buildPriceTiers(
  base: Prices,
  tiers: NonNullable<UsdPerMillionTokens['tiers']>,
): PriceTier[] {
  let prices = base
  return tiers
    .toSorted((a, b) => a.above - b.above)
    .map(({ above, ...rates }) => {
      prices = { ...prices, ...toExactRates(rates) }
      return { above, prices }
    })
}

function toExactRates(
  rates: Partial<Record<PriceName, number>>,
): Partial<Record<PriceName, bigint>> {
  const prices: Partial<Record<PriceName, bigint>> = {}
  for (const [name, rate] of Object.entries(rates) as [PriceName, number | undefined][])
    if (rate !== undefined) prices[name] = (RATE_CONVERTERS.get(name) ?? toAttosPerToken)(rate)
  return prices
}

/** Converters for the prices that are not per token. */
const RATE_CONVERTERS = new Map<PriceName, (usd: number) => bigint>([
  ['request', toAttosPerUnit],
  ...UNIT_ROWS.map(
    row => [row.price, row.partsPerUnit === 1 ? toAttosPerUnit : toAttosPerThousandth] as const,
  ),
])

/**
 * Picks the prices of a call by its whole input, cached or not: the tier is chosen before anything
 * is priced.
 */
export function pickPrices(prices: Prices, inputTokens: number): Prices {
  return prices.tiers?.findLast(tier => inputTokens > tier.above)?.prices ?? prices
}

/**
 * Returns the highest of each price that may apply to an input of at most so many tokens: a smaller
 * input may be in another tier.
 */
export function computeHighestPrices(prices: Prices, mostInputTokens: number): Prices {
  let highest = prices
  for (const tier of prices.tiers ?? NO_TIERS)
    if (mostInputTokens > tier.above) highest = mergeHighestPrices(highest, tier.prices)
  return highest
}

const NO_TIERS: PriceTier[] = []

function mergeHighestPrices({ tiers: _, ...one }: Prices, { tiers: __, ...other }: Prices): Prices {
  const highest: Prices = { ...one }
  for (const [name, price] of Object.entries(other) as [PriceName, bigint][]) {
    if (price > (highest[name] ?? 0n)) highest[name] = price
  }
  return highest
}

/**
 * Returns the sum of what one token read, one token written and one of each unit cost, in
 * atto-dollars. Endpoints are compared by it. Units that come beside others, and variants of units, are left out. Every
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

const COMPARED = UNIT_ROWS.filter(row => !row.isSupplementary && row.otherwise === undefined).map(
  row => row.price,
)

/** Returns whether every price is zero. */
export const isFree = ({ tiers = NO_TIERS, ...rates }: Prices): boolean =>
  Object.values(rates).every(rate => rate === 0n) && tiers.every(({ prices }) => isFree(prices))

/** The prices of a free endpoint. */
export const FREE: Prices = { prompt: 0n, completion: 0n }
