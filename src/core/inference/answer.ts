import { GatewayError } from '../errors.ts'
import { type Ending as SequenceEnding, watch } from '../kernel/iterate.ts'
import type { Answer } from '../language/answer.ts'
import type { CommonPart, ReceiptPart } from '../language/part.ts'
import { textUsage } from '../language/usage.ts'
import type { AnswerPart, Kind } from '../language/work.ts'
import { costOf } from '../ledger/cost.ts'
import { filteredAnswer } from './filters/answer.ts'
import { kinds } from './kinds.ts'
import { promptNanos } from './need.ts'
import { answeredStep, receiptOf } from './record.ts'
import { shownRouting } from './routing-metadata.ts'
import { clientLeft, isAbandoned, type Run, type Step } from './run.ts'
import { walk } from './stages.ts'
import type { InferenceWorld } from './world.ts'

/**
 * The answer of a run whose first step has one, with its meter running. At its end the cost is counted and the call recorded, and only then comes
 * the last batch, with the receipt: whoever has read it knows that the record outlives this process.
 */
export function openAnswer<K extends Kind>(world: InferenceWorld, run: Run<K>, step: Step<K>): Answer<K> {
  const begun = openMeter(step)
  const { endpoint } = begun
  const filtered = filteredAnswer(run, begun, batch => readMeter(run, batch))
  const parts = watch<AnswerPart<K>[]>(filtered ?? begun, {
    each: batch => {
      if (!filtered) readMeter(run, batch)
    },
    ended: ending => endAnswer(world, run, ending),
  })
  const created = Math.floor(run.created.getTime() / 1000)
  return { id: run.call.id, model: endpoint.model, provider: endpoint.provider.name, created, parts }
}

/** Begins to count what a step is answered, and gives the answer. */
function openMeter<K extends Kind>(step: Step<K>) {
  const { begun, run, call } = step
  if (!begun) throw new GatewayError('server', 'Internal Server Error')
  const meter = kinds[run.kind].metering.startMeter(call)
  const { prices } = begun.endpoint
  step.meter = meter
  // Its prompt as estimated, and what was delivered by a rule of thumb.
  step.soFar = () => promptNanos(run.kind, call, begun.endpoint) + (costOf(textUsage(0, meter.soFar), prices).cost ?? 0n)
  return begun
}

const readMeter = <K extends Kind>({ step }: Run<K>, batch: AnswerPart<K>[]) => step?.meter?.read(batch)

/** Ends a run. Never throws: what its caller must hear of is told in `ending`, also where it could not be written down. */
export async function closeRun<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  error: GatewayError | null,
): Promise<GatewayError | null> {
  // Seen when the answer ends: what happens while it is being counted is no part of it.
  run.ending = { error, ended: world.clock.ticks(), cancelled: isAbandoned(run) }
  try {
    await walk(world, world.stages.close, run)
    return error
  } catch (thrown) {
    return error ?? GatewayError.from(thrown)
  }
}

async function endAnswer<K extends Kind>(world: InferenceWorld, run: Run<K>, ending: SequenceEnding): Promise<CommonPart[]> {
  const failure = await closeRun(world, run, errorOf(run, ending))
  return lastParts(receiptOf(run), failure, run.call.routingMetadata && routingOf(run, failure))
}

function errorOf(run: Run, ending: SequenceEnding): GatewayError | null {
  if (ending.how === 'completed') return null
  if (ending.how === 'abandoned' || isAbandoned(run)) return clientLeft()
  return GatewayError.from(ending.thrown)
}

function routingOf(run: Run, failure: GatewayError | null): Record<string, unknown> | undefined {
  const step = answeredStep(run)
  if (!step?.begun || !run.ending) return undefined
  const { endpoint, sent } = step.begun
  const isGood = !failure && step.meter?.finish?.reason !== 'error'
  return shownRouting(run, { endpoint, isGood, error: failure, generation_time: run.ending.ended - sent })
}

/** How an answer ends, with its failure, where it has failed. */
function lastParts(receipt: ReceiptPart['receipt'], failure: GatewayError | null, besides: ReceiptPart['besides']): CommonPart[] {
  const last: ReceiptPart = { type: 'receipt', receipt, besides }
  return failure ? [{ type: 'error', error: besides ? failure.beside(besides) : failure }, last] : [last]
}
