import type { UsdPerMillionTokens } from '../../src/config/prices.ts'
import type { GenaiPrices, PiModel, PricedModel } from './sources.ts'

type Rates = UsdPerMillionTokens

/** In USD. A higher price for a million tokens is a mistake in the source. */
const DEAREST = 1_000

/** Reads the prices in pi-ai. Undefined where it has none: zero stands for unknown there. */
export function readPiPrices({ cost }: PiModel): Rates | undefined {
  if (cost.input === 0 && cost.output === 0) return undefined
  const tiers = cost.tiers?.map(({ inputTokensAbove, ...rates }) => ({
    above: inputTokensAbove,
    ...readPiRates(rates),
  }))
  return { ...readPiRates(cost), ...(tiers && tiers.length > 0 ? { tiers } : {}) }
}

const readPiRates = ({ input, output, cacheRead, cacheWrite }: PiModel['cost']) => ({
  prompt: input,
  completion: output,
  ...(cacheRead ? { cache_read: cacheRead } : {}),
  ...(cacheWrite ? { cache_write: cacheWrite } : {}),
})

/**
 * genai-prices' names of the prices that we know. Hours, pages and store searches are left out,
 * since no usage here reports them.
 */
const TOKENS: Record<string, Exclude<keyof Rates, 'tiers' | 'variants'>> = {
  input_mtok: 'prompt',
  output_mtok: 'completion',
  cache_read_mtok: 'cache_read',
  cache_write_mtok: 'cache_write',
  cache_write_1h_mtok: 'cache_write_1h',
  output_reasoning_mtok: 'reasoning',
  input_audio_mtok: 'audio',
  output_audio_mtok: 'audio_output',
  input_image_mtok: 'image',
  output_image_mtok: 'image_output',
}

/** Per thousand in genai-prices, per unit here. */
const COUNTED: Record<string, 'request' | 'web_search'> = {
  requests_kcount: 'request',
  web_searches_kcount: 'web_search',
}

/** Reads the prices in genai-prices on that day. Undefined where none of them is per token. */
export function readGenaiPrices(model: PricedModel, today: string): Rates | undefined {
  const prices = pickCurrentPrices(model, today)
  if (!prices) return undefined
  const rates: Partial<Rates> = {}
  for (const [name, price] of Object.entries(prices)) {
    const token = TOKENS[name]
    const counted = COUNTED[name]
    if (token) rates[token] = typeof price === 'number' ? price : price.base
    else if (counted && typeof price === 'number') rates[counted] = price / 1000
  }
  if (rates.prompt === undefined && rates.completion === undefined) return undefined
  const tiers = readTiers(prices)
  return { prompt: 0, completion: 0, ...rates, ...(tiers.length > 0 ? { tiers } : {}) }
}

// Of prices by the time of day the highest, since the ledger does not price by the clock.
function pickCurrentPrices({ prices }: PricedModel, today: string): GenaiPrices | undefined {
  if (!Array.isArray(prices)) return prices
  const begun = prices.filter(
    ({ constraint }) => !constraint?.start_date || constraint.start_date <= today,
  )
  const dated = begun.filter(({ constraint }) => constraint?.type !== 'time_of_date').at(-1)
  const hours = begun.filter(({ constraint }) => constraint?.type === 'time_of_date')
  return [...hours, ...(dated ? [dated] : [])]
    .map(one => one.prices)
    .reduce((best, next) => (getOutputRate(next) > getOutputRate(best) ? next : best))
}

const getOutputRate = ({ output_mtok = 0 }: GenaiPrices) =>
  typeof output_mtok === 'number' ? output_mtok : output_mtok.base

function readTiers(prices: GenaiPrices): NonNullable<Rates['tiers']> {
  const tiers = new Map<number, NonNullable<Rates['tiers']>[number]>()
  for (const [name, price] of Object.entries(prices)) {
    const token = TOKENS[name]
    if (!token || typeof price === 'number') continue
    for (const { start, price: rate } of price.tiers)
      tiers.set(start, { ...(tiers.get(start) ?? { above: start }), [token]: rate })
  }
  return [...tiers.values()].sort((a, b) => a.above - b.above)
}

/**
 * Joins the prices of both sources. Where they agree on input and output, genai-prices adds detail:
 * cache writes of an hour, searches, audio, and the exact start of a tier. Where they differ, pi-ai
 * is newer.
 */
export function joinPrices(
  pi: Rates | undefined,
  genai: Rates | undefined,
): { prices: Rates | undefined; conflict: boolean } {
  if (!pi || !genai) return { prices: pi ?? genai, conflict: false }
  const agree = pi.prompt === genai.prompt && pi.completion === genai.completion
  return agree ? { prices: { ...pi, ...genai }, conflict: false } : { prices: pi, conflict: true }
}

/** Returns whether every price is one that a model may have. */
export const isPlausible = ({ tiers = [], ...rates }: Rates): boolean =>
  [...tiers.map(({ above: _, ...rest }) => rest), rates].every(one =>
    Object.values(one).every(rate => Number.isFinite(rate) && rate >= 0 && rate <= DEAREST),
  )
