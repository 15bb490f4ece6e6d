import { unavailable } from '../../../base/errors.ts'
import type { CountedPlaces, SharedPlaces } from '../../../limits/counters.ts'
import { type Asker, Asking, type PlacesRow, type Trips } from './trips.ts'

/** In milliseconds: what is not used for so long is returned unasked. */
const LONG_REST = 30_000
/** In milliseconds, between two looks for such. */
const REST = 2_000
/** In milliseconds: how long one waits before it asks again. */
const PAUSE = 100

/** The places of calls that run at once. */
export class Places implements SharedPlaces {
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
