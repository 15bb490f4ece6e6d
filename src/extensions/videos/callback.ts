import type { Cancellation } from '../../base/cancellation.ts'
import { renderTime } from '../../base/clock.ts'
import { DueQueue } from '../../base/due-queue.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import { openMacOfKey } from '../../base/mac.ts'
import type { Run } from '../../engine/run.ts'
import type { VideoCall } from '../../language/video.ts'
import { checkUntrustedUrl, isNamedPrivate } from '../../network/untrusted-url.ts'
import {
  computePause,
  type DeliveryPace,
} from '../../observability/destinations/deliveries/retry.ts'
import {
  describeReason,
  type Sent,
  sendDelivery,
} from '../../observability/destinations/deliveries/send.ts'
import type { CallbackState, VideoJob } from '../../resources/videos.ts'
import type { ExtensionWorld } from '../world.ts'
import { showVideo } from './view.ts'

/** What callbacks need: the secret that signs them, and where users find the gateway. */
export interface CallbackWorld extends ExtensionWorld {
  instance: { siteUrl: string }
}

const FIELD = 'callback_url'

/**
 * Checks where the end of a job is to be told, before anything is spent. Returns undefined for a
 * call without a URL. Throws 400 for what is no https URL of a public host; hosts that the operator
 * lists in `security.allow_private_urls` may be private, and have no certificate.
 */
function checkCallbackUrl(
  world: ExtensionWorld,
  { callback_url: url }: Pick<VideoCall, 'callback_url'>,
): Promise<void> | undefined {
  if (url === undefined) return undefined
  const parsed = URL.parse(url)
  if (parsed && parsed.protocol !== 'https:' && !isNamedPrivate(world, parsed))
    throw invalid(`${FIELD}: expected an https URL`, FIELD)
  return checkUntrustedUrl(world, url, FIELD).then(() => undefined)
}

/** Checks where the end of a call's job is to be told. Throws as `checkCallbackUrl` does. */
export const checkCallback = (world: ExtensionWorld, { call }: Run): Promise<void> | undefined =>
  call.kind === 'video' ? checkCallbackUrl(world, call) : undefined

/** Seals the URL of a job for the store: it may hold a secret of its receiver. */
export const sealCallbackUrl = (world: ExtensionWorld, url: string, id: string): string =>
  world.secrets.destinationSeal().seal(url, id, crypto.getRandomValues(new Uint8Array(12)))

/** Opens the URL of a job; undefined where it was sealed with another secret. */
export const openCallbackUrl = (
  world: ExtensionWorld,
  { callback_url, id }: Pick<VideoJob, 'callback_url' | 'id'>,
): string | undefined =>
  callback_url === null ? undefined : world.secrets.destinationSeal().open(callback_url, id)

const SECRET_BYTES = 32

/**
 * Returns the secret that signs what a workspace is told. It is derived from the instance's secret,
 * so that it is never empty and no two workspaces share one.
 */
export const deriveCallbackSecret = ({ secrets }: CallbackSecrets, workspace_id: string): string =>
  `whsec_${Buffer.from(secrets.derive(`callbacks ${workspace_id}`, SECRET_BYTES)).toString('base64url')}`

interface CallbackSecrets {
  secrets: Pick<ExtensionWorld['secrets'], 'derive'>
}

/**
 * Builds what tells the end of a job: always the same body, signed at the moment of sending
 * (wire reference A: `t` in seconds, and HMAC-SHA256 of "t,body").
 */
export function buildCallback(world: CallbackWorld, job: VideoJob) {
  const { model, ended_at, status } = job
  const body = JSON.stringify({
    type: `video.generation.${status}`,
    created_at: ended_at,
    data: { ...showVideo(job, world.instance.siteUrl), model },
  })
  const seconds = Math.floor(world.clock.now().getTime() / 1000)
  const sign = openMacOfKey(deriveCallbackSecret(world, job.workspace_id))
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-openrouter-idempotency-key': `${job.id}-${status}`,
      'x-openrouter-signature': `t=${seconds},v1=${sign(`${seconds},${body}`)}`,
    },
  }
}

/** Tells the ends of jobs where their calls asked for it. */
export interface Callbacks {
  /** Looks for jobs whose end is to be told. */
  load(): Promise<void>
  /** Ends all requests. What is not told yet is told at the next start. */
  stop(): Promise<void>
  /** Waits until nothing is sent or written at this moment. */
  rest(): Promise<void>
}

/** How the receivers of callbacks are asked. Times in milliseconds. */
export interface CallbackPace {
  /** The pause after the first failure. Each is twice the one before, up to the longest. */
  firstCallback: number
  longestCallback: number
}

export const CALLBACK_PACE: CallbackPace = { firstCallback: 10_000, longestCallback: 3_600_000 }

/** After so many failures a receiver is given up: an hour and a half, if it asks for no longer. */
const MOST_ATTEMPTS = 10

/** How many receivers are asked at once, and how long each may take. */
const MOST_AT_ONCE = 8
const TIMEOUT = 10_000

/** Creates what tells the ends of jobs. */
export const createCallbacks = (world: CallbackWorld, pace: CallbackPace): Callbacks =>
  new CallbackSender(world, pace)

class CallbackSender implements Callbacks {
  readonly #world: CallbackWorld
  readonly #pace: Omit<DeliveryPace, 'linger' | 'timeout'>
  /** The jobs whose end is to be told. */
  readonly #queue: DueQueue<VideoJob>
  readonly #requests = new Set<Cancellation>()

  constructor(world: CallbackWorld, { firstCallback, longestCallback }: CallbackPace) {
    this.#world = world
    this.#pace = { firstPause: firstCallback, longestPause: longestCallback }
    this.#queue = new DueQueue(world.clock, {
      getName: job => job.id,
      getDue: job => Date.parse(job.callback_at ?? ''),
      run: job => this.#tell(job),
      mayRun: () => world.jobs?.isHeld !== false,
      mostAtOnce: MOST_AT_ONCE,
      longestPause: longestCallback,
    })
  }

  async load(): Promise<void> {
    this.#queue.start(await this.#world.store.videos.listUntold())
  }

  async stop(): Promise<void> {
    const stopped = this.#queue.stop()
    for (const request of this.#requests) request.cancel(STOPPED)
    await stopped
  }

  rest = (): Promise<void> => this.#queue.rest()

  async #tell(job: VideoJob): Promise<VideoJob | null> {
    const sent = await this.#send(job)
    // It has not been refused: the next process asks as if this one had not.
    if (this.#queue.isStopped && !sent.answer) return null
    const state = this.#judge(job, sent)
    // What cannot be written is tried again all the same; a receiver knows what it has by its key.
    await this.#world.store.videos.noteCallback(job.id, state).catch(() => undefined)
    return state.callback_at === null ? null : { ...job, ...state }
  }

  async #send(job: VideoJob): Promise<Sent> {
    const url = openCallbackUrl(this.#world, job)
    if (url === undefined) return { answer: null, retryAfter: null, failure: UNREADABLE }
    const request = { method: 'POST' as const, url, ...buildCallback(this.#world, job) }
    return sendDelivery(this.#world, request, { timeout: TIMEOUT, requests: this.#requests })
  }

  #judge(job: VideoJob, sent: Sent): CallbackState {
    const callback_error = describeReason(sent)
    const callback_attempts = job.callback_attempts + 1
    const told = { callback_attempts, callback_error }
    if (callback_error === null) return { ...told, ...OVER, callback: 'delivered' }
    if (callback_attempts >= MOST_ATTEMPTS || callback_error === UNREADABLE)
      return { ...told, ...OVER, callback: 'failed' }
    const { callback_url, callback } = job
    const callback_at = this.#computeNext(callback_attempts, sent.retryAfter)
    return { ...told, callback_url, callback, callback_at }
  }

  #computeNext(attempts: number, retryAfter: string | null): string {
    const { clock, ids } = this.#world
    const now = clock.now().getTime()
    const pace = { ...this.#pace, linger: 0, timeout: 0 }
    const pause = computePause(pace, attempts, retryAfter, { now, random: ids.random() })
    return renderTime(new Date(now + Math.ceil(pause)))
  }
}

const OVER = { callback_url: null, callback_at: null }
const UNREADABLE = 'Its URL was sealed with another secret'
const STOPPED = new GatewayError('provider_unavailable', 'The gateway stops')
