import type { UsdPerMillionTokens } from '../config/prices.ts'
import { attosOfUsd, attosPerThousandth, attosPerToken } from '../kernel/money.ts'
import { UNIT_ROWS } from '../language/units.ts'

/** What has a price. */
type Priced = Exclude<keyof UsdPerMillionTokens, 'tiers'>

/**
 * Prices as the ledger has them, in atto-dollars: per token, per call (`request`), and per count of
 * a unit, which is a thousandth of it where it is measured in fractions.
 */
export type Prices = Partial<Record<Priced, bigint>> & BasePrices

interface BasePrices {
  prompt: bigint
  completion: bigint
  tiers?: Tier[]
}

/** The whole prices of an input of more than `above` tokens. */
export interface Tier {
  above: number
  prices: Prices
}

/** The exact prices of a price list. Its tiers are whole: what one leaves out it has from the one below. */
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

/** How the prices are made exact that are not per token. */
const EACH = new Map<Priced, (usd: number) => bigint>([
  ['request', attosOfUsd],
  ...UNIT_ROWS.map(row => [row.price, row.parts === 1 ? attosOfUsd : attosPerThousandth] as const),
])

/** The prices of a call by the count of its whole input, cached or not: a tier is chosen before anything is priced. */
export function pricesFor(prices: Prices, inputTokens: number): Prices {
  return prices.tiers?.findLast(tier => inputTokens > tier.above)?.prices ?? prices
}

/** Of each price the dearest that a call may be counted at whose input has at most so many tokens: fewer may be in another tier. */
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
 * Returns what a token read, a token written and a count of each unit cost together, in
 * atto-dollars: by this number endpoints are compared. Units that come beside others are left out.
 * Every plan asks for it, so it is added up once for each list of prices.
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

/** Whether under these prices nothing costs anything. */
export const isFree = ({ tiers = NONE, ...rates }: Prices): boolean =>
  Object.values(rates).every(rate => rate === 0n) && tiers.every(({ prices }) => isFree(prices))

/** The prices of an endpoint that costs nothing. */
export const FREE: Prices = { prompt: 0n, completion: 0n }
