import { dayOf } from '../kernel/periods.ts'
import { freeReceipt, inputTokens, outputTokens, type Receipt, sumOfReceipts, textUsage } from '../language/usage.ts'
import type { Kind } from '../language/work.ts'
import type { StepCharge } from '../ledger/ledger.ts'
import type { Generation, ProviderResponse } from '../telemetry/generations.ts'
import { kinds } from './kinds.ts'
import { routeTo } from './plan/wanted.ts'
import type { Attempt, Run, Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Charges the last step and writes the call down, once. Resolves when both outlive this process; who listens for it hears of it then. Throws 503
 * when it could not be written in time.
 */
export async function recordRun<K extends Kind>(world: InferenceWorld, run: Run<K>): Promise<void> {
  const settled = world.clock.now()
  const charge = run.step ? chargeStep(world, run.step, settled) : null
  run.forget()
  await world.recorder.record({ generation: generationOf(run, settled), charge })
  run.step?.word?.forget()
}

/** Charges a step of a call that goes on. Resolves when the charge outlives this process: before that nobody is asked again. Throws as `recordRun` does. */
export async function recordStep<K extends Kind>(world: InferenceWorld, step: Step<K>): Promise<void> {
  const charge = chargeStep(world, step, world.clock.now())
  if (!charge) return
  await world.recorder.record({ generation: null, charge })
  step.word?.forget()
}

/** What was set aside for a step turns into what it came to. */
function chargeStep<K extends Kind>({ ledger }: InferenceWorld, { hold, receipt, number, run }: Step<K>, settled: Date): StepCharge | null {
  if (!hold || !receipt) return null
  const { is_byok: byok, usageSource: source } = receipt
  const when = { day: dayOf(settled), settled_at: settled.toISOString() }
  const charge = { ...hold.payer, id: run.call.id, step: number, ...when, byok, nanos: upstreamCost(receipt) ?? 0n, source }
  ledger.settle(hold, charge)
  return charge
}

/** What the provider charges. Null where nobody knows. */
const upstreamCost = ({ cost_details }: Receipt): bigint | null => cost_details && cost_details.prompt + cost_details.completion

/** What a run came to: all of its steps together. */
export const receiptOf = ({ steps }: Run): Receipt =>
  sumOfReceipts(steps.flatMap(({ receipt }) => receipt ?? [])) ?? freeReceipt(textUsage(0, 0))

/** The step that has answered, or the last of those that have. */
export const answeredStep = <K extends Kind>({ steps }: Run<K>): Step<K> | undefined => steps.findLast(({ begun }) => begun !== null)

function generationOf<K extends Kind>(run: Run<K>, settled: Date): Generation {
  const { call, actor, ending, firstPart } = run
  const { error = null, ended = run.began, cancelled = false } = ending ?? {}
  const step = answeredStep(run)
  const endpoint = step?.begun?.endpoint ?? null
  const meter = step?.meter ?? kinds[run.kind].metering.startMeter(call)
  const receipt = receiptOf(run)
  const { usage } = receipt
  return {
    id: call.id,
    request_id: call.origin.request_id,
    created_at: run.created.toISOString(),
    workspace_id: actor.workspace_id,
    key_hash: actor.key_hash,
    user_id: actor.user_id,
    api_type: kinds[run.kind].apiType,
    model: endpoint?.model ?? call.models[0] ?? '',
    provider_name: endpoint?.provider.name ?? null,
    provider_responses: run.attempts.map(told),
    upstream_id: meter.start.upstream_id,
    streamed: call.stream,
    cancelled,
    finish_reason: error ? 'error' : (meter.finish?.reason ?? null),
    native_finish_reason: meter.finish?.native ?? null,
    latency: firstPart === null ? null : Math.round(firstPart - run.began),
    generation_time: Math.round(ended - run.began),
    native_tokens_prompt: inputTokens(usage),
    native_tokens_completion: outputTokens(usage),
    native_tokens_reasoning: usage.output.reasoning,
    native_tokens_cached: usage.input.cache_read,
    native_tokens_completion_images: usage.output.image,
    settled_at: settled.toISOString(),
    total_cost: receipt.cost,
    upstream_inference_cost: upstreamCost(receipt),
    usageSource: receipt.usageSource,
    is_byok: receipt.is_byok,
    service_tier: meter.start.service_tier,
    session_id: call.session_id,
    external_user: call.user,
    http_referer: call.origin.http_referer,
    title: call.origin.title,
    user_agent: call.origin.user_agent,
    error_type: error?.type ?? null,
    preset_id: call.preset_id,
    data_region: call.origin.region,
    router: routeTo(run.plan.models, endpoint)?.slug ?? null,
    contentFilters: run.filtering?.findings ?? [],
  }
}

const told = ({ endpoint: { provider, model, upstreamModel, is_byok }, latency, status }: Attempt): ProviderResponse => ({
  provider_name: provider.name,
  model_permaslug: model,
  endpoint_id: `${provider.slug}/${upstreamModel}`,
  is_byok,
  latency,
  status,
})
