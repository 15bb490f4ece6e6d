import { JobWorker, type JobWorkerOptions } from '../../../base/job-worker.ts'
import { startWorkerAtOnce } from '../../../base/worker.ts'
import { isPlain } from '../exported-call.ts'
import type { DeliveryRequest, RenderWorld } from '../kind.ts'
import type { DestinationConfig, OpenedDestination } from '../opened.ts'
import { createRenderWorld } from '../settings.ts'
import type { Destination } from '../store.ts'
import type { DestinationWorld } from '../world.ts'
import type { WaitingDelivery } from './store.ts'

/** What a Worker needs to render a batch of messages, and nothing else. */
export interface RenderJob {
  destination: RenderedDestination
  config: DestinationConfig
  world: RenderFacts
  /** Opens messages that are sealed; null if none is, or if the gateway has no secret. */
  key: Uint8Array | null
  messages: PackedMessages
}

/** Messages in one piece, as it is moved to the Worker: many small values take long to copy. */
export interface PackedMessages {
  sequences: number[]
  /** Lines. */
  generation_ids: string
  /** How many bytes of `payloads` are of each message. */
  lengths: number[]
  payloads: Uint8Array
}

/** What rendering needs from outside, but for ids, which the Worker creates. */
type RenderFacts = Omit<RenderWorld, 'createId'>

/** The settings of a destination that decide what it is told, as they are now. */
type RenderedDestination = Pick<
  Destination,
  | 'id'
  | 'type'
  | 'regions'
  | 'api_key_hashes'
  | 'sampling_rate'
  | 'filter_rules'
  | 'privacy_mode'
  | 'broadcast_generation_cost'
  | 'broadcast_generation_identity'
  | 'broadcast_generation_request_context'
>

/** What became of a batch: where each message belongs, by its sequence. */
export interface RenderedBatch {
  /** The request tells these. */
  told: number[]
  /** The destination is not to get these. */
  skipped: number[]
  /** These were sealed with another secret than this gateway's. */
  unreadable: number[]
  /** Whether the destination is to get these cannot be told: its rules cannot be applied. */
  unjudged: number[]
  /** Null if nothing is told, or if it cannot be rendered. Its body is bytes. */
  request: DeliveryRequest | null
}

/** Renders requests in a Worker: what a destination costs is not paid by the thread of calls. */
export interface Renderer {
  /** Renders the request that delivers these messages. Rejects with `JobError`. */
  render(job: RenderJob): Promise<RenderedBatch>
  /** Ends the Worker for good. */
  close(): void
}

/** A filter's patterns take linear time, but there may be many. */
const TIMEOUT_MS = 20_000
const IDLE_MS = 30_000
/** Queues take turns, so few batches wait. */
const MAX_WAITING = 64

/** Opens the renderer. The first batch starts its Worker, which no connection waits for. */
export function openRenderer(replace: Partial<JobWorkerOptions> = {}): Renderer {
  const worker = new JobWorker<RenderJob, RenderedBatch>({
    startWorker,
    timeoutMs: TIMEOUT_MS,
    idleMs: IDLE_MS,
    maxWaiting: MAX_WAITING,
    maxWaitingSize: Number.POSITIVE_INFINITY,
    ...replace,
  })
  return {
    render: job => worker.run(job, 0, [job.messages.payloads.buffer as ArrayBuffer]),
    close: () => worker.close(),
  }
}

/** What a batch is rendered by: a destination that is told, with its decrypted config. */
type Told = Pick<OpenedDestination, 'destination'> & { config: DestinationConfig }

/** Creates the job that renders these messages, by the settings of this moment. */
export function createRenderJob(
  world: DestinationWorld,
  { destination, config }: Told,
  rows: WaitingDelivery[],
): RenderJob {
  const { createId: _, ...facts } = createRenderWorld(world)
  return {
    destination: pickSettings(destination),
    config,
    world: facts,
    key: rows.every(({ payload }) => isPlain(payload)) ? null : findKey(world),
    messages: packMessages(rows),
  }
}

function packMessages(rows: WaitingDelivery[]): PackedMessages {
  const lengths = rows.map(({ payload }) => payload.length)
  const payloads = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0))
  let end = 0
  for (const { payload } of rows) {
    payloads.set(payload, end)
    end += payload.length
  }
  return {
    sequences: rows.map(({ sequence }) => sequence),
    generation_ids: rows.map(({ generation_id }) => generation_id).join('\n'),
    ...{ lengths, payloads },
  }
}

// A gateway without a secret sends what is not sealed all the same.
function findKey({ secrets }: DestinationWorld): Uint8Array | null {
  try {
    return secrets.destinationSeal().exportKey()
  } catch {
    return null
  }
}

function pickSettings(destination: Destination): RenderedDestination {
  const { id, type, regions, api_key_hashes, sampling_rate, filter_rules } = destination
  return {
    ...{ id, type, regions, api_key_hashes, sampling_rate, filter_rules },
    privacy_mode: destination.privacy_mode,
    broadcast_generation_cost: destination.broadcast_generation_cost,
    broadcast_generation_identity: destination.broadcast_generation_identity,
    broadcast_generation_request_context: destination.broadcast_generation_request_context,
  }
}

/** Starts the Worker that renders deliveries. It does not keep the process alive. */
export const startWorker = (): Worker =>
  startWorkerAtOnce(getWorkerUrl(), { smol: true, env: {} } as WorkerOptions)

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable
      ? './observability/destinations/deliveries/renderer/worker.ts'
      : './renderer/worker.ts',
    import.meta.url,
  )
