import { unavailable } from '../../base/errors.ts'
import type {
  CountedPlaces,
  CountedWindow,
  SharedCounts,
  SharedPlaces,
  SharedWindow,
} from '../../limits/counters.ts'
import type { Given, Pooled, Pools } from '../valkey/pools.ts'
import {
  type Asker,
  Asking,
  type CountOptions,
  type CountRow,
  DatabaseClock,
  NOTHING,
  type PlacesRow,
  Trips,
} from './counts/trips.ts'

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

/** In milliseconds: what is left of a day and was not used for so long is returned unasked. */
const SHARE_REST = 2_000
const MINUTE = 60_000
/** Of what the database has left a pool gets at most the fourth part at once: it may be lost. */
const PART = 4
/** In milliseconds, between two looks at a pool that another node fills, and of all looks together. */
const WAIT = 3
const LONGEST_WAIT = 30

/** One kind of counters by minutes or days. */
export class Window implements SharedWindow {
  readonly length: number
  readonly #kind: string
  readonly #counted: CountedWindow
  readonly #trips: Trips
  readonly #shares = new Map<string, Share>()
  /** Those of which more was used than this node has told. */
  readonly #indebted = new Set<Share>()
  readonly #pools: Pools | undefined
  #number = 0

  constructor(kind: string, counted: CountedWindow, trips: Trips, pools?: Pools) {
    this.length = counted.length
    this.#kind = kind
    this.#counted = counted
    this.#trips = trips
    // A pool that is lost is missed until its window ends.
    this.#pools = counted.length === MINUTE ? pools : undefined
  }

  get isInUse(): boolean {
    return this.#shares.size > 0
  }

  cover(name: string, count: number, maximum: number): Promise<void> | null {
    if (count > maximum) return null
    const share = this.#findShare(name)
    const used = this.#counted.getCount(name)
    const short = count - Math.max(0, share.hand)
    if (short <= 0 || (used + count > maximum && share.asking.isEmpty)) return null
    return share.asking.want(short, maximum)
  }

  note(name: string): void {
    const share = this.#findShare(name)
    share.usedAt = this.#trips.clock.ticks()
    if (share.hand < 0) this.#indebted.add(share)
  }

  isShared(name: string): boolean {
    return this.#findShare(name).born > 0
  }

  forgetOld(): void {
    if (this.#counted.number === this.#number) return
    this.#number = this.#counted.number
    this.#shares.clear()
    this.#indebted.clear()
  }

  /** Returns what others lack or this node does not use, and tells what was used beyond. */
  tend(wanted: Set<string>, isBack: boolean): void {
    for (const share of this.#indebted) void share.asking.tell()
    this.#indebted.clear()
    if (isBack) for (const share of this.#shares.values()) void share.asking.tell()
    const prefix = `${this.#kind} `
    for (const name of wanted)
      if (name.startsWith(prefix)) this.#shares.get(name.slice(prefix.length))?.giveBack()
    if (this.length === MINUTE) return
    const { clock } = this.#trips
    for (const share of this.#shares.values())
      if (clock.ticks() - share.usedAt > SHARE_REST) share.giveBack()
  }

  returnAll(): Promise<void>[] {
    this.forgetOld()
    return Array.from(this.#shares.values(), share => share.giveBack() ?? Promise.resolve())
  }

  #findShare(name: string): Share {
    this.forgetOld()
    let share = this.#shares.get(name)
    if (!share) {
      share = new Share(`${this.#kind} ${name}`, name, this.#counted, this.#trips, this.#pools)
      this.#shares.set(name, share)
    }
    return share
  }
}

/**
 * What this node has of one counter in one window. What its window counts is what all nodes have
 * taken, without what this one has in hand and what is in their pool.
 */
class Share implements Asker {
  readonly name: string
  readonly asking: Asking
  /** What all nodes have taken, as far as this one knows. */
  taken: number
  /** 0 until the database has answered. */
  born = 0
  usedAt: number
  readonly #counter: string
  readonly #counted: CountedWindow
  readonly #number: number
  readonly #trips: Trips
  readonly #pools: Pools | undefined
  #gives = false
  /** The debt that is on its way. */
  #told = 0
  /** What is left in the pool of all nodes, as far as this one knows. */
  #pooled = 0
  #asksPool = false
  /** Whether what is asked for is for all nodes. */
  #fills = false
  #nodes = 1

  constructor(
    name: string,
    counter: string,
    counted: CountedWindow,
    trips: Trips,
    pools: Pools | undefined,
  ) {
    this.name = name
    this.#counter = counter
    this.#counted = counted
    this.#number = counted.number
    // What is known of before: from records, from a process before this one.
    this.taken = counted.getCount(counter)
    this.usedAt = trips.clock.ticks()
    this.#trips = trips
    this.#pools = pools
    this.asking = new Asking(trips.clock, isUrgent => this.#send(isUrgent))
  }

  /** What may be used without asking; below 0 what was used beyond. */
  get hand(): number {
    return this.#isOver ? 0 : this.taken - this.#pooled - this.#counted.getCount(this.#counter)
  }

  get #isOver(): boolean {
    return this.#counted.number !== this.#number
  }

  giveBack(): Promise<void> | undefined {
    if (this.hand <= 0 || !this.asking.isFree) return undefined
    this.#gives = true
    return this.asking.tell()
  }

  ask(): object {
    const { want, demand, maximum } = this.asking.open()
    const { taken: known, born, hand } = this
    const isUnused = this.#gives && want === 0
    this.#gives = false
    const debt = isUnused || hand < 0 ? -hand : 0
    this.taken += debt
    this.#told = Math.max(0, debt)
    this.#fills = want > 0 && this.#pools?.isOn === true
    const most = this.#fills ? Math.max(demand, Math.ceil((maximum - known) / PART)) : demand
    const asked = this.#isOver ? NOTHING : { want, demand: most, maximum }
    const { length } = this.#counted
    return { name: this.name, length, number: this.#number, born, known, debt, ...asked }
  }

  take({ number, born, taken, granted, nodes, moment }: CountRow): void {
    const { want, demand, maximum } = this.asking.need
    this.#told = 0
    if (number !== this.#number || this.#isOver) {
      const { length } = this.#counted
      const early = number < this.#number ? (number + 1) * length - moment : 0
      this.asking.close(false, nodes, Math.min(Math.ceil(early), LONGEST_EARLY))
      return
    }
    const used = this.#counted.getCount(this.#counter)
    this.#counted.setCount(this.#counter, used + taken - this.taken - granted)
    this.taken = taken
    this.born = born
    this.#nodes = nodes
    const isShort = want > 0 && granted === 0
    if (isShort) this.#setPooled(0)
    if (this.#fills) this.#fill(nodes > 1 ? granted : 0, demand)
    if (this.asking.close(isShort, nodes))
      this.#pools?.noteDry(this.#named, { want, demand, maximum }, this)
  }

  /** Asks the pool of all nodes first, where there is one. */
  #send(isUrgent: boolean): void {
    if (!isUrgent || !this.#pools?.isOn) this.#trips.sendCount(this, isUrgent)
    else if (!this.#asksPool) void this.#askPool(this.#pools)
  }

  async #askPool(pools: Pools): Promise<void> {
    this.#asksPool = true
    const isDry = await this.#takeFrom(pools)
    this.#asksPool = false
    if (!this.asking.isWaiting) return
    if (this.#isOver || this.asking.need.want === 0) this.asking.close(false, this.#nodes)
    // Another node has waited for what others do not use already.
    else if (isDry) this.asking.close(true, 1)
    else this.#trips.sendCount(this, true)
  }

  /**
   * Takes what is lacked from the pool, once another node has filled it where one is about to. Returns
   * whether there is known to be nothing.
   */
  async #takeFrom(pools: Pools): Promise<boolean> {
    const { ticks } = this.#trips.clock
    for (const since = ticks(); ; ) {
      const given = await pools.take(this.#named, this.asking.need, this.#nodes)
      if (!given || this.#isOver) return false
      this.#takeGiven(given)
      const isEnough = !this.asking.isWaiting || this.asking.gain(given.granted) === 0
      if (isEnough || !given.isFilling || ticks() - since > LONGEST_WAIT) return given.isDry
      await new Promise(resolve => setTimeout(resolve, WAIT))
    }
  }

  #takeGiven({ granted, left, taken, born, isDry }: Given): void {
    const known = this.taken
    // Else it would be told to the database as what that may have lost.
    if (this.born === 0) this.born = born
    this.taken = Math.max(known, taken)
    const used = this.#counted.getCount(this.#counter)
    this.#counted.setCount(this.#counter, used + this.taken - known - granted)
    this.#setPooled(isDry ? 0 : left)
  }

  /** Puts what this node does not need at once into the pool. */
  #fill(granted: number, demand: number): void {
    const own = Math.max(1, demand, Math.floor(granted / (PART * this.#nodes)))
    const count = Math.max(0, granted - own)
    this.#pooled += count
    void this.#pools?.add(this.#named, count, this).then(outcome => {
      if (outcome === 'added' || this.#isOver) return
      this.#setPooled(Math.max(0, this.#pooled - count))
      // What may be there is used by nobody here.
      if (outcome === 'unknown') return
      this.#counted.setCount(this.#counter, this.#counted.getCount(this.#counter) - count)
    })
  }

  /** Learns what is in the pool. What is in hand stays as it is. */
  #setPooled(left: number): void {
    const used = this.#counted.getCount(this.#counter)
    this.#counted.setCount(this.#counter, used + this.#pooled - left)
    this.#pooled = left
  }

  get #named(): Pooled {
    return { name: this.name, number: this.#number, length: this.#counted.length }
  }

  fail(error: unknown, isOver: boolean): void {
    if (isOver) {
      // Told again, though it may have arrived: no more is used than there is.
      this.taken -= this.#told
      this.#told = 0
    }
    this.asking.fail(error, isOver)
  }
}

/** In milliseconds: a window that has not begun at the database begins soon. */
const LONGEST_EARLY = 50
