import { multiplyPrice, roundToNanos } from '../base/money.ts'
import { UNITS, type Unit, type UnitPrice, type UnitRow, type Units } from '../language/units.ts'
import { countInputTokens, type Receipt, type Usage } from '../language/usage.ts'
import { type Prices, pickPrices } from '../resources/prices.ts'

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
  const tokens =
    multiplyPrice(text + video, rates.prompt) + multiplyPrice(audio, rates.audio ?? rates.prompt)
  return roundToNanos(tokens + priceUnits(units, rates, 'input') + (rates.request ?? 0n))
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
