import type { CountedWindow, SharedWindow } from '../../../limits/counters.ts'
import { type Asker, Asking, type CountRow, NOTHING, type Trips } from './trips.ts'

/** In milliseconds: what is left of a day and was not used for so long is returned unasked. */
const REST = 2_000
const MINUTE = 60_000

/** One kind of counters by minutes or days. */
export class Window implements SharedWindow {
  readonly length: number
  readonly #kind: string
  readonly #counted: CountedWindow
  readonly #trips: Trips
  readonly #shares = new Map<string, Share>()
  /** Those of which more was used than this node has told. */
  readonly #indebted = new Set<Share>()
  #number = 0

  constructor(kind: string, counted: CountedWindow, trips: Trips) {
    this.length = counted.length
    this.#kind = kind
    this.#counted = counted
    this.#trips = trips
  }

  get isInUse(): boolean {
    return this.#shares.size > 0
  }

  cover(name: string, count: number, maximum: number): Promise<void> | null {
    if (count > maximum) return null
    const share = this.#findShare(name)
    const used = this.#counted.getCount(name)
    const short = count - Math.max(0, share.taken - used)
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
      share = new Share(`${this.#kind} ${name}`, name, this.#counted, this.#trips)
      this.#shares.set(name, share)
    }
    return share
  }
}

/**
 * What this node has of one counter in one window. What its window counts is what all nodes have
 * taken, without what this one has in hand.
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
  #gives = false
  /** The debt that is on its way. */
  #told = 0

  constructor(name: string, counter: string, counted: CountedWindow, trips: Trips) {
    this.name = name
    this.#counter = counter
    this.#counted = counted
    this.#number = counted.number
    // What is known of before: from records, from a process before this one.
    this.taken = counted.getCount(counter)
    this.usedAt = trips.clock.ticks()
    this.asking = new Asking(trips.clock, isUrgent => trips.sendCount(this, isUrgent))
  }

  /** What may be used without asking; below 0 what was used beyond. */
  get hand(): number {
    return this.#isOver ? 0 : this.taken - this.#counted.getCount(this.#counter)
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
    const asked = this.#isOver ? NOTHING : { want, demand, maximum }
    const { length } = this.#counted
    return { name: this.name, length, number: this.#number, born, known, debt, ...asked }
  }

  take({ number, born, taken, granted, nodes, moment }: CountRow): void {
    const { want } = this.asking.open()
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
    this.asking.close(want > 0 && granted === 0, nodes)
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
