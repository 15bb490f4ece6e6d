import type { Endpoint } from '../catalog/models.ts'
import { dearestFor, type Prices } from '../catalog/prices.ts'
import { attosOf, larger, times, upToNanos } from '../kernel/money.ts'
import { sumUnits } from '../language/units.ts'
import { textUsage, type Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import { costOfInput, priceUnits } from '../ledger/cost.ts'
import type { Amounts, HeldCall, Hold, Need } from '../ledger/ledger.ts'
import type { ExpectedInput } from '../tokenizers/prompt.ts'
import { type Costing, kinds } from './kinds.ts'
import { askedOf, type WantedModel } from './plan/wanted.ts'
import type { Plan } from './plan.ts'
import type { Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Sets aside what a step may cost, if a key pays and there is an endpoint to try, and drops the
 * endpoints that its limits cannot pay. A dry run only computes the amounts. Throws 402 if a limit
 * has not enough left.
 */
export function reserveStep<K extends Kind>(world: InferenceWorld, step: Step<K>): void {
  const { run, plan, call } = step
  const { key_hash, user_id, workspace_id } = run.actor
  if (!plan || plan.endpoints.length === 0 || (key_hash === null && !run.isDry)) return
  const { bounds } = run.policy
  const need = needOf(world, run.kind, call, plan.endpoints, plan.models)
  step.need = need
  if (run.isDry || key_hash === null) {
    step.amounts = world.ledger.grant(need, bounds)
    return
  }
  const hold = world.ledger.reserve({ key_hash, user_id, workspace_id }, need, bounds)
  step.hold = hold
  step.plan = payable(plan, hold.amounts)
}

const payable = <K extends Kind>(plan: Plan<K>, amounts: Amounts): Plan<K> => ({
  ...plan,
  endpoints: plan.endpoints.filter(endpoint => isPayable(amounts, endpoint)),
})

/** Tells whether the limits can pay for the endpoint. */
export const isPayable = (amounts: Amounts, { is_byok }: Endpoint): boolean =>
  (is_byok ? amounts.byok : amounts.own) !== null

/**
 * Writes a step to the journal of holds, so that its cost survives a crash. The step must not be
 * sent before. Throws 503 and releases the hold if that fails.
 */
export function journalStep<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
): void | Promise<void> {
  step.held = step.hold && heldFor(step, step.hold)
  if (!step.held) return
  step.word = world.journal.holds.open(step.held)
  return wordWritten(world, step)
}

async function wordWritten({ ledger }: InferenceWorld, step: Step): Promise<void> {
  try {
    await step.word?.written
  } catch (thrown) {
    step.word?.forget()
    if (step.hold) ledger.release(step.hold)
    throw thrown
  }
}

/**
 * Returns the journal's entry of a step. Null for a step that costs nothing: there would be nothing
 * to recover.
 */
function heldFor<K extends Kind>(
  { run, number, call, plan }: Step<K>,
  { payer, amounts }: Hold,
): HeldCall | null {
  const nanos = amounts.own ?? amounts.byok ?? 0n
  const first = plan?.endpoints[0]
  if (!first || (nanos === 0n && !amounts.byok)) return null
  return {
    key_hash: payer.key_hash,
    user_id: payer.user_id,
    workspace_id: payer.workspace_id,
    id: call.id,
    request_id: call.origin.request_id,
    created_at: run.createdAt,
    api_type: kinds[run.kind].apiType,
    model: first.model,
    streamed: call.stream,
    step: number,
    byok: first.is_byok,
    nanos,
    spent: promptNanos(run.kind, call, first),
  }
}

/**
 * What a call may cost at one endpoint, in atto-dollars, and how many tokens of output it may have.
 */
interface Quote {
  /** Includes everything that does not depend on the output. */
  prompt: bigint
  perToken: bigint
  /** All the output that the call may have, and the least that makes sense. */
  most: number
  least: number
}

/**
 * Estimates what a call may cost at its endpoints: the largest prompt and all the output that it
 * may have, each at the highest price that may apply. `models` hold the call as each model gets it.
 * With `limits.strict` a smaller output is enough.
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
    raise(
      need.least,
      endpoint,
      config.limits.strict ? upToNanos(prompt + times(least, perToken)) : nanos,
    )
  }
  return need
}

/**
 * Estimates the usage of a call with this many tokens of output: the expected prompt, none of it
 * cached.
 */
export function expectedUsage<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  completion: number,
): Usage {
  const { estimateInput, estimateUnits }: Costing<K> = kinds[kind].costing
  const usage = textUsage(0, completion)
  const input = { ...usage.input, ...estimateInput(call) }
  return { ...usage, input, ...sumUnits(estimateUnits(call)) }
}

/** Estimates what the prompt and the units cost, without the output. Nano-dollars. */
export function promptNanos<K extends Kind>(kind: K, call: Work[K]['call'], endpoint: Endpoint) {
  const { prices } = endpoint
  const { estimateInput, estimateUnits }: Costing<K> = kinds[kind].costing
  return prices ? costOfInput(estimateInput(call), estimateUnits(call), prices) : 0n
}

/**
 * Returns the call with no more output than was set aside for it. A call under a limit always
 * carries the bound that its hold is made of: also if neither call nor endpoint bounds the output,
 * or the call asks for more than the endpoint gives. A limit that the provider is not sent is no
 * limit.
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

// No prompt is larger than the context, whatever it refers to.
function withinContext(input: ExpectedInput, { context_length }: Endpoint): ExpectedInput {
  const { text, audio, video } = input
  const most = context_length ?? Number.POSITIVE_INFINITY
  if (text <= most && audio <= most && video <= most) return input
  return { text: Math.min(text, most), audio: Math.min(audio, most), video: Math.min(video, most) }
}

// It is not known in advance whether the prompt is read from a cache or written to one, nor whether
// audio is counted separately.
function promptCost({ text, audio, video }: ExpectedInput, rates: Prices): bigint {
  const { prompt, cache_read, cache_write, cache_write_1h, audio: sound, request } = rates
  const dearest = larger(larger(larger(prompt, cache_read), cache_write), cache_write_1h)
  return times(text + video, dearest) + times(audio, larger(dearest, sound)) + (request ?? 0n)
}

const smaller = (a: bigint, b: bigint) => (a < b ? a : b)

/** No limit is that high; more would not fit the 64 bits of a hold in the journal. */
const MOST_NANOS = 2n ** 62n

function raise(amounts: Amounts, { is_byok }: Endpoint, nanos: bigint): void {
  const way = is_byok ? 'byok' : 'own'
  amounts[way] = larger(amounts[way] ?? 0n, smaller(nanos, MOST_NANOS))
}
