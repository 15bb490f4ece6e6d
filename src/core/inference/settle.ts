import type { Endpoint } from '../catalog/models.ts'
import type { GatewayError } from '../errors.ts'
import { countsNothing, countsOutput, freeReceipt, outputTokens, type Receipt, textUsage, type Usage } from '../language/usage.ts'
import type { Kind } from '../language/work.ts'
import { costOf } from '../ledger/cost.ts'
import { familyOf } from '../tokenizers/families.ts'
import type { Begun } from './attempt/try.ts'
import { isFault } from './health.ts'
import type { Meter } from './kinds.ts'
import { memoryOf } from './plan/chosen.ts'
import { routeTo } from './plan/wanted.ts'
import type { Ending, Run, Step } from './run.ts'
import { sessionOf } from './sessions.ts'
import type { InferenceWorld } from './world.ts'

/** Settles the step that a run has ended with. */
export function settleStep<K extends Kind>(world: InferenceWorld, { step, ending }: Run<K>): void | Promise<void> {
  if (step && ending) return settle(world, step, ending)
}

/**
 * What a step came to, and what its answer tells of its endpoint and of where the conversation is. A step that nobody answered costs nothing.
 */
export async function settle<K extends Kind>(world: InferenceWorld, step: Step<K>, ending: Ending): Promise<void> {
  const { begun, meter } = step
  if (!begun || !meter) {
    step.receipt = freeReceipt(textUsage(0, 0))
    return
  }
  const { error } = ending
  report(world, begun, meter, ending)
  judge(world, begun.endpoint, meter, error)
  step.receipt = await receiptFor(world, begun.endpoint, meter, error)
  if (!error) remember(world, step, begun.endpoint, step.receipt)
  if (step.receipt.cost_details === null) world.events.publish('price.missing', { endpoint: begun.endpoint })
}

/** How the answer ended tells how its endpoint is. */
function report(
  { traffic: { health } }: InferenceWorld,
  { endpoint, sent }: Begun<Kind>,
  meter: Meter<never>,
  { error, cancelled }: Ending,
) {
  if (error && !cancelled) health.failed(endpoint, error)
  else health.ended(endpoint, sent, error ? null : tokensOf(meter))
}

/** What the answer tells of how well its endpoint calls tools. One that broke off tells it where that was the endpoint's own fault. */
function judge({ traffic: { health }, events }: InferenceWorld, endpoint: Endpoint, meter: Meter<never>, error: GatewayError | null): void {
  if (error && !isFault(error)) return
  const isSound = meter.isSound(error !== null)
  if (isSound === null) return
  health.judged(endpoint, isSound)
  events.publish('tools.judged', { endpoint, isSound })
}

const tokensOf = ({ usage, soFar }: Meter<never>): number => (usage ? outputTokens(usage) : soFar)

/** Where the conversation is answered, so that it may go on there. */
function remember<K extends Kind>(
  { traffic: { sessions } }: InferenceWorld,
  { run, call, plan }: Step<K>,
  endpoint: Endpoint,
  { usage }: Receipt,
): void {
  const session = sessionOf(run.actor, run.kind, call)
  if (!session) return
  sessions.answered(session, endpoint, usage)
  const route = plan && routeTo(plan.models, endpoint)
  if (route) sessions.routed(session, memoryOf(call, route.router), endpoint, usage)
}

/**
 * The provider's count rules. Without one, what was delivered is estimated, and so is what was delivered of an answer that
 * broke off. Nothing delivered, or an answer without output that ended in an error or for no reason, costs nothing (wire
 * reference K.8).
 */
async function receiptFor(gateway: InferenceWorld, endpoint: Endpoint, meter: Meter<never>, error: GatewayError | null): Promise<Receipt> {
  const counted = meter.usage && !isNoCount(meter.usage, meter) ? meter.usage : null
  const brokenOff = error !== null && meter.finish === null
  const { is_byok } = endpoint
  if (counted && !brokenOff) return isInsured(counted, meter, error) ? freeReceipt(counted, is_byok) : receipt(counted, 'exact', endpoint)
  if (!meter.delivered) return freeReceipt(counted ?? textUsage(0, 0), is_byok)
  const family = familyOf(endpoint)
  const estimated = await meter.estimate(texts => gateway.tokenizers.count(family, texts))
  const usage = counted ? withOutputOf(counted, estimated) : estimated
  return receipt(usage, 'estimated', endpoint)
}

const isInsured = (usage: Usage, { finish }: Meter<never>, error: GatewayError | null): boolean =>
  !countsOutput(usage) && (error !== null || finish === null || finish.reason === 'error')

// A provider that counts the prompt when it begins has not yet counted an answer that is broken off.
const withOutputOf = (counted: Usage, estimated: Usage): Usage =>
  outputTokens(estimated) > outputTokens(counted) ? { ...counted, output: estimated.output } : counted

// Some relays count 0 and 0 whatever they delivered. No answer of a model has such a count, but a filter's own words have: where it
// stopped the question, the model has not read it.
const isNoCount = (usage: Usage, { delivered, finish }: Meter<never>) =>
  delivered && finish?.reason !== 'content_filter' && countsNothing(usage)

// With his own credential the caller pays his provider himself, and the gateway takes nothing for it.
function receipt(usage: Usage, usageSource: Receipt['usageSource'], { prices, is_byok }: Endpoint): Receipt {
  const { cost, cost_details } = costOf(usage, prices)
  return { usage, usageSource, cost: is_byok ? 0n : cost, cost_details, is_byok }
}
