import { unavailable } from '../../base/errors.ts'
import type { Run, Step } from '../../engine/run.ts'
import { renderTranscript } from '../../engine/settle/transcript.ts'
import {
  forgetEntries,
  forgetRun,
  getSettlementTime,
  leaveUnpaid,
  recordRun,
  toGeneration,
} from '../../engine/settle.ts'
import { createTextUsage } from '../../language/usage.ts'
import type { VideoCall } from '../../language/video.ts'
import type { Kind } from '../../language/work.ts'
import { keepModel } from '../../limits/call-budgets.ts'
import type { Hold } from '../../limits/ledger.ts'
import type { OutboxMessage } from '../../observability/outbox.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { CallbackState, VideoJob } from '../../resources/videos.ts'
import { fitVideo } from '../../translation/protocols/videos/capabilities.ts'
import { pickSeconds } from '../../translation/protocols/videos.ts'
import { startBroadcast } from '../broadcast.ts'
import type { ExtensionWorld } from '../world.ts'
import { sealCallbackUrl } from './callback.ts'
import { renderDetails } from './details.ts'

/** A run whose answer has begun a job: it is charged when that is done. */
interface JobRun {
  run: Run<'video'>
  step: Step<'video'>
  endpoint: Endpoint
  upstream_id: string
}

/**
 * Hands a run over to the job that its answer has begun: the job is stored, keeps the money that is
 * set aside, and is followed until it ends. Does nothing to other runs. If it cannot be stored, the
 * call is recorded as failed and costs nothing. Throws 503 then.
 */
export function handOver<K extends Kind>(world: ExtensionWorld, run: Run<K>): void | Promise<void> {
  const begun = findJob(run as unknown as Run)
  if (begun) return keepJob(world, begun)
}

async function keepJob(world: ExtensionWorld, begun: JobRun): Promise<void> {
  const { run, step, endpoint } = begun
  const job = buildJob(world, begun)
  try {
    await world.videos.store(job)
  } catch (cause) {
    const error = unavailable('The job could not be stored', undefined, cause)
    step.receipt = leaveUnpaid(step, endpoint, createTextUsage(0, 0))
    if (run.ending) run.ending.error = error
    await recordRun(world, run)
    forgetRun(world, run as unknown as Run)
    throw error
  }
  run.isHandedOver = true
  const hold = takeHold(step)
  run.release(world.traffic.counters)
  forgetEntries(run as unknown as Run)
  world.traffic.health.recordEnd(endpoint, step.answer?.sentAt ?? 0, null)
  world.videos.add(job, hold)
  run.closeSubaccounts()
}

/** The job has what was set aside from now on. */
function takeHold({ grant }: Step<'video'>): Hold | null {
  const hold = grant?.hold ?? null
  if (grant) grant.hold = null
  return hold
}

function findJob(run: Run): JobRun | null {
  const { call, step, ending } = run
  if (call.kind !== 'video' || !step?.answer || !ending || ending.error) return null
  const { endpoint, first } = (step as unknown as Step<'video'>).answer ?? {}
  const part = first?.find(one => one.type === 'job')
  if (part?.type !== 'job' || !endpoint) return null
  return {
    run: run as unknown as Run<'video'>,
    step: step as unknown as Step<'video'>,
    endpoint,
    upstream_id: part.upstream_id,
  }
}

function buildJob(world: ExtensionWorld, { run, step, endpoint, upstream_id }: JobRun): VideoJob {
  const { call, actor } = run
  const { amounts = null } = step.grant?.hold ?? {}
  return {
    id: call.job_id,
    generation_id: call.id,
    workspace_id: actor.workspace_id,
    key_hash: actor.key_hash,
    user_id: actor.user_id,
    created_at: run.createdAt,
    model: endpoint.model,
    provider: endpoint.provider.slug,
    byok_id: findByokId(world, endpoint),
    credential: step.attempts.at(-1)?.credential?.name ?? null,
    protocol: endpoint.protocol,
    upstream_model: endpoint.upstreamModel,
    upstream_id,
    status: 'pending',
    error: null,
    outputs: '[]',
    own: amounts?.own ?? null,
    byok: amounts?.byok ?? null,
    cost: null,
    is_byok: endpoint.is_byok,
    cancel_requested_at: null,
    ended_at: null,
    details: buildDetails(world, run, call, endpoint),
    ...buildCallbackState(world, call),
  }
}

function buildCallbackState(
  world: ExtensionWorld,
  { callback_url: url, job_id }: VideoCall,
): CallbackState {
  return {
    callback_url: url === undefined ? null : sealCallbackUrl(world, url, job_id),
    callback: url === undefined ? null : 'waiting',
    callback_at: null,
    callback_attempts: 0,
    callback_error: null,
  }
}

function findByokId({ memory }: ExtensionWorld, { is_byok, provider }: Endpoint): string | null {
  if (!is_byok) return null
  const isOf = ({ providers }: { providers: Map<string, unknown> }) =>
    providers.get(provider.slug) === provider
  return memory.byok.filter(isOf)[0]?.key.id ?? null
}

function buildDetails(
  world: ExtensionWorld,
  run: Run<'video'>,
  call: VideoCall,
  endpoint: Endpoint,
): string {
  const generation = toGeneration(run, getSettlementTime(world).settled_at)
  const anyRun = run as unknown as Run
  const watcher = run.watcher ?? startBroadcast(world, anyRun)
  const params = fitVideo(call.params, endpoint)
  return renderDetails({
    // As it was asked for: that is what is made, and charged.
    params,
    seconds: pickSeconds({ params }, endpoint),
    prices: endpoint.prices,
    generation,
    transcript: renderTranscript(world, anyRun, generation),
    outbox: encryptMessages(world, generation.id, watcher?.close(anyRun, generation) ?? []),
    ...(run.subaccounts ? { subaccounts: keepModel(run.subaccounts, endpoint.model) } : {}),
  })
}

/** Encrypts what messages tell of a job, for as long as it lasts. None where that cannot be done. */
function encryptMessages(
  { secrets, events }: ExtensionWorld,
  id: string,
  messages: OutboxMessage[],
): OutboxMessage[] {
  try {
    return messages.map(message => {
      if (!message.hasContent) return message
      const nonce = crypto.getRandomValues(new Uint8Array(12))
      return { ...message, payload: secrets.destinationSeal().seal(message.payload, id, nonce) }
    })
  } catch (error) {
    events.publish('broadcast.failed', { id, error })
    return []
  }
}
