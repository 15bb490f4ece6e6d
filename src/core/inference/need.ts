import type { Endpoint } from '../catalog/models.ts'
import { dearestFor, type Prices } from '../catalog/prices.ts'
import { attosOf, larger, times, upToNanos } from '../kernel/money.ts'
import { sumUnits } from '../language/units.ts'
import { textUsage, type Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import { costOfInput, priceUnits } from '../ledger/cost.ts'
import type { Amounts, Hold, Need } from '../ledger/ledger.ts'
import type { ExpectedInput } from '../tokenizers/prompt.ts'
import { type Costing, kinds } from './kinds.ts'
import { askedOf, type WantedModel } from './plan/wanted.ts'
import type { InferenceWorld } from './world.ts'

/** What a call may come to at one endpoint: atto-dollars for the prompt and for each token of the output, and the tokens of it. */
interface Quote {
  /** With all that does not depend on the output. */
  prompt: bigint
  perToken: bigint
  /** All the output that it may have, and the least that makes sense. */
  most: number
  least: number
}

/**
 * What a call may come to at the endpoints that it may be sent to: the largest that its prompt may be and all the output that it may have, each
 * at the dearest price that it may be counted at. `models` know how each is asked. With `limits.strict` a smaller output will do.
 */
export function needOf<K extends Kind>(
  { config }: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  endpoints: Endpoint[],
  models: WantedModel<K>[] = [],
): Need {
  const { boundInput }: Costing<K> = kinds[kind].costing
  const largest = boundInput(call)
  const need: Need = { most: { own: null, byok: null }, least: { own: null, byok: null } }
  for (const endpoint of endpoints) {
    const asked = askedOf(models, call, endpoint)
    const input = asked === call ? largest : boundInput(asked)
    const { prompt, perToken, most, least } = quoteOf(config, kind, asked, input, endpoint)
    const nanos = upToNanos(prompt + times(most, perToken))
    raise(need.most, endpoint, nanos)
    raise(need.least, endpoint, config.limits.strict ? upToNanos(prompt + times(least, perToken)) : nanos)
  }
  return need
}

/** The usage of a call as it is expected, with so many tokens of output: the prompt by its estimate, nothing of it cached. */
export function expectedUsage<K extends Kind>(kind: K, call: Work[K]['call'], completion: number): Usage {
  const { estimateInput, estimateUnits }: Costing<K> = kinds[kind].costing
  const usage = textUsage(0, completion)
  const input = { ...usage.input, ...estimateInput(call) }
  return { ...usage, input, ...sumUnits(estimateUnits(call)) }
}

/** What the prompt and the units are expected to cost, without the output. Nano-dollars. */
export function promptNanos<K extends Kind>(kind: K, call: Work[K]['call'], endpoint: Endpoint) {
  const { prices } = endpoint
  const { estimateInput, estimateUnits }: Costing<K> = kinds[kind].costing
  return prices ? costOfInput(estimateInput(call), estimateUnits(call), prices) : 0n
}

/**
 * The call with no more output than was set aside for it. Where nobody bounds the output, or only the endpoint does and the call asks for
 * more, a call under a limit is sent with the bound that its hold is made of: a limit that the provider does not hear of is none.
 */
export function withinHold<K extends Kind>(
  { config }: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
  { amounts }: Pick<Hold, 'amounts'>,
): Work[K]['call'] {
  const held = endpoint.is_byok ? amounts.byok : amounts.own
  if (held === null) return call
  const { boundInput, limitOutput, asksForMore }: Costing<K> = kinds[kind].costing
  const { prompt, perToken, most, least } = quoteOf(config, kind, call, boundInput(call), endpoint)
  if (perToken === 0n) return call
  const payable = (attosOf(held) - prompt) / perToken
  if (payable < BigInt(most)) return limitOutput(call, Math.max(Number(payable), least))
  return asksForMore(call, endpoint) ? limitOutput(call, most) : call
}

const FREE: Quote = { prompt: 0n, perToken: 0n, most: 0, least: 0 }

function quoteOf<K extends Kind>(
  { limits }: InferenceWorld['config'],
  kind: K,
  call: Work[K]['call'],
  input: ExpectedInput,
  endpoint: Endpoint,
): Quote {
  if (!endpoint.prices) return FREE
  const within = withinContext(input, endpoint)
  const rates = dearestFor(endpoint.prices, within.text + within.audio + within.video)
  const costing: Costing<K> = kinds[kind].costing
  const most = costing.boundOutput(call, endpoint) ?? limits.max_tokens
  const least = Math.min(costing.leastOutput(call, endpoint), most)
  const beside = priceUnits(costing.boundUnits(call), rates) + costing.priceSurcharge(call, rates)
  const perToken = costing.priceOutputToken(call, rates)
  return { prompt: promptCost(within, rates) + beside, perToken, most, least }
}

// No prompt is larger than that, whatever it names.
function withinContext(input: ExpectedInput, { context_length }: Endpoint): ExpectedInput {
  const { text, audio, video } = input
  const most = context_length ?? Number.POSITIVE_INFINITY
  if (text <= most && audio <= most && video <= most) return input
  return { text: Math.min(text, most), audio: Math.min(audio, most), video: Math.min(video, most) }
}

// Whether it will be read from a cache, or written to one, is not known before, nor whether sounds are counted apart.
function promptCost({ text, audio, video }: ExpectedInput, rates: Prices): bigint {
  const { prompt, cache_read, cache_write, cache_write_1h, audio: sound, request } = rates
  const dearest = larger(larger(larger(prompt, cache_read), cache_write), cache_write_1h)
  return times(text + video, dearest) + times(audio, larger(dearest, sound)) + (request ?? 0n)
}

const smaller = (a: bigint, b: bigint) => (a < b ? a : b)

/** No limit is so high; more would not fit the 64 bits in which a hold is written down. */
const MOST_NANOS = 2n ** 62n

function raise(amounts: Amounts, { is_byok }: Endpoint, nanos: bigint): void {
  const way = is_byok ? 'byok' : 'own'
  amounts[way] = larger(amounts[way] ?? 0n, smaller(nanos, MOST_NANOS))
}
