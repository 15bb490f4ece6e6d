import type { Clock } from './clock.ts'

/** What a queue does with its items. Times in milliseconds. */
export interface DueWork<Item> {
  getName(item: Item): string
  /** When an item is due, by the calendar. */
  getDue(item: Item): number
  /** Does an item. Returns it as it is to be done again; null once it is over. */
  run(item: Item): Promise<Item | null>
  /** Whether items may be done now: others may have begun to do them. */
  mayRun?: () => boolean
  /** How many are done at once. */
  mostAtOnce: number
  /** A clock that was set back makes no pause longer than this. */
  longestPause: number
}

/** Does items when they are due, a few at once. One timer serves all of them. */
export class DueQueue<Item> {
  readonly #clock: Clock
  readonly #work: DueWork<Item>
  readonly #waiting = new Map<string, Item>()
  readonly #running = new Map<string, Promise<void>>()
  #isStopped = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(clock: Clock, work: DueWork<Item>) {
    this.#clock = clock
    this.#work = work
  }

  /** Whether nothing new is begun. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Adds items, unless they are being done. Goes on where the queue was stopped. */
  start(items: Iterable<Item>): void {
    this.#isStopped = false
    this.add(items)
  }

  /** Adds items, unless they are being done. */
  add(items: Iterable<Item>): void {
    if (this.#isStopped) return
    for (const item of items) {
      const name = this.#work.getName(item)
      if (!this.#running.has(name)) this.#waiting.set(name, item)
    }
    this.#wake()
  }

  /** Forgets what waits, and waits for what is being done. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#waiting.clear()
    await this.rest()
  }

  /** Waits until nothing is being done at this moment. */
  async rest(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  /** Does what is due, and sets the timer for the next. */
  #wake(): void {
    clearTimeout(this.#timer)
    if (this.#isStopped || this.#work.mayRun?.() === false) return
    const now = this.#clock.now().getTime()
    let next = Number.POSITIVE_INFINITY
    for (const [name, item] of this.#waiting) {
      if (this.#running.size >= this.#work.mostAtOnce) return
      const due = this.#work.getDue(item)
      if (due <= now) this.#run(name, item)
      else next = Math.min(next, due)
    }
    const pause = Math.min(next - now, this.#work.longestPause)
    if (this.#waiting.size > 0) this.#timer = setTimeout(() => this.#wake(), pause)
  }

  #run(name: string, item: Item): void {
    this.#waiting.delete(name)
    const turn = this.#work
      .run(item)
      .then(again => {
        if (again !== null && !this.#isStopped) this.#waiting.set(name, again)
      })
      .catch(() => undefined)
      .finally(() => {
        this.#running.delete(name)
        this.#wake()
      })
    this.#running.set(name, turn)
  }
}
