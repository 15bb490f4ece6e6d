import { type Prices, pricesFor } from '../catalog/prices.ts'
import { inputTokens, type Receipt, type Usage } from '../inference/call.ts'
import { roundToNanos } from './money.ts'

export type Cost = Pick<Receipt, 'cost' | 'cost_details'>

/**
 * What the usage costs at these prices, in nano-dollars, rounded once. Null where the endpoint has no price: an unknown cost
 * is not a cost of zero. A class without a price of its own costs what its parent does: cached and audio input like the
 * prompt, reasoning, audio and images like the completion. Searches and the price of a request are part of the prompt's cost.
 * Where the provider charges for other counts than it gives, those are what counts here.
 */
export function costOf(usage: Usage, prices: Prices | null): Cost {
  if (!prices) return { cost: null, cost_details: null }
  const rates = pricesFor(prices, inputTokens(usage))
  const { input, output } = usage.billed ?? usage
  const prompt = inputCost(input, rates) + (rates.request ?? 0n) + of(usage.web_search_requests ?? 0, rates.web_search ?? 0n)
  const completion = outputCost(output, rates)
  const cost = roundToNanos(prompt + completion)
  const rounded = roundToNanos(prompt)
  return { cost, cost_details: { prompt: rounded, completion: cost - rounded } }
}

function inputCost(input: Usage['input'], prices: Prices): bigint {
  const cacheWrite = prices.cache_write ?? prices.prompt
  return (
    of(input.text + input.video, prices.prompt) +
    of(input.cache_read, prices.cache_read ?? prices.prompt) +
    of(input.cache_write, cacheWrite) +
    of(input.cache_write_1h, prices.cache_write_1h ?? cacheWrite) +
    of(input.audio, prices.audio ?? prices.prompt)
  )
}

// Most classes of most calls are empty.
const of = (tokens: number, price: bigint): bigint => (tokens === 0 ? 0n : BigInt(tokens) * price)

function outputCost(output: Usage['output'], prices: Prices): bigint {
  return (
    of(output.text, prices.completion) +
    of(output.reasoning, prices.reasoning ?? prices.completion) +
    of(output.audio, prices.audio_output ?? prices.completion) +
    of(output.image, prices.image_output ?? prices.completion)
  )
}
