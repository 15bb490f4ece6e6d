import { toAttosPerThousandth, toAttosPerToken, toAttosPerUnit } from '../base/money.ts'
import type { UsdPerMillionTokens } from '../config/prices.ts'
import { UNIT_ROWS } from '../language/units.ts'
import type { Drawn } from '../language/usage.ts'

/** The name of a price. */
type PriceName = Exclude<keyof UsdPerMillionTokens, 'tiers' | 'variants'>

/**
 * Prices as the ledger counts them, in atto-dollars: per token, per call (`request`), and per unit.
 * Where a unit is measured in fractions the price is that of a thousandth.
 */
export type Prices = Partial<Record<PriceName, bigint>> & BasePrices

interface BasePrices {
  prompt: bigint
  completion: bigint
  tiers?: PriceTier[]
  variants?: PriceVariant[]
}

/** All prices for pictures of a quality, a resolution, or both. */
interface PriceVariant extends Drawn {
  prices: Prices
}

/** All prices for an input of more than `above` tokens. */
export interface PriceTier {
  above: number
  prices: Prices
}

/**
 * Converts a price list to exact prices. Each tier is complete: it takes what it leaves out from
 * the tier below, and each variant from the list itself.
 */
export function toExactPrices({
  tiers = [],
  variants = [],
  ...rates
}: UsdPerMillionTokens): Prices {
  const base = toExactRates(rates) as Prices
  return {
    ...base,
    ...(tiers.length > 0 ? { tiers: buildPriceTiers(base, tiers) } : {}),
    ...(variants.length > 0 ? { variants: buildPriceVariants(base, variants) } : {}),
  }
}

const buildPriceVariants = (
  base: Prices,
  variants: NonNullable<UsdPerMillionTokens['variants']>,
): PriceVariant[] =>
  variants.map(({ quality, resolution, ...rates }) => ({
    ...(quality === undefined ? {} : { quality }),
    ...(resolution === undefined ? {} : { resolution }),
    prices: { ...base, ...toExactRates(rates) },
  }))

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
 * is priced. Of pictures the last variant counts whose words are theirs.
 */
export function pickPrices(prices: Prices, inputTokens: number, drawn?: Drawn): Prices {
  const variant = drawn && prices.variants?.findLast(one => matches(one, drawn))
  if (variant) return variant.prices
  return prices.tiers?.findLast(tier => inputTokens > tier.above)?.prices ?? prices
}

const matches = ({ quality, resolution }: PriceVariant, drawn: Drawn): boolean =>
  (quality === undefined || quality === drawn.quality) &&
  (resolution === undefined || resolution === drawn.resolution)

/** Whether pictures of which only this is known may turn out to be of the variant. */
const mayMatch = ({ quality, resolution }: PriceVariant, drawn: Drawn): boolean =>
  (quality === undefined || (drawn.quality ?? quality) === quality) &&
  (resolution === undefined || (drawn.resolution ?? resolution) === resolution)

/**
 * Returns the highest of each price that may apply to an input of at most so many tokens, and to
 * pictures of which this is known: a smaller input may be in another tier.
 */
export function computeHighestPrices(
  prices: Prices,
  mostInputTokens: number,
  drawn: Drawn = UNKNOWN,
): Prices {
  let highest = prices
  for (const variant of prices.variants ?? NO_VARIANTS)
    if (mayMatch(variant, drawn)) highest = mergeHighestPrices(highest, variant.prices)
  for (const tier of prices.tiers ?? NO_TIERS)
    if (mostInputTokens > tier.above) highest = mergeHighestPrices(highest, tier.prices)
  return highest
}

const NO_TIERS: PriceTier[] = []
const NO_VARIANTS: PriceVariant[] = []
const UNKNOWN: Drawn = {}

function mergeHighestPrices(
  { tiers: _, variants: __, ...one }: Prices,
  { tiers: ___, variants: ____, ...other }: Prices,
): Prices {
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
export const isFree = ({ tiers = NO_TIERS, variants = NO_VARIANTS, ...rates }: Prices): boolean =>
  Object.values(rates).every(rate => rate === 0n) &&
  [...tiers, ...variants].every(({ prices }) => isFree(prices))

/** The prices of a free endpoint. */
export const FREE: Prices = { prompt: 0n, completion: 0n }
