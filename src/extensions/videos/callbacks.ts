import type { Cancellation } from '../../base/cancellation.ts'
import { renderTime } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
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
import { buildCallback, type CallbackWorld, openCallbackUrl } from './callback.ts'

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

/** Creates what tells the ends of jobs. One timer serves all of them. */
export const createCallbacks = (world: CallbackWorld, pace: CallbackPace): Callbacks =>
  new CallbackSender(world, pace)

class CallbackSender implements Callbacks {
  readonly #world: CallbackWorld
  readonly #pace: Omit<DeliveryPace, 'linger' | 'timeout'>
  /** What is to be told, by the ids of the jobs, and what is being told. */
  readonly #waiting = new Map<string, VideoJob>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #requests = new Set<Cancellation>()
  #isStopped = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(world: CallbackWorld, { firstCallback, longestCallback }: CallbackPace) {
    this.#world = world
    this.#pace = { firstPause: firstCallback, longestPause: longestCallback }
  }

  async load(): Promise<void> {
    this.#isStopped = false
    for (const job of await this.#world.store.videos.listUntold())
      if (!this.#running.has(job.id)) this.#waiting.set(job.id, job)
    this.#wake()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#waiting.clear()
    for (const request of this.#requests) request.cancel(STOPPED)
    await this.rest()
  }

  async rest(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  /** Tells what is due, and sets the timer for the next. */
  #wake(): void {
    clearTimeout(this.#timer)
    if (this.#isStopped) return
    const now = this.#world.clock.now().getTime()
    let next = Number.POSITIVE_INFINITY
    for (const job of this.#waiting.values()) {
      if (this.#running.size >= MOST_AT_ONCE) return
      const due = Date.parse(job.callback_at ?? '')
      if (due <= now) this.#run(job)
      else next = Math.min(next, due)
    }
    // A clock that was set back makes no pause longer than the longest.
    const pause = Math.min(next - now, this.#pace.longestPause)
    if (this.#waiting.size > 0) this.#timer = setTimeout(() => this.#wake(), pause)
  }

  #run(job: VideoJob): void {
    this.#waiting.delete(job.id)
    const turn = this.#tell(job)
      .catch(() => undefined)
      .finally(() => {
        this.#running.delete(job.id)
        this.#wake()
      })
    this.#running.set(job.id, turn)
  }

  async #tell(job: VideoJob): Promise<void> {
    const sent = await this.#send(job)
    // It has not been refused: the next process asks as if this one had not.
    if (this.#isStopped && !sent.answer) return
    const state = this.#judge(job, sent)
    // What cannot be written is tried again all the same; a receiver knows what it has by its key.
    await this.#world.store.videos.noteCallback(job.id, state).catch(() => undefined)
    if (state.callback_at !== null) this.#waiting.set(job.id, { ...job, ...state })
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
