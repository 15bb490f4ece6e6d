import { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import type { Hold } from '../../limits/ledger.ts'
import {
  computePause,
  type DeliveryPace,
} from '../../observability/destinations/deliveries/retry.ts'
import type { VideoJob } from '../../resources/videos.ts'
import type { JobState } from '../../translation/protocols/protocol.ts'
import { toEnded } from '../../translation/protocols/videos.ts'
import type { ExtensionWorld, VideoJobs } from '../world.ts'
import { askJobProvider, getJobProtocol, type JobAnswer } from './ask.ts'
import type { CallbackWorld } from './callback.ts'
import { CALLBACK_PACE, type CallbackPace, type Callbacks, createCallbacks } from './callback.ts'
import { parseDetails } from './details.ts'
import { endVideo, type VideoOutcome } from './end.ts'

/** How often providers are asked. Times in milliseconds. */
export interface PollPace extends CallbackPace {
  /** The first pause between two questions, and the longest. */
  firstPause: number
  longestPause: number
  /** The longest pause after failures. */
  longestRetry: number
  /** The pause between two looks at what others follow. */
  handedPause: number
}

const POLL_PACE: PollPace = {
  ...{ firstPause: 2_000, longestPause: 20_000, longestRetry: 300_000, handedPause: 1_000 },
  ...CALLBACK_PACE,
}

/** How many providers are asked at once. */
const MOST_AT_ONCE = 8

/** A provider that does not know a job so often in a row has forgotten it. */
const MOST_MISSING = 3

/** A job while it is followed. Times in steady milliseconds: a calendar that jumps ends no job. */
interface FollowedJob {
  job: VideoJob
  hold: Hold | null
  nextAt: number
  /** After this it has taken too long. */
  deadline: number
  polls: number
  failures: number
  missing: number
  isRunning: boolean
}

/**
 * Creates what follows jobs. One timer serves all of them: it waits for the next that is due. A job
 * is asked about ever less often, and less often still while its provider fails.
 */
export const createVideoJobs = (world: CallbackWorld, pace: Partial<PollPace> = {}): VideoJobs =>
  new JobPoller(world, { ...POLL_PACE, ...pace })

class JobPoller implements VideoJobs {
  readonly #world: ExtensionWorld
  readonly #pace: PollPace
  readonly #jobs = new Map<string, FollowedJob>()
  /**
   * What is set aside here for jobs that another server follows, until they have ended: what a node
   * has on lease keeps others from spending it.
   */
  readonly #handed = new Map<string, Hold>()
  /** The jobs that are being stored, and those whose end is being written. */
  readonly #beginning = new Set<string>()
  readonly #ending = new Set<string>()
  /** What has ended while open jobs were listed, for each list that is read: it may be on it. */
  readonly #lists = new Set<Set<string>>()
  readonly #running = new Set<Promise<void>>()
  readonly #requests = new Set<Cancellation>()
  readonly #callbacks: Callbacks
  #isStarted = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #watch: ReturnType<typeof setInterval> | undefined
  #unlisten: () => void = () => undefined

  constructor(world: CallbackWorld, pace: PollPace) {
    this.#world = world
    this.#pace = pace
    this.#callbacks = createCallbacks(world, pace)
  }

  get size(): number {
    return this.#jobs.size
  }

  listHolds(): Hold[] {
    return [...this.#jobs.values()]
      .flatMap(({ hold }) => hold ?? [])
      .concat(...this.#handed.values())
  }

  async store(job: VideoJob): Promise<void> {
    this.#beginning.add(job.id)
    try {
      await this.#world.store.videos.insert(job)
    } catch (thrown) {
      this.#beginning.delete(job.id)
      throw thrown
    }
  }

  add(job: VideoJob, hold: Hold | null): void {
    this.#beginning.delete(job.id)
    if (this.#world.jobs && !this.#isStarted) this.#handOver(job, hold)
    else this.#jobs.set(job.id, this.#follow(job, hold, this.#getLongest()))
    this.#wake()
  }

  async load(): Promise<void> {
    for (const job of await this.#listOpen()) {
      const followed = this.#jobs.get(job.id)
      if (followed) this.#noteCancel(followed, job.cancel_requested_at)
      else this.#jobs.set(job.id, this.#resume(job))
    }
  }

  /** Lists the jobs that are open, without those that this process begins or ends meanwhile. */
  async #listOpen(): Promise<VideoJob[]> {
    const ended = new Set<string>()
    this.#lists.add(ended)
    try {
      const open = await this.#world.store.videos.listOpen()
      return open.filter(({ id }) => !ended.has(id) && !this.#isBusyWith(id))
    } finally {
      this.#lists.delete(ended)
    }
  }

  #isBusyWith = (id: string): boolean => this.#beginning.has(id) || this.#ending.has(id)

  async look(open: Map<string, boolean>): Promise<void> {
    const isNew = (id: string) => !this.#jobs.has(id) && !this.#isBusyWith(id)
    const isCancelled = ([id, isWanted]: [string, boolean]) =>
      isWanted && this.#jobs.get(id)?.job.cancel_requested_at === null
    if (![...open.keys()].some(isNew) && ![...open].some(isCancelled)) return
    await this.load()
    this.#wake()
  }

  forget(): void {
    for (const { hold } of this.#jobs.values()) if (hold) this.#world.ledger.release(hold)
    this.#jobs.clear()
    this.#watchHanded()
  }

  async start(): Promise<void> {
    if (this.#isStarted) return
    await this.load()
    this.#isStarted = true
    this.#unlisten = this.#world.events.on('store.reloaded', () => void this.#reload())
    this.#wake()
    await this.#callbacks.load()
  }

  async stop(): Promise<void> {
    this.#isStarted = false
    this.#unlisten()
    this.#unwatch()
    clearTimeout(this.#timer)
    for (const request of this.#requests) request.cancel(STOPPED)
    await this.#callbacks.stop()
    await this.rest()
  }

  async rest(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
    await this.#callbacks.rest()
  }

  /** Leaves a job to the server that has the jobs. */
  #handOver({ id }: VideoJob, hold: Hold | null): void {
    if (!hold) return
    this.#handed.set(id, hold)
    this.#watchHanded()
  }

  #watchHanded(): void {
    if (this.#handed.size === 0) return
    this.#watch ??= setInterval(() => void this.#releaseEnded(), this.#pace.handedPause)
    this.#watch.unref()
  }

  async #releaseEnded(): Promise<void> {
    const open = await this.#world.store.videos.listOpen().catch(() => null)
    if (!open) return
    const ids = new Set(open.map(({ id }) => id))
    for (const [id, hold] of this.#handed) {
      if (ids.has(id)) continue
      this.#handed.delete(id)
      this.#world.ledger.release(hold)
    }
    if (this.#handed.size === 0) this.#unwatch()
  }

  #unwatch(): void {
    clearInterval(this.#watch)
    this.#watch = undefined
  }

  #getLongest(): number {
    return this.#world.config.timeouts.video_seconds * 1000
  }

  #follow(job: VideoJob, hold: Hold | null, milliseconds: number): FollowedJob {
    const now = this.#world.clock.ticks()
    const deadline = now + milliseconds
    const counts = { polls: 0, failures: 0, missing: 0 }
    return { job, hold, nextAt: now + this.#pace.firstPause, deadline, ...counts, isRunning: false }
  }

  // The calendar is all that is known of the time before: never more than the whole is left.
  #resume(job: VideoJob): FollowedJob {
    const age = this.#world.clock.now().getTime() - Date.parse(job.created_at)
    const longest = this.#getLongest()
    const followed = this.#follow(job, this.#hold(job), Math.min(longest, longest - age))
    return { ...followed, nextAt: this.#world.clock.ticks() }
  }

  #hold(job: VideoJob): Hold | null {
    const handed = this.#handed.get(job.id)
    this.#handed.delete(job.id)
    return handed ?? this.#reserve(job)
  }

  #reserve({ key_hash, user_id, workspace_id, own, byok, details }: VideoJob): Hold | null {
    if (key_hash === null) return null
    const { subaccounts } = parseDetails(details)
    const payer = { key_hash, user_id, workspace_id, ...(subaccounts ? { subaccounts } : {}) }
    const amounts = { own, byok }
    const estimate = { maximum: amounts, minimum: amounts }
    return this.#world.ledger.reserve(payer, estimate, [])
  }

  async #reload(): Promise<void> {
    // Other processes begin none; what other servers have begun, is looked for otherwise.
    if (this.#jobs.size === 0) return
    await this.load().catch(() => undefined)
    this.#wake()
  }

  #noteCancel(followed: FollowedJob, cancel_requested_at: string | null): void {
    if (cancel_requested_at === null || followed.job.cancel_requested_at !== null) return
    followed.job = { ...followed.job, cancel_requested_at }
    followed.nextAt = this.#world.clock.ticks()
  }

  /** Asks about the jobs that are due, and sets the timer for the next one. */
  #wake(): void {
    clearTimeout(this.#timer)
    if (!this.#isStarted || this.#world.jobs?.isHeld === false) return
    const now = this.#world.clock.ticks()
    let next = Number.POSITIVE_INFINITY
    for (const followed of this.#jobs.values()) {
      if (followed.isRunning) continue
      if (this.#running.size >= MOST_AT_ONCE) return
      if (followed.nextAt <= now) this.#run(followed)
      else next = Math.min(next, followed.nextAt)
    }
    if (next < Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(() => this.#wake(), Math.max(0, next - now))
  }

  #run(followed: FollowedJob): void {
    followed.isRunning = true
    const turn = this.#takeTurn(followed).finally(() => {
      followed.isRunning = false
      this.#running.delete(turn)
      this.#wake()
    })
    this.#running.add(turn)
  }

  async #takeTurn(followed: FollowedJob): Promise<void> {
    const cancellation = new Cancellation()
    this.#requests.add(cancellation)
    try {
      const state = await this.#ask(followed, cancellation)
      await this.#apply(followed, state, cancellation)
    } catch (thrown) {
      this.#postpone(followed, thrown)
    } finally {
      this.#requests.delete(cancellation)
    }
  }

  /** Asks how a job is doing. Null if that is not known. */
  async #ask(followed: FollowedJob, cancellation: Cancellation): Promise<JobState | null> {
    const { job } = followed
    if (job.cancel_requested_at !== null) return this.#cancel(job, cancellation)
    try {
      return await this.#poll(followed, cancellation)
    } catch (thrown) {
      if (cancellation.reason) throw thrown
      followed.failures += 1
      this.#postpone(followed, thrown)
      return null
    }
  }

  async #cancel(job: VideoJob, cancellation: Cancellation): Promise<JobState> {
    await this.#tellEnd(job, cancellation)
    return toEnded('cancelled', 'The operator has cancelled it')
  }

  /** Tells the provider that a job is no longer wanted. It may have ended, or know no such thing. */
  async #tellEnd(job: VideoJob, cancellation: Cancellation): Promise<void> {
    try {
      const request = getJobProtocol(job).buildCancel?.(toUpstream(job))
      if (request) await askJobProvider(this.#world, job, request, cancellation)
    } catch {
      if (cancellation.reason) throw cancellation.reason
    }
  }

  async #poll(followed: FollowedJob, cancellation: Cancellation): Promise<JobState | null> {
    const { job } = followed
    const protocol = getJobProtocol(job)
    const upstream = toUpstream(job)
    const answer = await askJobProvider(
      this.#world,
      job,
      protocol.buildPoll(upstream),
      cancellation,
    )
    if (answer.status === 404 || answer.status === 410) return this.#noteMissing(followed, answer)
    if (answer.status < 200 || answer.status > 299) throw new Unanswered(answer.retryAfter)
    const state = protocol.readState(answer.body, upstream)
    Object.assign(followed, { failures: 0, missing: 0 })
    if (state.status !== 'completed' || !protocol.buildResult || !protocol.readResult) return state
    const request = protocol.buildResult(upstream)
    const result = await askJobProvider(this.#world, job, request, cancellation)
    return protocol.readResult(result.status, result.body)
  }

  // A job that has just begun may not be known everywhere yet.
  #noteMissing(followed: FollowedJob, { retryAfter }: JobAnswer): JobState {
    followed.missing += 1
    if (followed.missing < MOST_MISSING) throw new Unanswered(retryAfter)
    return toEnded('failed', 'The provider does not know the job any more')
  }

  async #apply(
    followed: FollowedJob,
    state: JobState | null,
    cancellation: Cancellation,
  ): Promise<void> {
    const { job } = followed
    if (state && isOutcome(state)) return this.#end(followed, state)
    if (this.#world.clock.ticks() >= followed.deadline) {
      await this.#tellEnd(job, cancellation)
      return this.#end(followed, TOO_LATE)
    }
    if (!state) return
    if (state.status === 'in_progress' && job.status === 'pending') {
      followed.job = { ...job, status: 'in_progress' }
      await this.#world.store.videos.markStarted(job.id)
    }
    followed.polls += 1
    const { firstPause, longestPause } = this.#pace
    this.#delay(followed, { firstPause, longestPause }, followed.polls, null)
  }

  /** Ends a job. Throws 503, and has it asked about again, where its budgets cannot be read. */
  async #end(followed: FollowedJob, outcome: VideoOutcome): Promise<void> {
    const { job, hold } = followed
    const { subaccounts = [] } = parseDetails(job.details)
    const close = await this.#world.ledger.openSubaccounts(subaccounts)
    // Another server follows it by now.
    if (this.#jobs.get(job.id) !== followed) return close()
    // It is forgotten first: however long its record takes to write, it is not ended twice.
    this.#jobs.delete(job.id)
    this.#ending.add(job.id)
    await endVideo(this.#world, job, hold, outcome).then(
      () => {
        this.#ending.delete(job.id)
        for (const ended of this.#lists) ended.add(job.id)
        close()
      },
      () => undefined,
    )
    if (job.callback !== null && this.#isStarted)
      await this.#callbacks.load().catch(() => undefined)
  }

  #postpone(followed: FollowedJob, thrown: unknown): void {
    const retryAfter = thrown instanceof Unanswered ? thrown.retryAfter : null
    const { firstPause, longestRetry: longestPause } = this.#pace
    this.#delay(followed, { firstPause, longestPause }, Math.max(1, followed.failures), retryAfter)
  }

  // Asked about once more at its deadline at the latest, so that it is not late for what is there.
  #delay(
    followed: FollowedJob,
    pace: Pick<DeliveryPace, 'firstPause' | 'longestPause'>,
    count: number,
    retryAfter: string | null,
  ): void {
    const { clock, ids } = this.#world
    const now = { now: clock.now().getTime(), random: ids.random() }
    const pause = computePause({ ...pace, linger: 0, timeout: 0 }, count, retryAfter, now)
    const ticks = clock.ticks()
    const latest = Math.max(followed.deadline, ticks + pace.firstPause)
    followed.nextAt = Math.min(ticks + pause, latest)
  }
}

/** The provider did not say how a job is doing. */
class Unanswered extends Error {
  readonly retryAfter: string | null

  constructor(retryAfter: string | null) {
    super('The provider did not say how the job is doing')
    this.retryAfter = retryAfter
  }
}

const STOPPED = new GatewayError('provider_unavailable', 'The gateway stops')

const TOO_LATE: VideoOutcome = {
  status: 'expired',
  error: 'The provider took too long',
  outputs: [],
  seconds: null,
}

const toUpstream = ({ upstream_id, upstream_model: upstreamModel }: VideoJob) => ({
  upstream_id,
  upstreamModel,
})

const isOutcome = (state: JobState): state is JobState & VideoOutcome =>
  state.status !== 'pending' && state.status !== 'in_progress'
