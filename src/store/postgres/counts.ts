import { unavailable } from '../../base/errors.ts'
import type { CountedPlaces, SharedCounts, SharedPlaces } from '../../limits/counters.ts'
import {
  type Asker,
  Asking,
  type CountOptions,
  DatabaseClock,
  type PlacesRow,
  Trips,
} from './counts/trips.ts'
import { Window } from './counts/windows.ts'

/** What a node counts together with others. */
export interface NodeCounts extends SharedCounts {
  /** How often the database was asked. */
  readonly trips: number
  /** Returns what is in hand. */
  close(): Promise<void>
}

/** In milliseconds, between two looks at what other nodes lack. */
const TICK = 100
/** In milliseconds: how long a node that ends returns what it has, that of days first. */
const LAST = 1_000
/** In milliseconds, between two removals of rows that nobody needs. */
const SWEEP = 60_000

/**
 * Opens what the nodes of one database count together. A node has a part of what is left in hand:
 * it takes that from the database, uses it without asking, and returns it when another has too
 * little. So a limit holds for all nodes together, exactly and at any moment, and nothing of it is
 * lost while they are alive: one that finds nothing waits once until the others have returned what
 * they do not use. A node that dies takes along what it has in hand of the current window: at its
 * last asking that was a quarter of its share of what was left, or what its own calls had asked
 * for. Its places are free as soon as it does not count as serving.
 *
 * Windows are those of the database's clock. While it is away, what is in hand is used, and after
 * that calls are refused with 503. Its crash empties the counts of windows, and each node tells
 * what it knows of them as soon as it is back: until all have, at most as much may be taken once
 * more as the nodes that are late know of, and never more than a limit itself. Places outlive a
 * crash.
 */
export async function openSharedCounts(options: CountOptions): Promise<NodeCounts> {
  const clock = new DatabaseClock(options.ticks)
  const trips = new Trips(options, clock)
  const windows: Window[] = []
  const opened: Places[] = []
  trips.onSilence = () => {
    for (const places of opened) places.distrust()
  }
  await trips.look()
  let sweptAt = clock.ticks()
  let isLooking = false
  const tick = async () => {
    if (isLooking) return
    isLooking = true
    try {
      for (const window of windows) window.forgetOld()
      if (![...windows, ...opened].some(({ isInUse }) => isInUse)) return
      const wanted = await trips.look()
      const isBack = trips.isDoubtful
      trips.isDoubtful = false
      for (const one of [...windows, ...opened]) one.tend(wanted, isBack)
      if (clock.ticks() - sweptAt < SWEEP) return
      sweptAt = clock.ticks()
      await trips.sweep()
    } catch {
      // Looked at again.
    } finally {
      isLooking = false
    }
  }
  const timer = setInterval(() => void tick(), TICK)
  return {
    clock,
    get trips() {
      return trips.made
    },
    openWindow(name, counted) {
      const window = new Window(name, counted, trips, options.pools)
      windows.push(window)
      return window
    },
    openPlaces(counted) {
      const places = new Places(counted, trips)
      opened.push(places)
      return places
    },
    async close() {
      clearInterval(timer)
      const longest = windows.toSorted((a, b) => b.length - a.length)
      const returned = Promise.allSettled(longest.flatMap(window => window.returnAll()))
      await Promise.race([returned, new Promise(resolve => setTimeout(resolve, LAST).unref())])
      await trips.close()
    },
  }
}

/** In milliseconds: what is not used for so long is returned unasked. */
const LONG_REST = 30_000
/** In milliseconds, between two looks for such. */
const REST = 2_000
/** In milliseconds: how long one waits before it asks again. */
const PAUSE = 100

/** The places of calls that run at once. */
class Places implements SharedPlaces {
  readonly #counted: CountedPlaces
  readonly #trips: Trips
  readonly #shares = new Map<string, PlacesShare>()
  #lookedAt = 0

  constructor(counted: CountedPlaces, trips: Trips) {
    this.#counted = counted
    this.#trips = trips
  }

  get isInUse(): boolean {
    return this.#shares.size > 0
  }

  getUsed(name: string): number {
    return (this.#shares.get(name)?.others ?? 0) + this.#counted.count(name)
  }

  isFree(name: string): boolean {
    const share = this.#shares.get(name)
    return share !== undefined && share.held > this.#counted.count(name) && !this.#trips.isSilent
  }

  cover(name: string, maximum: number): Promise<void> | null {
    if (this.isFree(name) || maximum < 1) return null
    let share = this.#shares.get(name)
    if (share && this.getUsed(name) >= maximum && share.asking.isEmpty) return null
    if (!share) {
      share = new PlacesShare(name, this.#counted, this.#trips)
      this.#shares.set(name, share)
    }
    share.maximum = maximum
    return share.asking.want(1, maximum)
  }

  left(name: string): void {
    const share = this.#shares.get(name)
    if (!share) return
    share.usedAt = this.#trips.clock.ticks()
    if (share.isTight) share.giveBack()
  }

  /** Trusts in no place that no call is in. */
  distrust(): void {
    for (const share of this.#shares.values()) share.distrust()
  }

  awaitChange(): Promise<void> {
    return new Promise(resolve => setTimeout(resolve, PAUSE))
  }

  tend(wanted: Set<string>, isBack: boolean): void {
    if (isBack) for (const share of this.#shares.values()) void share.asking.tell()
    for (const name of wanted) this.#shares.get(name)?.giveBack()
    const now = this.#trips.clock.ticks()
    if (now - this.#lookedAt < REST) return
    this.#lookedAt = now
    for (const [name, share] of this.#shares)
      if (now - share.usedAt > LONG_REST) {
        if (share.held === 0 && share.asking.isFree) this.#shares.delete(name)
        else share.giveBack()
      }
  }
}

/** What this node has of the places of one name. */
class PlacesShare implements Asker {
  readonly name: string
  readonly asking: Asking
  /** Those that calls of this node are in, or may enter without asking. */
  held = 0
  /** Those that others have, as far as this node knows. */
  others = 0
  maximum = 0
  usedAt: number
  readonly #counted: CountedPlaces
  readonly #trips: Trips
  #nodes = 1
  #gives = false

  constructor(name: string, counted: CountedPlaces, trips: Trips) {
    this.name = name
    this.#counted = counted
    this.#trips = trips
    this.usedAt = trips.clock.ticks()
    this.asking = new Asking(trips.clock, () => trips.sendPlaces(this))
  }

  /** Whether there are so few that none may lie unused. */
  get isTight(): boolean {
    return this.#nodes > 1 && this.maximum < 2 * this.#nodes
  }

  distrust(): void {
    this.held = Math.min(this.held, this.#counted.count(this.name))
  }

  giveBack(): void {
    if (this.held <= this.#counted.count(this.name) || !this.asking.isFree) return
    this.#gives = true
    void this.asking.tell()
  }

  ask(): object {
    const need = this.asking.open()
    if (this.#trips.isSilent) this.distrust()
    const running = this.#counted.count(this.name)
    // More may run than it knows of where it was taken for gone.
    this.held = this.#gives && need.want === 0 ? running : Math.max(this.held, running)
    this.#gives = false
    return { name: this.name, held: this.held, ...need }
  }

  take({ held, others, nodes }: PlacesRow): void {
    const { want } = this.asking.open()
    if (held === null) {
      this.fail(unavailable('The database has not heard of this server', 1), true)
      return
    }
    const granted = held - this.held
    this.held = held
    this.others = others
    this.#nodes = nodes
    this.asking.close(want > 0 && granted === 0, nodes)
    this.#counted.wake(this.name)
    // Calls that have ended meanwhile.
    if (this.isTight) this.giveBack()
  }

  fail(error: unknown, isOver: boolean): void {
    this.asking.fail(error, isOver)
  }
}
