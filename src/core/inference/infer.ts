import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { type Ending, watch } from '../kernel/iterate.ts'
import type { Answer } from '../language/answer.ts'
import type { CommonPart, ReceiptPart } from '../language/part.ts'
import { textUsage } from '../language/usage.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import { costOf } from '../ledger/cost.ts'
import { policyFor } from '../policy/effective.ts'
import { filteredAnswer } from './filters.ts'
import { kinds } from './kinds.ts'
import { findCandidates } from './plan.ts'
import { type PluginUse, pluginsOf } from './plugin.ts'
import { promptNanos } from './reserve.ts'
import { routedFailure, shownRouting } from './routing-metadata.ts'
import { clientLeft, isAbandoned, Run, Step } from './run.ts'
import { answeredStep, receiptOf } from './settle.ts'
import { walk } from './stages.ts'
import { chainSteps } from './steps.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Runs one call through the stages of `stages.ts`, in their order. Every inference endpoint calls
 * it.
 */
export async function infer<K extends Kind>(
  world: InferenceWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  signal: AbortSignal,
): Promise<Answer<K>> {
  const run = startRun(world, actor, kind, call)
  try {
    await walk(world, world.stages.open, run)
    run.follow(signal)
    if (run.blocked) throw run.blocked
    const step = new Step(run, run.call)
    await walk(world, world.stages.step, step)
    return openAnswer(world, run, step)
  } catch (thrown) {
    throw await endUnanswered(world, run, thrown)
  }
}

/** Creates the run of this call. Nothing has happened to it yet. */
export const startRun = <K extends Kind>(
  world: InferenceWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  isDry = false,
): Run<K> =>
  new Run({
    ...{ actor, kind, call, isDry },
    policy: policyFor(world, actor),
    created: world.clock.now(),
    began: world.clock.ticks(),
  })

/**
 * Ends a run without an answer and returns the error as its caller may see it. Never throws. A call
 * that is refused before it is sent leaves no record.
 */
async function endUnanswered<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  thrown: unknown,
): Promise<unknown> {
  if (!run.isRecorded) {
    run.forget()
    return run.step?.candidates ? routedFailure(GatewayError.from(thrown), run) : thrown
  }
  const error = GatewayError.from(thrown)
  if (run.blocked && run.call.routingMetadata) planUnsent(world, run)
  await closeRun(world, run, error)
  return routedFailure(error, run)
}

/**
 * Finds the endpoints that would have served a blocked call. Never throws: the reason for the
 * refusal is already known.
 */
function planUnsent<K extends Kind>(world: InferenceWorld, run: Run<K>): void {
  const step = new Step(run, run.call)
  try {
    step.candidates = findCandidates(world, step)
  } catch {
    step.candidates = null
  }
}

/**
 * Creates the answer of a run whose first step has one, with its meter running. At its end the cost
 * is computed and the call recorded. Only then comes the last batch, with the receipt: a client
 * that has read it can rely on the record being on disk.
 */
export function openAnswer<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  step: Step<K>,
): Answer<K> {
  const begun = openMeter(step)
  const { endpoint } = begun
  const uses = run.call.plugins ? pluginsOf(world, run.call) : NO_PLUGINS
  const loops = uses.filter(({ plugin }) => plugin.around)
  const isChained = loops.length > 0
  const chained = isChained ? chainSteps(world, begun, { run, loops, open: openMeter }) : begun
  const read = isChained ? () => undefined : (batch: AnswerPart<K>[]) => step.meter?.read(batch)
  const filtered = filteredAnswer(run, uses, chained, read)
  const parts = watch<AnswerPart<K>[]>(filtered ?? chained, {
    each: batch => {
      if (!filtered) read(batch)
    },
    ended: ending => endAnswer(world, run, ending),
  })
  const created = Math.floor(run.created.getTime() / 1000)
  return {
    id: run.call.id,
    model: endpoint.model,
    provider: endpoint.provider.name,
    created,
    parts,
  }
}

const NO_PLUGINS: PluginUse[] = []

/** Starts to count the answer of a step and returns that answer. */
function openMeter<K extends Kind>(step: Step<K>) {
  const { begun, run, call } = step
  if (!begun) throw new GatewayError('server', 'Internal Server Error')
  const meter = kinds[run.kind].metering.startMeter(call)
  const { prices } = begun.endpoint
  step.meter = meter
  // The estimated prompt with the price of a request, and what was delivered by a rule of thumb.
  step.soFar = () =>
    promptNanos(run.kind, call, begun.endpoint) +
    (costOf(textUsage(0, meter.soFar), prices).cost_details?.completion ?? 0n)
  return begun
}

/**
 * Ends a run and returns the error that its caller must see, also if recording fails. Never throws.
 */
export async function closeRun<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  error: GatewayError | null,
): Promise<GatewayError | null> {
  // Read when the answer ends: what happens while its cost is computed is not part of it.
  run.ending = { error, ended: world.clock.ticks(), cancelled: isAbandoned(run) }
  try {
    await walk(world, world.stages.close, run)
    return error
  } catch (thrown) {
    return error ?? GatewayError.from(thrown)
  }
}

async function endAnswer<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  ending: Ending,
): Promise<CommonPart[]> {
  if (run.taking) await run.taking
  const failure = await closeRun(world, run, errorOf(run, ending))
  return lastParts(receiptOf(run), failure, run.call.routingMetadata && routingOf(run, failure))
}

function errorOf(run: Run, ending: Ending): GatewayError | null {
  if (ending.how === 'completed') return null
  if (ending.how === 'abandoned' || isAbandoned(run)) return clientLeft()
  return GatewayError.from(ending.thrown)
}

function routingOf(run: Run, failure: GatewayError | null): Record<string, unknown> | undefined {
  const step = answeredStep(run)
  if (!step?.begun || !run.ending) return undefined
  const { endpoint, sent } = step.begun
  const isGood = !failure && step.meter?.finish?.reason !== 'error'
  return shownRouting(run, {
    endpoint,
    isGood,
    error: failure,
    generation_time: run.ending.ended - sent,
  })
}

/** Returns the last parts of an answer: its failure, if it has one, and its receipt. */
function lastParts(
  receipt: ReceiptPart['receipt'],
  failure: GatewayError | null,
  besides: ReceiptPart['besides'],
): CommonPart[] {
  const last: ReceiptPart = { type: 'receipt', receipt, besides }
  return failure
    ? [{ type: 'error', error: besides ? failure.beside(besides) : failure }, last]
    : [last]
}
