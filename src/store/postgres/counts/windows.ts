import type { CountedWindow, SharedWindow } from '../../../limits/counters.ts'
import type { Given, Pooled, Pools } from '../../valkey/pools.ts'
import { type Asker, Asking, type CountRow, NOTHING, type Trips } from './trips.ts'

/** In milliseconds: what is left of a day and was not used for so long is returned unasked. */
const REST = 2_000
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
      if (clock.ticks() - share.usedAt > REST) share.giveBack()
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
