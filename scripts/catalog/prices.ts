import type { UsdPerMillionTokens } from '../../src/core/config/prices.ts'
import type { GenaiPrices, PiModel, PricedModel } from './sources.ts'

type Rates = UsdPerMillionTokens

/** No model costs more than this for a million tokens: what does is a mistake of the source. */
const DEAREST = 1_000

/** The prices in pi-ai. Undefined where it has none: there, zero is what is not known. */
export function piPrices({ cost }: PiModel): Rates | undefined {
  if (cost.input === 0 && cost.output === 0) return undefined
  const tiers = cost.tiers?.map(({ inputTokensAbove, ...rates }) => ({
    above: inputTokensAbove,
    ...piRates(rates),
  }))
  return { ...piRates(cost), ...(tiers && tiers.length > 0 ? { tiers } : {}) }
}

const piRates = ({ input, output, cacheRead, cacheWrite }: PiModel['cost']) => ({
  prompt: input,
  completion: output,
  ...(cacheRead ? { cache_read: cacheRead } : {}),
  ...(cacheWrite ? { cache_write: cacheWrite } : {}),
})

/** genai-prices' names of what we know. What it counts in hours, pages or searches of a store, no usage here tells. */
const TOKENS: Record<string, Exclude<keyof Rates, 'tiers'>> = {
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

/** Per thousand there, per one here. */
const COUNTED: Record<string, 'request' | 'web_search'> = {
  requests_kcount: 'request',
  web_searches_kcount: 'web_search',
}

/** The prices in genai-prices on that day. Undefined where nothing of them is per token. */
export function genaiPrices(model: PricedModel, today: string): Rates | undefined {
  const prices = pricesOn(model, today)
  if (!prices) return undefined
  const rates: Partial<Rates> = {}
  for (const [name, price] of Object.entries(prices)) {
    const token = TOKENS[name]
    const counted = COUNTED[name]
    if (token) rates[token] = typeof price === 'number' ? price : price.base
    else if (counted && typeof price === 'number') rates[counted] = price / 1000
  }
  if (rates.prompt === undefined && rates.completion === undefined) return undefined
  const tiers = tiersOf(prices)
  return { prompt: 0, completion: 0, ...rates, ...(tiers.length > 0 ? { tiers } : {}) }
}

// The dearest hour of the day: a price by the clock would need a clock.
function pricesOn({ prices }: PricedModel, today: string): GenaiPrices | undefined {
  if (!Array.isArray(prices)) return prices
  const begun = prices.filter(
    ({ constraint }) => !constraint?.start_date || constraint.start_date <= today,
  )
  const dated = begun.filter(({ constraint }) => constraint?.type !== 'time_of_date').at(-1)
  const hours = begun.filter(({ constraint }) => constraint?.type === 'time_of_date')
  return [...hours, ...(dated ? [dated] : [])]
    .map(one => one.prices)
    .reduce((best, next) => (output(next) > output(best) ? next : best))
}

const output = ({ output_mtok = 0 }: GenaiPrices) =>
  typeof output_mtok === 'number' ? output_mtok : output_mtok.base

function tiersOf(prices: GenaiPrices): NonNullable<Rates['tiers']> {
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
 * Both as one. Where they agree on input and output, genai-prices is the finer: it knows cache writes of an hour, searches and sounds, and where a
 * tier begins exactly. Where they do not, pi-ai is the newer.
 */
export function joined(
  pi: Rates | undefined,
  genai: Rates | undefined,
): { prices: Rates | undefined; conflict: boolean } {
  if (!pi || !genai) return { prices: pi ?? genai, conflict: false }
  const agree = pi.prompt === genai.prompt && pi.completion === genai.completion
  return agree ? { prices: { ...pi, ...genai }, conflict: false } : { prices: pi, conflict: true }
}

/** Whether a model could cost that. */
export const isSound = ({ tiers = [], ...rates }: Rates): boolean =>
  [...tiers.map(({ above: _, ...rest }) => rest), rates].every(one =>
    Object.values(one).every(rate => Number.isFinite(rate) && rate >= 0 && rate <= DEAREST),
  )
