import type { Cancellation } from '../../../base/cancellation.ts'
import { getIsoTime, yieldToEventLoop } from '../../../base/clock.ts'
import { JobError } from '../../../base/job-worker.ts'
import type { Room } from '../../../base/room.ts'
import { getOperator } from '../../../resources/actor.ts'
import { pauseDestination } from '../../destinations.ts'
import { judgeAnswer } from '../judge.ts'
import type { DeliveryRequest, Verdict } from '../kind.ts'
import type { OpenedDestination } from '../opened.ts'
import { findDestination, isOperators, OPERATOR_ID } from '../operator.ts'
import { isActive } from '../subscribers.ts'
import type { DestinationWorld } from '../world.ts'
import { createRenderJob, type RenderedBatch, type Renderer } from './renderer.ts'
import { computePause, type DeliveryPace, LONGEST_RETRY } from './retry.ts'
import { describeReason, type Sent, sendDelivery } from './send.ts'
import {
  type DeliveryRefusal,
  type DeliveryStore,
  DROPPED_AT_ONCE,
  type TakenDeliveries,
  type WaitingDelivery,
} from './store.ts'

/** How many requests to one destination run at once. */
const CONCURRENCY = 4
/** The most messages that are kept after a destination has refused them. */
export const MOST_FAILED = 1_000
/** A batch that is answered with failures so often is cut: one message may be at fault. */
const PATIENCE = 3

declare module '../../../base/events.ts' {
  interface EventMap {
    /** A request to a destination has ended. */
    'delivery.ended': DeliveryEnd
    /** A destination that could be reached cannot be any more. */
    'destination.failing': { id: string; type: string; reason: string }
    /** It can again. */
    'destination.recovered': { id: string; type: string }
    /** It said that it is gone for good (410), so it is paused. */
    'destination.gone': { id: string; type: string }
  }
}

/** How a request to a destination ended, and after how many milliseconds the next may follow. */
export interface DeliveryEnd {
  destination_id: string
  verdict: Verdict
  count: number
  status: number | null
  reason: string | null
  pause: number
}

/** What the queues of all destinations share. */
export interface SharedDelivery {
  world: DestinationWorld
  pace: DeliveryPace
  renderer: Renderer
  /** Few queues read and render at once: what they have read is in memory. */
  room: Room
  /** The requests that run. */
  requests: Set<Cancellation>
  /** Whether nothing more may be sent. */
  readonly isStopped: boolean
  stop(): void
  /** Told what left a queue, and into which count. */
  onTaken(taken: TakenDeliveries, count: 'delivered' | 'skipped' | 'dropped' | 'failed'): void
  onError(id: string, noted: { last_error: string; last_error_at: string }): void
}

/** A batch with the request that delivers it, or what to do as it cannot be rendered. */
interface PreparedBatch {
  batch: Batch
  request: DeliveryRequest | 'split' | 'retry'
}

/** The queue of one destination: what is being sent, what is tried again, and when. */
export class DeliveryQueue {
  readonly #id: string
  readonly #shared: SharedDelivery
  readonly #reader: BatchReader
  readonly #running = new Set<Promise<void>>()
  #again: Batch[] = []
  #lingering: ReturnType<typeof setTimeout> | undefined
  /** Failures in a row that may pass. */
  #failures = 0
  #blockedUntil = 0
  /** How many requests have succeeded. */
  #successes = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #turn: Promise<void> = Promise.resolve()
  #isWaiting = false

  constructor(id: string, shared: SharedDelivery) {
    this.#id = id
    this.#shared = shared
    this.#reader = new BatchReader(id, shared.world.store.deliveries)
  }

  /** Sends what waits, as far as may be sent now. */
  wake(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    // One turn after the other: two would read the same messages.
    this.#turn = this.#turn.then(() => {
      this.#isWaiting = false
      return this.#fill().catch(() => this.#block(this.#shared.pace.firstPause))
    })
  }

  /** Sends what waits after a short while, together with what comes until then. */
  linger(): void {
    this.#lingering ??= setTimeout(() => {
      this.#lingering = undefined
      this.#reader.continue()
      this.wake()
    }, this.#shared.pace.linger)
  }

  /** Reads everything again, and tries it now: settings have changed, or messages came back. */
  rescan(): void {
    for (const batch of this.#again) this.#release(batch)
    this.#again = []
    this.#reader.rewind()
    this.#blockedUntil = 0
    this.wake()
  }

  /** Waits until nothing runs. */
  async rest(): Promise<void> {
    do {
      await this.#turn
      await Promise.all(this.#running)
    } while (this.#isWaiting || this.#running.size > 0)
  }

  /** Tries nothing again by itself, and waits until nothing runs. */
  async stop(): Promise<void> {
    await this.rest()
    clearTimeout(this.#timer)
    clearTimeout(this.#lingering)
  }

  get #world(): DestinationWorld {
    return this.#shared.world
  }

  async #fill(): Promise<void> {
    while (!this.#shared.isStopped) {
      const opened = findDestination(this.#world, this.#id)
      // What waits for a destination that was deleted is deleted with it.
      if (!opened) return this.#id === OPERATOR_ID ? this.#drop() : undefined
      if (!this.#isTold(opened)) {
        // Another server may have switched it on a moment ago.
        await this.#world.catchUp()
        const now = findDestination(this.#world, this.#id)
        if (now && !this.#isTold(now)) return this.#drop()
        continue
      }
      if (opened.destination.paused_at !== null || this.#isBlocked()) return
      if (this.#running.size >= (this.#failures > 0 ? 1 : CONCURRENCY)) return
      const prepared = await this.#prepare(opened)
      if (!prepared || this.#shared.isStopped) return
      if (prepared.batch.items.length > 0) this.#start(opened, prepared)
    }
  }

  // A config that cannot be decrypted may be again, once the secret is back.
  #isTold(opened: OpenedDestination): boolean {
    if (isOperators(opened)) return true
    const { workspace_id, enabled } = opened.destination
    const workspace = this.#world.memory.workspaces.get(workspace_id)
    return enabled && workspace?.is_observability_broadcast_enabled === true
  }

  #isBlocked(): boolean {
    const left = this.#blockedUntil - this.#world.clock.ticks()
    return left > 0
  }

  /**
   * Reads the next batch and has its request rendered. What the destination is not to get leaves the
   * batch, perhaps all of it. Null if nothing waits that may be sent.
   */
  async #prepare(opened: OpenedDestination): Promise<PreparedBatch | null> {
    const { kind, config } = opened
    if (!isActive(opened) || !kind || !config) return null
    if (this.#again.length === 0 && this.#reader.isCaughtUp) return null
    const leave = await this.#shared.room.enter()
    const again = this.#again.shift()
    const batch = again ?? createBatch([])
    try {
      const rows = await this.#reader.read(batch, kind.batchSize)
      if (rows.length === 0) return again ? { batch, request: 'split' } : null
      // Perhaps not everything was read.
      if (this.#reader.isCaughtUp) this.linger()
      const job = createRenderJob(this.#world, { ...opened, config }, rows)
      const rendered = await this.#shared.renderer.render(job).catch(readProblem)
      if (rendered instanceof JobError) return judgeProblem(batch, rendered)
      await this.#sortOut(batch, rendered)
      return { batch, request: rendered.request ?? 'split' }
    } catch (thrown) {
      // The store does not answer: what was read is read again later.
      this.#putAway(batch)
      throw thrown
    } finally {
      leave()
    }
  }

  /** Takes messages out of a batch that its request does not tell. */
  async #sortOut(batch: Batch, rendered: RenderedBatch): Promise<void> {
    const { told, skipped, unreadable, unjudged } = rendered
    if (told.length === batch.items.length) return
    if (skipped.length > 0) {
      this.#shared.onTaken(await this.#world.store.deliveries.skip(this.#id, skipped), 'skipped')
      this.#reader.release(skipped)
    }
    if (unreadable.length > 0) await this.#fail(unreadable, UNREADABLE, null)
    if (unjudged.length > 0) await this.#fail(unjudged, UNJUDGED, null)
    const left = new Set(told)
    batch.items = batch.items.filter(({ sequence }) => left.has(sequence))
  }

  /** Forgets what was read: it is read again later. */
  #putAway(batch: Batch): void {
    this.#release(batch)
    this.#reader.rewind()
  }

  #start(opened: OpenedDestination, prepared: PreparedBatch): void {
    const running = this.#send(opened, prepared)
      // The store does not answer: what was read is read again later.
      .catch(() => {
        this.#putAway(prepared.batch)
        this.#block(this.#shared.pace.firstPause)
      })
      .finally(() => {
        this.#running.delete(running)
        this.wake()
      })
    this.#running.add(running)
  }

  async #send(opened: OpenedDestination, { batch, request }: PreparedBatch): Promise<void> {
    const { sent, verdict } = await this.#request(opened, request)
    // Nothing is known of what was cut off by the end of this process.
    if (this.#shared.isStopped && verdict === 'retry') return
    const reason = describeReason(sent)
    const status = sent.answer?.status ?? null
    const pause = await this.#settle(batch, sent, verdict, reason)
    if (status === GONE && !isOperators(opened)) await this.#pauseGone(opened)
    const { length: count } = batch.items
    const end = { destination_id: this.#id, verdict, count, status, reason, pause }
    this.#world.events.publish('delivery.ended', end)
  }

  async #request(
    { kind }: OpenedDestination,
    request: PreparedBatch['request'],
  ): Promise<{ sent: Sent; verdict: Verdict }> {
    if (typeof request === 'string') return { sent: UNRENDERED, verdict: request }
    const sent = await sendDelivery(this.#world, request, {
      timeout: this.#shared.pace.timeout,
      requests: this.#shared.requests,
      isOperators: this.#id === OPERATOR_ID,
    })
    if (!sent.answer || !kind) return { sent, verdict: 'retry' }
    return { sent, verdict: refine(judgeAnswer(kind, sent.answer), sent.answer.status) }
  }

  /** Does what a verdict asks for, and returns the pause before the next request. */
  async #settle(
    batch: Batch,
    { answer, retryAfter }: Sent,
    verdict: Verdict,
    reason: string | null,
  ): Promise<number> {
    const status = answer?.status ?? null
    if (verdict === 'delivered') return this.#finish(batch)
    if (verdict === 'split' && batch.items.length > 1) return this.#cut(batch)
    if (verdict !== 'retry') {
      await this.#fail(listSequences(batch), reason ?? 'It was refused', status)
      return 0
    }
    return this.#retry(batch, reason ?? 'It failed', status, retryAfter)
  }

  async #finish(batch: Batch): Promise<number> {
    const sequences = listSequences(batch)
    const { deliveries } = this.#world.store
    const taken = await deliveries.finish(this.#id, sequences, getIsoTime(this.#world))
    this.#release(batch)
    this.#shared.onTaken(taken, 'delivered')
    this.#successes += 1
    if (this.#failures > 0) this.#publish('destination.recovered')
    this.#failures = 0
    this.#blockedUntil = 0
    return 0
  }

  #cut(batch: Batch): number {
    this.#again.unshift(...splitBatch(batch))
    return 0
  }

  async #retry(
    batch: Batch,
    reason: string,
    status: number | null,
    retryAfter: string | null,
  ): Promise<number> {
    const { clock, ids } = this.#world
    const now = clock.now().getTime()
    batch.successesBefore ??= this.#successes
    if (status !== null) batch.failures += 1
    this.#failures += 1
    await this.#noteError(reason)
    await this.#giveUp(batch, now, reason, status)
    if (batch.items.length > 0) await this.#putBack(batch, reason, status)
    const pause = computePause(this.#shared.pace, this.#failures, retryAfter, {
      now,
      random: ids.random(),
    })
    this.#block(pause)
    if (this.#failures === 1) this.#publish('destination.failing', reason)
    return pause
  }

  /** Gives up what has failed for a day. */
  async #giveUp(batch: Batch, now: number, reason: string, status: number | null): Promise<void> {
    const isOld = ({ created_at }: BatchItem) => now - Date.parse(created_at) > LONGEST_RETRY
    const old = batch.items.filter(isOld)
    if (old.length === 0) return
    const sequences = old.map(({ sequence }) => sequence)
    await this.#fail(sequences, `Given up after 24 hours: ${reason}`, status)
    batch.items = batch.items.filter(item => !old.includes(item))
  }

  /**
   * Puts a batch back to be tried again. One that is answered with failures again and again is cut,
   * so that a message that its receiver stumbles over is found. That one is given up, as others
   * arrive.
   */
  async #putBack(batch: Batch, reason: string, status: number | null): Promise<void> {
    if (batch.failures < PATIENCE) this.#again.push(batch)
    else if (batch.items.length > 1) this.#again.push(...splitBatch(batch))
    else if (this.#successes > (batch.successesBefore ?? Number.POSITIVE_INFINITY))
      await this.#fail(listSequences(batch), reason, status)
    else this.#again.push(batch)
  }

  async #fail(sequences: number[], reason: string, status: number | null): Promise<void> {
    const refusal: DeliveryRefusal = { reason, status, failed_at: getIsoTime(this.#world) }
    const { deliveries } = this.#world.store
    const taken = await deliveries.fail(this.#id, sequences, refusal, MOST_FAILED)
    this.#reader.release(sequences)
    this.#shared.onTaken(taken, 'failed')
    this.#shared.onError(this.#id, { last_error: reason, last_error_at: refusal.failed_at })
  }

  async #noteError(last_error: string): Promise<void> {
    const last_error_at = getIsoTime(this.#world)
    await this.#world.store.deliveries.noteError(this.#id, last_error, last_error_at)
    this.#shared.onError(this.#id, { last_error, last_error_at })
  }

  /** Drops what waits for a destination that is switched off. */
  async #drop(): Promise<void> {
    this.#again = []
    this.#reader.clear()
    for (;;) {
      const taken = await this.#world.store.deliveries.drop(this.#id, DROPPED_AT_ONCE)
      this.#shared.onTaken(taken, 'dropped')
      if (taken.count < DROPPED_AT_ONCE) return
      await yieldToEventLoop()
    }
  }

  async #pauseGone(opened: OpenedDestination): Promise<void> {
    this.#publish('destination.gone')
    const operator = getOperator(this.#world)
    await pauseDestination(this.#world, operator, opened.destination.id)
  }

  #block(pause: number): void {
    this.#blockedUntil = this.#world.clock.ticks() + pause
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#blockedUntil = 0
      this.wake()
    }, pause)
  }

  #release(batch: Batch): void {
    this.#reader.release(listSequences(batch))
  }

  #publish(
    name: 'destination.failing' | 'destination.recovered' | 'destination.gone',
    reason = '',
  ): void {
    const type = findDestination(this.#world, this.#id)?.destination.type ?? ''
    this.#world.events.publish(name, { id: this.#id, type, reason })
  }
}

const GONE = 410
/** A receiver refuses the whole batch for one message that it does not understand. */
const BLAMED = [400, 422]

const refine = (verdict: Verdict, status: number): Verdict =>
  verdict === 'refused' && BLAMED.includes(status) ? 'split' : verdict

const UNREADABLE = 'Its content is missing, damaged, or sealed with another secret'
const UNJUDGED = 'The filter rules cannot be applied to it'
const UNRENDERED: Sent = { answer: null, retryAfter: null, failure: 'It cannot be rendered' }

function readProblem(thrown: unknown): JobError {
  if (thrown instanceof JobError && thrown.problem !== 'busy') return thrown
  throw thrown
}

/**
 * Decides what to do with a batch that its Worker has not rendered. One that takes too long is cut.
 * Otherwise the Worker may have ended for another reason: the batch is tried again as one whose
 * receiver has failed, so that a message that ends every Worker is found, and no other is given up.
 */
function judgeProblem(batch: Batch, { problem }: JobError): PreparedBatch | null {
  if (problem === 'closed') return null
  if (problem === 'late' && batch.items.length > 1) return { batch, request: 'split' }
  batch.failures += 1
  return { batch, request: 'retry' }
}

/** The most bytes of messages in one batch. */
const BATCH_BYTES = 4 * 1024 * 1024

/** Reads what waits for one destination: in order, and each message once until it is released. */
class BatchReader {
  readonly #id: string
  readonly #store: Pick<DeliveryStore, 'listWaiting'>
  /** The sequences of everything that was read and is not settled. */
  readonly #taken = new Set<number>()
  /** Everything up to here was read. */
  #cursor = 0
  #isRewound = false
  #isCaughtUp = false

  constructor(id: string, store: Pick<DeliveryStore, 'listWaiting'>) {
    this.#id = id
    this.#store = store
  }

  /** Whether the last batch was a small one: what comes after it waits for company. */
  get isCaughtUp(): boolean {
    return this.#isCaughtUp
  }

  /** Lets the next batch be read however small it is. */
  continue(): void {
    this.#isCaughtUp = false
  }

  /** Begins with the oldest message again. Those that are taken are left out. */
  rewind(): void {
    this.#cursor = 0
    this.#isRewound = true
    this.#isCaughtUp = false
  }

  /** Lets messages be read again. */
  release(sequences: Iterable<number>): void {
    for (const sequence of sequences) this.#taken.delete(sequence)
  }

  /** Forgets everything that was read. */
  clear(): void {
    this.#taken.clear()
    this.rewind()
  }

  /**
   * Reads the messages of a batch that is tried again, as far as they still wait, or puts the next
   * ones into an empty batch, at most `limit`. None if nothing waits.
   */
  async read(batch: Batch, limit: number): Promise<WaitingDelivery[]> {
    const rows = batch.items.length > 0 ? await this.#readAgain(batch) : await this.#readNext(limit)
    this.release(batch.items.map(({ sequence }) => sequence))
    batch.items = createBatch(rows).items
    for (const { sequence } of rows) this.#taken.add(sequence)
    return rows
  }

  async #readNext(limit: number): Promise<WaitingDelivery[]> {
    for (;;) {
      this.#isCaughtUp = true
      this.#isRewound = false
      const rows = await this.#store.listWaiting(this.#id, this.#cursor, limit, BATCH_BYTES)
      const last = rows.at(-1)
      if (!last) return []
      if (!isSmall(rows, limit)) this.#isCaughtUp = false
      if (!this.#isRewound) this.#cursor = last.sequence
      const fresh = rows.filter(({ sequence }) => !this.#taken.has(sequence))
      if (fresh.length > 0) return fresh
    }
  }

  // Others may wait among those of the batch.
  async #readAgain({ items }: Batch): Promise<WaitingDelivery[]> {
    const numbers = new Set(items.map(({ sequence }) => sequence))
    const last = items.at(-1)?.sequence ?? 0
    const found: WaitingDelivery[] = []
    for (let after = (items[0]?.sequence ?? 0) - 1; after < last; ) {
      const rows = await this.#store.listWaiting(this.#id, after, items.length, BATCH_BYTES)
      found.push(...rows.filter(({ sequence }) => numbers.has(sequence)))
      after = rows.at(-1)?.sequence ?? last
    }
    return found
  }
}

/** Whether the next batch would be a small one, too, if it were read at once. */
const isSmall = (rows: WaitingDelivery[], limit: number): boolean =>
  rows.length < limit / 2 && rows.reduce((sum, { bytes }) => sum + bytes, 0) < BATCH_BYTES / 2

/** Messages that go to a destination in one request. They stay in the store until it has them. */
interface Batch {
  items: BatchItem[]
  /** How often it was answered with a failure that may pass. */
  failures: number
  /** How many requests had succeeded when it failed first; null if it has not. */
  successesBefore: number | null
}

type BatchItem = Pick<WaitingDelivery, 'sequence' | 'created_at'>

/** Cuts a batch in two. What is known of the first failure stays. */
function splitBatch({ items, successesBefore }: Batch): [Batch, Batch] {
  const middle = Math.ceil(items.length / 2)
  return [
    { ...createBatch(items.slice(0, middle)), successesBefore },
    { ...createBatch(items.slice(middle)), successesBefore },
  ]
}

const createBatch = (items: BatchItem[]): Batch => ({
  items: items.map(({ sequence, created_at }) => ({ sequence, created_at })),
  failures: 0,
  successesBefore: null,
})

/** Lists the sequences of a batch, in order. */
const listSequences = ({ items }: Batch): number[] => items.map(({ sequence }) => sequence)
