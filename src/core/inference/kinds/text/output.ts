import type { Endpoint } from '../../../catalog/models.ts'
import type { Prices } from '../../../catalog/prices.ts'
import type { TextCall } from '../../call.ts'
import { unsupportedBy } from '../../parameters.ts'

/** No model makes use of less, and some refuse it. */
const LEAST = 16

/** A model that thinks by budget thinks with at least so many tokens, whatever else was asked (Anthropic, "Extended thinking"). */
const LEAST_THINKING = 1024

/** The most that an answer may have: what the caller asked for or the model gives, and beside it what thinking may take. */
export function outputBound(call: TextCall, endpoint: Endpoint): number | null {
  const { max_tokens } = call.params
  const asked = max_tokens === undefined || !takesBound(call, endpoint) ? null : max_tokens + thinkingOf(call)
  const most = endpoint.max_completion_tokens
  return asked === null || most === null ? (asked ?? most) : Math.min(asked, most)
}

/** What a call needs to be worth making: all of it where the endpoint takes no bound. */
export const leastOutput = (call: TextCall, endpoint: Endpoint): number =>
  takesBound(call, endpoint) ? LEAST + (thinkingOf(call) > 0 ? LEAST_THINKING : 0) : Number.POSITIVE_INFINITY

/** The call with so many tokens for its thoughts and its words together. */
export function withOutputBound(call: TextCall, tokens: number): TextCall {
  const thinking = Math.min(thinkingOf(call), Math.max(tokens - LEAST, 0))
  const { reasoning } = call.params
  const budget = reasoning?.max_tokens === undefined ? {} : { reasoning: { ...reasoning, max_tokens: thinking } }
  return { ...call, params: { ...call.params, ...budget, max_tokens: Math.max(tokens - thinking, 1) } }
}

/** The dearest that a token of the answer may be, as often as there are answers. */
export function outputRate(call: TextCall, { completion, reasoning, audio_output, image_output }: Prices): bigint {
  const asked = call.params.modalities ?? []
  const rates = [completion, reasoning, asked.includes('audio') ? audio_output : 0n, asked.includes('image') ? image_output : 0n]
  return BigInt(choicesOf(call)) * rates.reduce<bigint>((most, rate) => (rate !== undefined && rate > most ? rate : most), 0n)
}

const takesBound = (call: TextCall, endpoint: Endpoint) =>
  !unsupportedBy(endpoint, { ...call, tools: [], params: { max_tokens: 1 } }).includes('max_tokens')

function thinkingOf({ params: { reasoning } }: TextCall): number {
  if (!reasoning || reasoning.enabled === false || reasoning.effort === 'none') return 0
  return Math.max(reasoning.max_tokens ?? 0, LEAST_THINKING)
}

// We have no word for several answers at once, but a provider of OpenAI's speech has, and charges each.
function choicesOf({ extra: { n, best_of } }: TextCall): number {
  const asked = [n, best_of].filter(one => typeof one === 'number' && Number.isSafeInteger(one)) as number[]
  return Math.max(1, ...asked)
}
