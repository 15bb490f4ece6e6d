import {
  multiplyPrice,
  pickLarger,
  roundToNanos,
  toAttosPerThousandth,
  toAttosPerToken,
  toAttosPerUnit,
} from '../base/money.ts'
import type { UsdPerMillionTokens } from '../config/prices.ts'
import {
  countInputTokens,
  type Drawn,
  type Receipt,
  UNIT_ROWS,
  UNITS,
  type Unit,
  type UnitPrice,
  type UnitRow,
  type Units,
  type Usage,
} from '../language/usage.ts'

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

/** What a token may cost at most, whatever it turns out to be, in atto-dollars. */
interface Dearest {
  input: bigint
  audio: bigint
  /** Of the answer, but for sound. */
  output: bigint
}

/**
 * Returns the highest prices of one token. It is not known in advance whether a prompt is read from
 * a cache or written to one, nor whether audio and pictures are counted separately. Computed once
 * for each price list.
 */
export function getDearest(prices: Prices): Dearest {
  let dearest = DEAREST.get(prices)
  if (!dearest) {
    dearest = findDearest(prices)
    DEAREST.set(prices, dearest)
  }
  return dearest
}

function findDearest(prices: Prices): Dearest {
  const { prompt, cache_read, cache_write, cache_write_1h, image, audio } = prices
  const { completion, reasoning, image_output } = prices
  const input = [cache_read, cache_write, cache_write_1h, image].reduce(pickLarger, prompt)
  const output = [reasoning, image_output].reduce(pickLarger, completion)
  return { input, audio: pickLarger(input, audio), output }
}

/** Returns the most that an input of these counts costs, with the price of a request. */
export function priceLargestInput(
  { text, audio, video }: Pick<Usage['input'], 'text' | 'audio' | 'video'>,
  prices: Prices,
): bigint {
  const dearest = getDearest(prices)
  const sound = audio === 0 ? 0n : multiplyPrice(audio, dearest.audio)
  return (prices.request ?? 0n) + sound + multiplyPrice(text + video, dearest.input)
}

const DEAREST = new WeakMap<Prices, Dearest>()

/** Returns whether every price is zero. */
export const isFree = ({ tiers = NO_TIERS, variants = NO_VARIANTS, ...rates }: Prices): boolean =>
  Object.values(rates).every(rate => rate === 0n) &&
  [...tiers, ...variants].every(({ prices }) => isFree(prices))

/** The prices of a free endpoint. */
export const FREE: Prices = { prompt: 0n, completion: 0n }

type Cost = Pick<Receipt, 'cost' | 'cost_details'>

/**
 * Returns what the usage costs at these prices, in nano-dollars, rounded once. Returns null where
 * the endpoint has no price: an unknown cost is not a cost of zero.
 *
 * A class without a price of its own costs what its parent does: cached, audio and image input like
 * the prompt; reasoning, audio and images like the completion. A unit without a price costs what its
 * parent does, or nothing.
 * The price of a request and units of input are part of the prompt's cost, units of output of the
 * completion's. Where the provider charges for other token counts than it reports, the charged
 * counts apply.
 */
export function computeCost(usage: Usage, prices: Prices | null): Cost {
  if (!prices) return { cost: null, cost_details: null }
  const rates = pickPrices(prices, countInputTokens(usage), usage.drawn)
  const { input, output } = usage.billed ?? usage
  const { units } = usage
  let prompt = priceInput(input, rates) + (rates.request ?? 0n)
  let completion = priceOutput(output, rates)
  if (units) {
    prompt += priceUnits(units, rates, 'input')
    completion += priceUnits(units, rates, 'output')
  }
  const cost = roundToNanos(prompt + completion)
  const rounded = roundToNanos(prompt)
  return { cost, cost_details: { prompt: rounded, completion: cost - rounded } }
}

/**
 * Returns the cost of an input of which only these counts are known, and of its units, in
 * nano-dollars. Units of output are not part of it: they are yet to be made.
 */
export function computeInputCost(
  { text, audio, video }: Pick<Usage['input'], 'text' | 'audio' | 'video'>,
  units: Units,
  prices: Prices,
): bigint {
  const rates = pickPrices(prices, text + audio + video)
  const other = priceUnits(units, rates, 'input') + (rates.request ?? 0n)
  const sound = audio === 0 ? 0n : multiplyPrice(audio, rates.audio ?? rates.prompt)
  return roundToNanos(other + sound + multiplyPrice(text + video, rates.prompt))
}

type UnitSide = UnitRow['side']

/** Returns the price of the units of one side, or of both, in atto-dollars. */
export function priceUnits(units: Units = NO_UNITS, prices: Prices, side?: UnitSide): bigint {
  let sum = 0n
  for (const name in units) {
    const unit = name as Unit
    const row = UNITS[unit]
    if (side && side !== row.side) continue
    sum += multiplyPrice(units[unit] ?? 0, getUnitPrice(row, prices))
  }
  return sum
}

function getUnitPrice({ price, otherwise }: UnitRow, prices: Prices): bigint {
  const own = prices[price as UnitPrice]
  return own ?? (otherwise === undefined ? 0n : (prices[otherwise as UnitPrice] ?? 0n))
}

const NO_UNITS: Units = {}

// Most usages are of text alone.
function priceInput(input: Usage['input'], prices: Prices): bigint {
  const { cache_read, cache_write, cache_write_1h, audio, image = 0 } = input
  let sum = multiplyPrice(input.text + input.video, prices.prompt)
  const cacheWrite = prices.cache_write ?? prices.prompt
  if (cache_read !== 0) sum += multiplyPrice(cache_read, prices.cache_read ?? prices.prompt)
  if (cache_write !== 0) sum += multiplyPrice(cache_write, cacheWrite)
  if (cache_write_1h !== 0)
    sum += multiplyPrice(cache_write_1h, prices.cache_write_1h ?? cacheWrite)
  if (audio !== 0) sum += multiplyPrice(audio, prices.audio ?? prices.prompt)
  if (image !== 0) sum += multiplyPrice(image, prices.image ?? prices.prompt)
  return sum
}

function priceOutput({ text, reasoning, audio, image }: Usage['output'], prices: Prices): bigint {
  let sum = multiplyPrice(text, prices.completion)
  if (reasoning !== 0) sum += multiplyPrice(reasoning, prices.reasoning ?? prices.completion)
  if (audio !== 0) sum += multiplyPrice(audio, prices.audio_output ?? prices.completion)
  if (image !== 0) sum += multiplyPrice(image, prices.image_output ?? prices.completion)
  return sum
}
