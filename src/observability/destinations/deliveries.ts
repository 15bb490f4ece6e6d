import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import { Room } from '../../base/room.ts'
import type { Config } from '../../config.ts'
import type { WrittenMessages } from '../outbox.ts'
import { DeliveryQueue, MOST_FAILED, type SharedDelivery } from './deliveries/queue.ts'
import { openRenderer, type Renderer } from './deliveries/renderer.ts'
import { DELIVERY_PACE, type DeliveryPace } from './deliveries/retry.ts'
import {
  type DeliveryCounts,
  DROPPED_AT_ONCE,
  NO_COUNTS,
  type TakenDeliveries,
} from './deliveries/store.ts'
import { getOperatorDestination, OPERATOR_ID } from './operator.ts'
import type { DestinationWorld } from './world.ts'

declare module '../../base/events.ts' {
  interface EventMap {
    /** The queue was full: the oldest messages were dropped. */
    'deliveries.dropped': { destination_id: string; count: number }
  }
}

/** What the queue of destinations is doing. */
export interface Deliveries {
  /** Begins to send, and goes on until `stop`. Only the server of a data directory may. */
  start(): Promise<void>
  /** Ends all requests. What was not delivered waits for the next start. */
  stop(): Promise<void>
  /** Waits until nothing runs that could run now. */
  rest(): Promise<void>
  /**
   * Sends what other servers have recorded, too. `newest` is the number of the last message that any
   * of them has.
   */
  look(newest: number): Promise<void>
  /** Lists the counts of destinations, as far as they are known to this process. */
  list(): DeliveryCounts[]
}

/** How many queues read and render at once, and for how many milliseconds others wait for that. */
const AT_ONCE = 2
const LONGEST_WAIT = 60_000

/** Messages of other servers are counted in a tenth of the time at most. */
const RECOUNT_REST = 9
/** In milliseconds: how long counts may be in doubt. */
const DOUBT = 3_000

/** A full queue makes room for so many messages more, as a part of what waits. */
const ROOM = 1 / 100
const MEBIBYTE = 1024 * 1024

/**
 * Creates the queue of destinations. What is recorded with a call is sent later, so no call waits
 * for a destination. Messages survive the process and are sent at least once. Batches leave in the
 * order of their calls, a few at once.
 */
export const createDeliveries = (
  world: DestinationWorld,
  pace: Partial<DeliveryPace> = {},
  open: () => Renderer = openRenderer,
): Deliveries => new DeliveryQueues(world, { ...DELIVERY_PACE, ...pace }, open)

class DeliveryQueues implements Deliveries {
  readonly #world: DestinationWorld
  readonly #pace: DeliveryPace
  readonly #openRenderer: () => Renderer
  readonly #queues = new Map<string, DeliveryQueue>()
  readonly #counts = new Map<string, DeliveryCounts>()
  #shared: SharedDelivery | null = null
  #listeners: (() => void)[] = []
  #dropping: Promise<void> | null = null
  /** The newest message that was counted, and how many this process has added since. */
  #newest = 0
  #added = 0
  /** How often counts have changed: now, and when they were read, unless they are certain since. */
  #changes = 0
  #changesThen: number | null = null
  /** When they may be read again, and when they are if they are in doubt. Steady milliseconds. */
  #recountAt = 0
  #doubtUntil = 0

  constructor(world: DestinationWorld, pace: DeliveryPace, open: () => Renderer) {
    this.#world = world
    this.#pace = pace
    this.#openRenderer = open
  }

  async start(): Promise<void> {
    const { events } = this.#world
    this.#shared = this.#createShared()
    this.#listeners = [
      events.on('outbox.written', written => this.#add(written)),
      events.on('destinations.changed', () => this.#rescan()),
      events.on('store.reloaded', () => void this.#lookForReplays()),
    ]
    await this.#recount()
    this.#rescan()
    this.#checkSize()
  }

  async stop(): Promise<void> {
    for (const remove of this.#listeners) remove()
    this.#listeners = []
    if (!this.#shared) return
    this.#shared.stop()
    for (const request of this.#shared.requests) request.cancel(STOPPED)
    this.#shared.renderer.close()
    await this.#dropping
    for (const queue of this.#queues.values()) await queue.stop()
    this.#queues.clear()
    this.#shared = null
    // They are another server's from here on.
    if (this.#world.jobs) this.#counts.clear()
  }

  async look(newest: number): Promise<void> {
    if (!this.#shared) return
    const isKnown = newest === this.#newest + this.#added
    // What was being written when they were read may be counted twice, or not at all.
    const isCertain = this.#changesThen === this.#changes
    if (isKnown && isCertain) this.#changesThen = null
    if (isKnown && this.#changesThen === null) return
    const { clock } = this.#world
    const startedAt = clock.ticks()
    if (startedAt < (isKnown ? this.#doubtUntil : this.#recountAt)) return
    await this.#recount()
    const now = clock.ticks()
    this.#recountAt = now + (now - startedAt) * RECOUNT_REST
    this.#doubtUntil = Math.max(this.#recountAt, now + DOUBT)
    this.#changesThen = this.#changes
    this.#newest = newest
    this.#added = 0
    for (const { destination_id, waiting } of this.list())
      if (waiting > 0) this.#getQueue(destination_id)?.linger()
    this.#checkSize()
  }

  async rest(): Promise<void> {
    await this.#dropping
    for (const queue of this.#queues.values()) await queue.rest()
  }

  list(): DeliveryCounts[] {
    return [...this.#counts.values()]
  }

  #createShared(): SharedDelivery {
    const { jobs } = this.#world
    let isStopped = false
    return {
      get isStopped() {
        return isStopped || jobs?.isHeld === false
      },
      stop() {
        isStopped = true
      },
      world: this.#world,
      pace: this.#pace,
      renderer: this.#openRenderer(),
      room: new Room(AT_ONCE, LONGEST_WAIT),
      requests: new Set(),
      onTaken: (taken, count) => this.#take(taken, count),
      onError: (id, noted) => Object.assign(this.#getCounts(id), noted),
    }
  }

  #getQueue(id: string): DeliveryQueue | null {
    if (!this.#shared) return null
    const known = this.#queues.get(id)
    if (known) return known
    const queue = new DeliveryQueue(id, this.#shared)
    this.#queues.set(id, queue)
    return queue
  }

  #getCounts(destination_id: string): DeliveryCounts {
    const known = this.#counts.get(destination_id)
    if (known) return known
    const counts = { ...NO_COUNTS, destination_id }
    this.#counts.set(destination_id, counts)
    return counts
  }

  #add({ receivers, count, bytes }: WrittenMessages): void {
    this.#changes += 1
    this.#added += count
    for (const id of receivers) {
      const counts = this.#getCounts(id)
      counts.waiting += count
      counts.bytes += bytes
      this.#getQueue(id)?.linger()
    }
    this.#checkSize()
  }

  #take(
    { destination_id, count, bytes }: TakenDeliveries,
    into: 'delivered' | 'skipped' | 'dropped' | 'failed',
  ): void {
    const counts = this.#getCounts(destination_id)
    this.#changes += 1
    counts.waiting -= count
    counts.bytes -= bytes
    counts[into] += count
    const tooMany = Math.max(0, counts.failed - MOST_FAILED)
    counts.failed -= tooMany
    counts.dropped += tooMany
    if (into === 'delivered') counts.last_success_at = this.#world.clock.now().toISOString()
  }

  #rescan(): void {
    const { destinations } = this.#world.memory
    for (const id of [...this.#queues.keys(), ...this.#counts.keys()])
      if (!destinations.has(id) && id !== OPERATOR_ID) {
        this.#queues.delete(id)
        this.#counts.delete(id)
      }
    for (const id of [...destinations.keys(), ...this.#listOperators()])
      this.#getQueue(id)?.rescan()
  }

  // What waits for one that is not in the config any more is dropped.
  #listOperators(): string[] {
    const isKnown = getOperatorDestination(this.#world) !== null || this.#counts.has(OPERATOR_ID)
    return isKnown ? [OPERATOR_ID] : []
  }

  async #recount(): Promise<void> {
    const counted = await this.#world.store.deliveries.count()
    this.#counts.clear()
    for (const counts of counted) this.#counts.set(counts.destination_id, counts)
  }

  // Another process may have let messages wait again that had failed, or dropped them.
  async #lookForReplays(): Promise<void> {
    if (this.list().every(counts => counts.failed === 0)) return
    const failed = await this.#world.store.deliveries.countFailed().catch(() => null)
    const isLess = (counts: DeliveryCounts) =>
      (failed?.get(counts.destination_id) ?? 0) < counts.failed
    if (!failed || !this.list().some(isLess)) return
    await this.#recount().catch(() => undefined)
    this.#rescan()
  }

  #checkSize(): void {
    if (this.#countExcess() <= 0) return
    this.#dropping ??= this.#dropExcess().finally(() => {
      this.#dropping = null
    })
  }

  /**
   * Drops the oldest messages as long as there are more than the config allows, and a few more: a
   * transaction for each call that comes would cost as much as the call.
   */
  async #dropExcess(): Promise<void> {
    const room = Math.floor(this.#sumWaiting().waiting * ROOM)
    for (let excess = this.#countExcess(); excess > 0; excess = this.#countExcess()) {
      const dropped = await this.#world.store.deliveries
        .dropOldest(Math.min(excess + room, DROPPED_AT_ONCE))
        .catch(() => [])
      if (dropped.length === 0) return
      for (const taken of dropped) {
        this.#take(taken, 'dropped')
        const { destination_id, count } = taken
        this.#world.events.publish('deliveries.dropped', { destination_id, count })
      }
      await yieldToEventLoop()
    }
  }

  /** Counts how many messages are too many, by their number or, on average, by their bytes. */
  #countExcess(): number {
    const { queue_rows, queue_mib }: Config['telemetry'] = this.#world.config.telemetry
    const { waiting, bytes } = this.#sumWaiting()
    const excessBytes = bytes - queue_mib * MEBIBYTE
    const byBytes = excessBytes > 0 ? Math.ceil(excessBytes / (bytes / waiting)) : 0
    return Math.max(waiting - queue_rows, byBytes)
  }

  /** Sums the messages that wait for all destinations, and their bytes. */
  #sumWaiting(): Pick<DeliveryCounts, 'waiting' | 'bytes'> {
    const sum = { waiting: 0, bytes: 0 }
    for (const { waiting, bytes } of this.#counts.values()) {
      sum.waiting += waiting
      sum.bytes += bytes
    }
    return sum
  }
}

const STOPPED = new GatewayError('provider_unavailable', 'The gateway stops')
