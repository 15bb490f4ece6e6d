import { renderTime, toDayNumber } from '../../base/clock.ts'
import { toUsd } from '../../base/money.ts'
import { buildReceipt } from '../../engine/settle.ts'
import {
  computeUpstreamCost,
  createFreeReceipt,
  createTextUsage,
  type Receipt,
} from '../../language/usage.ts'
import { countVideoUnits, USUAL_SECONDS } from '../../language/video.ts'
import type { Hold, StepCharge } from '../../limits/ledger.ts'
import type {
  EndedJob,
  Generation,
  ProviderResponse,
} from '../../observability/generations/store.ts'
import type { OutboxMessage } from '../../observability/outbox.ts'
import type { VideoJob } from '../../resources/videos.ts'
import type { JobState } from '../../translation/protocols/protocol.ts'
import type { ExtensionWorld } from '../world.ts'
import { type JobDetails, parseDetails } from './details.ts'

/** How a job ends. */
export type VideoOutcome = Omit<JobState, 'status'> & { status: EndedJob['status'] }

/**
 * Ends a job: its hold becomes a charge if there is a video, and is released otherwise. The charge,
 * the record of the call and the end of the job are written in one transaction, so that a killed
 * process has written all of it or asks again. Resolves when they are on disk. Throws 503 if they
 * could not be written in time; writing is still retried. The accounts of its call are open meanwhile.
 */
export async function endVideo(
  world: ExtensionWorld,
  job: VideoJob,
  hold: Hold | null,
  outcome: VideoOutcome,
): Promise<void> {
  const now = world.clock.now()
  const details = parseDetails(job.details)
  const receipt = computeReceipt(job, details, outcome)
  const generation = completeGeneration(job, details, { outcome, receipt, now })
  const charge = hold && buildCharge(job, hold, details, receipt, now)
  if (hold && charge) world.ledger.settle(hold, charge)
  if (receipt.cost_details === null) publishMissingPrice(world, job)
  await world.recorder.record({
    generation,
    charge,
    ...(details.transcript ? { transcript: details.transcript } : {}),
    ...(details.outbox.length > 0
      ? { outbox: details.outbox.map(one => completeMessage(world, one, generation, receipt)) }
      : {}),
    job: buildEnd(job, outcome, receipt, generation.settled_at),
  })
}

/** Longer than this many times what was asked for is no count of a video, but a mistake. */
const MOST_TIMES = 4

function computeReceipt(
  { is_byok }: VideoJob,
  { params, seconds, prices }: JobDetails,
  outcome: VideoOutcome,
): Receipt {
  if (outcome.status !== 'completed') return createFreeReceipt(createTextUsage(0, 0), is_byok)
  const asked = seconds ?? USUAL_SECONDS
  const isCounted = outcome.seconds !== null && outcome.seconds <= asked * MOST_TIMES
  const made = isCounted ? (outcome.seconds ?? asked) : asked
  const usage = { ...createTextUsage(0, 0), units: countVideoUnits(params, made) }
  // What was asked for is what providers charge for.
  const source = isCounted || seconds !== null ? 'exact' : 'estimated'
  return buildReceipt(usage, source, { prices, is_byok })
}

/** What is known when a job has ended. */
interface Ending {
  outcome: VideoOutcome
  receipt: Receipt
  now: Date
}

const ERROR_TYPES = { failed: 'provider_unavailable', cancelled: null, expired: 'timeout' } as const

function completeGeneration(
  { created_at }: VideoJob,
  { generation }: JobDetails,
  { outcome: { status }, receipt, now }: Ending,
): Generation {
  const isDone = status === 'completed'
  return {
    ...generation,
    settled_at: renderTime(now),
    is_byok: receipt.is_byok,
    total_cost: receipt.cost,
    upstream_inference_cost: computeUpstreamCost(receipt),
    usageSource: receipt.usageSource,
    finish_reason: isDone ? 'stop' : 'error',
    native_finish_reason: isDone ? null : status,
    // A clock that was set back makes no work shorter than none.
    generation_time: Math.max(0, now.getTime() - Date.parse(created_at)),
    cancelled: status === 'cancelled',
    error_type: isDone ? null : ERROR_TYPES[status],
    // A job that has failed is not paid.
    ...(isDone ? {} : { provider_responses: generation.provider_responses.map(omitTaken) }),
  }
}

const omitTaken = ({ taken: _, ...response }: ProviderResponse): ProviderResponse => response

function buildCharge(
  { generation_id }: VideoJob,
  { payer }: Hold,
  { subaccounts }: JobDetails,
  receipt: Receipt,
  now: Date,
): StepCharge {
  return {
    ...payer,
    ...(subaccounts ? { subaccounts } : {}),
    id: generation_id,
    step: 1,
    day: toDayNumber(now),
    settled_at: renderTime(now),
    byok: receipt.is_byok,
    nanos: computeUpstreamCost(receipt) ?? 0n,
    source: receipt.usageSource,
  }
}

const buildEnd = (
  { id }: VideoJob,
  { status, error, outputs }: VideoOutcome,
  { cost }: Receipt,
  ended_at: string,
): EndedJob => ({ id, status, error, outputs: JSON.stringify(outputs), cost, ended_at })

function publishMissingPrice(world: ExtensionWorld, { model, provider }: VideoJob): void {
  const endpoints = world.catalog.models.get(model)?.endpoints ?? []
  const endpoint = endpoints.find(one => one.provider.slug === provider)
  if (endpoint) world.events.publish('price.missing', { endpoint })
}

/** Adds to a message what was not known when the job began. */
function completeMessage(
  world: ExtensionWorld,
  message: OutboxMessage,
  generation: Generation,
  receipt: Receipt,
): OutboxMessage {
  try {
    const isSealed = !message.payload.startsWith('{')
    const seal = isSealed ? world.secrets.destinationSeal() : null
    const told = JSON.parse(seal?.open(message.payload, generation.id) ?? message.payload)
    Object.assign(told.facts, listFacts(generation, receipt))
    return { ...message, payload: JSON.stringify(told), hasContent: isSealed }
  } catch (error) {
    // The message says what was known then, and is encrypted already.
    world.events.publish('broadcast.failed', { id: generation.id, error })
    return { ...message, hasContent: false }
  }
}

const listFacts = (
  { finish_reason, native_finish_reason, error_type, settled_at }: Generation,
  { cost, cost_details: details }: Receipt,
) => ({
  finishReason: error_type === null ? finish_reason : null,
  nativeFinishReason: native_finish_reason,
  error: error_type && { type: error_type, message: 'The video was not made' },
  endedAt: Date.parse(settled_at),
  inputCost: toUsd(details?.prompt ?? 0n),
  outputCost: toUsd(details?.completion ?? 0n),
  totalCost: toUsd(cost ?? 0n),
})
