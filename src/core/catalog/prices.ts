import type { UsdPerMillionTokens } from '../config/prices.ts'
import { attosOfUsd, attosPerToken } from '../kernel/money.ts'

/** What is priced per token. */
type Rated = Exclude<keyof UsdPerMillionTokens, 'tiers' | 'request' | 'web_search'>

/** Prices as the ledger has them: atto-dollars per token; `request` per call and `web_search` per search. */
export type Prices = { prompt: bigint; completion: bigint; request?: bigint; web_search?: bigint; tiers?: Tier[] } & Partial<
  Record<Rated, bigint>
>

/** The whole prices of an input of more than `above` tokens. */
export interface Tier {
  above: number
  prices: Prices
}

/** The exact prices of a price list. Its tiers are whole: what one leaves out it has from the one below. */
export function pricesOf({ tiers = [], request, web_search, ...rates }: UsdPerMillionTokens): Prices {
  const base = { ...exact(rates), ...exactEach({ request, web_search }) } as Prices
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

const exact = (rates: Partial<Record<Rated, number>>): Partial<Record<Rated, bigint>> => mapped(rates, attosPerToken)
const exactEach = (each: { request: number | undefined; web_search: number | undefined }) => mapped(each, attosOfUsd)

const mapped = (rates: Record<string, number | undefined>, change: (rate: number) => bigint) =>
  Object.fromEntries(Object.entries(rates).flatMap(([name, rate]) => (rate === undefined ? [] : [[name, change(rate)]])))

/** The prices of a call by the count of its whole input, cached or not: a tier is chosen before anything is priced. */
export function pricesFor(prices: Prices, inputTokens: number): Prices {
  return prices.tiers?.findLast(tier => inputTokens > tier.above)?.prices ?? prices
}

/** Of each price the dearest that a call may be counted at whose input has at most so many tokens: fewer may be in another tier. */
export function dearestFor(prices: Prices, mostInputTokens: number): Prices {
  let dearest = prices
  for (const tier of prices.tiers ?? NONE) if (mostInputTokens > tier.above) dearest = dearer(dearest, tier.prices)
  return dearest
}

const NONE: Tier[] = []

function dearer({ tiers: _, ...one }: Prices, { tiers: __, ...other }: Prices): Prices {
  const dearest: Prices = { ...one }
  for (const [name, price] of Object.entries(other) as [Rated, bigint][]) if (price > (dearest[name] ?? 0n)) dearest[name] = price
  return dearest
}

/** Whether under these prices nothing costs anything. */
export const isFree = ({ tiers = NONE, ...rates }: Prices): boolean =>
  Object.values(rates).every(rate => rate === 0n) && tiers.every(({ prices }) => isFree(prices))

/** The prices of an endpoint that costs nothing. */
export const FREE: Prices = { prompt: 0n, completion: 0n }
