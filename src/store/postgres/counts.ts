import type { SQL } from 'bun'
import type { Clock } from '../../base/clock.ts'
import { unavailable } from '../../base/errors.ts'
import type {
  CountedPlaces,
  CountedWindow,
  SharedCounts,
  SharedPlaces,
  SharedWindow,
} from '../../limits/counters.ts'
import { answerWithin, run } from './connection.ts'

/** What a process needs to count together with others. */
interface CountOptions {
  /** Opens a connection of its own: reports that take long must not keep calls waiting. */
  connect: () => SQL
  /** That of the process. */
  incarnation: string
  ticks: () => number
}

/** What a node counts together with others. */
export interface NodeCounts extends SharedCounts {
  /** How often the database was asked. */
  readonly trips: number
  /** Returns what is in hand. */
  close(): Promise<void>
}

/** In milliseconds: how long a call waits for an answer of the database, and a fifth more. */
const PATIENCE = 200
/** In milliseconds: a connection that has said nothing for so long is given up. */
const DEAD = 10_000
/** In milliseconds, between two looks at what other nodes lack. */
const TICK = 100
/** In milliseconds: for how long a counter that has nothing left is not asked again. */
const EMPTY = 250
/**
 * In milliseconds: how long others are given to return what they do not use, before a counter
 * counts as empty. More than a tick.
 */
const RECALLS = [60, 120]
/** In milliseconds: what is left of a day and was not used for so long is returned unasked. */
const REST = 2_000
/** In milliseconds: so are places. */
const LONG_REST = 30_000
/** In milliseconds: how long a node that ends returns what it has, that of days first. */
const LAST = 1_000
/** In milliseconds, between two removals of rows that nobody needs. */
const SWEEP = 60_000
/** As many counters are asked for at once. */
const AT_ONCE = 1_000
const MINUTE = 60_000

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
      const window = new Window(name, counted, trips)
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

/**
 * The clock of the database, as its answers tell: never behind it, and ahead by no more than an
 * answer took. So what was taken of a window is never used in the next one.
 */
class DatabaseClock implements Clock {
  readonly ticks: () => number
  #ahead = 0
  #last = 0

  constructor(ticks: () => number) {
    this.ticks = ticks
  }

  now(): Date {
    const now = this.ticks() + this.#ahead
    // It stands until the database has caught up, but for one that was set back.
    if (now > this.#last || this.#last - now > JUMP) this.#last = now
    return new Date(this.#last)
  }

  /** Learns what it was, at the earliest when it was asked. A slow answer tells little. */
  learn(askedAt: number, moment: number): void {
    const now = this.ticks()
    if (now - askedAt > SLOW && moment <= now + this.#ahead) return
    this.#ahead = moment - askedAt
  }
}

/** In milliseconds. */
const SLOW = 50
/** In milliseconds: a clock that is behind by more was set. */
const JUMP = 1_000

/**
 * In milliseconds: how long a node trusts its places that the database does not hear. Others wait
 * longer.
 */
const ALONE = 60_000

/** A counter that asks the database. */
interface Asker {
  readonly name: string
  /** Returns what is asked. Called once before each answer or failure. */
  ask(): object
  take(row: never): void
  fail(error: unknown, isOver: boolean): void
}

interface CountRow {
  /** Its place among those that were asked for. */
  place: number
  number: number
  born: number
  taken: number
  granted: number
  nodes: number
  moment: number
}

interface PlacesRow {
  place: number
  /** Null where this process does not count as serving. */
  held: number | null
  others: number
  nodes: number
  moment: number
}

const TAKE_COUNTS = 'select * from take_counts(?)'
const TAKE_PLACES = 'select * from take_places(?, ?)'

const MOMENT = 'extract(epoch from clock_timestamp())::float8 * 1000'

/** What nodes have lacked of late. They ask again as long as calls come. */
const LOOK = `select null as name, ${MOMENT} as moment
  union all select name, null from counts where wanted_at > now() - interval '2 seconds'
  union all select name, null from places where wanted_at > now() - interval '2 seconds'`

// Rows that are locked are in use. None is waited for.
const SWEEP_COUNTS = `delete from counts where name in (select name from counts
  where ends_at < clock_timestamp() - interval '1 minute' for update skip locked)`

const ARE_FREE = `not exists (select 1 from jsonb_object_keys(holders) as holder
    where holder in (select incarnation from serving_nodes))
  and coalesce(wanted_at < clock_timestamp() - interval '1 minute', true)`
const LOCK_FREE = `select name from places where ${ARE_FREE} for update skip locked`
// Looked at again once they are locked: who has places by then serves by then.
const SWEEP_PLACES = `delete from places
  where name in (select value from json_each(?)) and ${ARE_FREE}`

/**
 * Asks the database for counters: for all that wait at once, one trip at a time. An answer that
 * comes late is taken all the same, and nobody is kept waiting meanwhile.
 */
class Trips {
  readonly #options: CountOptions
  readonly clock: DatabaseClock
  #pool: SQL
  readonly #counts = new Set<Asker>()
  readonly #places = new Set<Asker>()
  /** Those of windows that only tell something: they wait for all others. */
  readonly #telling = new Set<Asker>()
  readonly #waiting = [this.#counts, this.#places, this.#telling]
  /** When the database was heard of last. */
  #heardAt = 0
  /** Is told when it was not for so long that others may have what this node had. */
  onSilence: () => void = () => undefined
  #isRunning = false
  /** Since when an answer is overdue. */
  #isLate = false
  /** Whether the database was away: it may have forgotten what was counted. */
  isDoubtful = false
  /** How many there were. */
  made = 0

  constructor(options: CountOptions, clock: DatabaseClock) {
    this.#options = options
    this.#pool = options.connect()
    this.clock = clock
  }

  sendCount(asker: Asker, isUrgent: boolean): void {
    this.#send(isUrgent ? this.#counts : this.#telling, asker)
  }

  sendPlaces(asker: Asker): void {
    this.#send(this.#places, asker)
  }

  /** Whether others may have taken this node for gone. */
  get isSilent(): boolean {
    return this.clock.ticks() - this.#heardAt > ALONE
  }

  /** Returns the names of what other nodes lack. */
  async look(): Promise<Set<string>> {
    const askedAt = this.clock.ticks()
    try {
      const rows = await answerWithin(DEAD, () =>
        run<{ name: string | null; moment: number | null }>(this.#pool, LOOK),
      )
      for (const { moment } of rows) if (moment !== null) this.#hear(askedAt, moment)
      return new Set(rows.flatMap(({ name }) => name ?? []))
    } catch (error) {
      this.isDoubtful = true
      throw error
    }
  }

  async sweep(): Promise<void> {
    await answerWithin(DEAD, () => run(this.#pool, SWEEP_COUNTS))
    await answerWithin(DEAD, () =>
      this.#pool.begin(async connection => {
        const free = await run<{ name: string }>(connection, LOCK_FREE)
        const names = JSON.stringify(free.map(({ name }) => name))
        if (free.length > 0) await run(connection, SWEEP_PLACES, [names])
      }),
    )
  }

  async close(): Promise<void> {
    await this.#pool.close({ timeout: 0 })
  }

  #hear(askedAt: number, moment: number): void {
    if (this.isSilent) this.onSilence()
    this.#heardAt = askedAt
    this.clock.learn(askedAt, moment)
  }

  #send(waiting: Set<Asker>, asker: Asker): void {
    if (this.#isLate) {
      asker.fail(away(), true)
      return
    }
    waiting.add(asker)
    if (!this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // Those that ask in the same turn go along.
    await Promise.resolve()
    const { incarnation } = this.#options
    const takeCounts = (text: string) => run<CountRow>(this.#pool, TAKE_COUNTS, [text])
    const takePlaces = (text: string) =>
      run<PlacesRow>(this.#pool, TAKE_PLACES, [text, incarnation])
    while (this.#counts.size + this.#places.size + this.#telling.size > 0) {
      await this.#travel(this.#counts, takeCounts)
      await this.#travel(this.#places, takePlaces)
      if (this.#counts.size === 0) await this.#travel(this.#telling, takeCounts)
    }
    this.#isRunning = false
  }

  async #travel(
    waiting: Set<Asker>,
    ask: (text: string) => Promise<{ place: number; moment: number }[]>,
  ): Promise<void> {
    if (waiting.size === 0) return
    const sent = [...waiting].slice(0, AT_ONCE)
    for (const asker of sent) for (const set of this.#waiting) set.delete(asker)
    const askedAt = this.clock.ticks()
    // What has come while this process was busy is read before it is given up.
    let timer = setTimeout(() => {
      timer = setTimeout(() => this.#giveUp(sent), PATIENCE / 5)
    }, PATIENCE)
    this.made += 1
    try {
      const asked = sent.map((asker, place) => ({ place, ...asker.ask() }))
      const rows = await answerWithin(DEAD, () => ask(JSON.stringify(asked)))
      this.#isLate = false
      const [first] = rows
      if (first) this.#hear(askedAt, first.moment)
      for (const row of rows) sent[row.place]?.take(row as never)
    } catch (error) {
      this.isDoubtful = true
      if (this.#isLate) await this.#reconnect()
      for (const asker of sent) asker.fail(away(error), true)
    } finally {
      clearTimeout(timer)
    }
  }

  /** Refuses all that wait. What was sent may still be answered. */
  #giveUp(sent: Asker[]): void {
    this.#isLate = true
    for (const asker of sent) asker.fail(away(), false)
    for (const waiting of this.#waiting) {
      for (const asker of waiting) asker.fail(away(), true)
      waiting.clear()
    }
  }

  async #reconnect(): Promise<void> {
    const dead = this.#pool
    this.#pool = this.#options.connect()
    this.#isLate = false
    await dead.close({ timeout: 0 }).catch(() => undefined)
  }
}

const away = (cause?: unknown) =>
  unavailable('The limits of this call cannot be asked for', 1, cause)

/** What is lacked of a counter. */
interface Need {
  /** The least that helps anybody. */
  want: number
  /** What all together want. */
  demand: number
  maximum: number
}

/** What those share who want something of one counter at the same time. */
class Asking {
  #need: Need | null = null
  #isSent = false
  #settled: PromiseWithResolvers<void> | null = null
  #recalls = 0
  #emptyAt = Number.NEGATIVE_INFINITY
  readonly #clock: Clock
  readonly #send: (isUrgent: boolean) => void

  constructor(clock: Clock, send: (isUrgent: boolean) => void) {
    this.#clock = clock
    this.#send = send
  }

  /** Whether it is known that there is nothing. */
  get isEmpty(): boolean {
    return this.#clock.ticks() - this.#emptyAt < EMPTY
  }

  /** Whether nobody asks at the moment. */
  get isFree(): boolean {
    return this.#settled === null
  }

  /** Asks for so much, and resolves when it makes sense to look again. Throws 503. */
  want(count: number, maximum: number): Promise<void> {
    if (!this.#isSent) {
      const { want, demand, maximum: most } = this.#need ?? { ...NOTHING, want: count }
      this.#need = {
        want: Math.min(want, count),
        demand: demand + count,
        maximum: Math.max(most, maximum),
      }
      if (this.#settled) this.#send(true)
    }
    return this.tell()
  }

  /** Asks, perhaps for nothing. */
  tell(): Promise<void> {
    if (this.#settled) return this.#settled.promise
    const settled = Promise.withResolvers<void>()
    this.#settled = settled
    // Those that want nothing do not wait.
    settled.promise.catch(() => undefined)
    this.#send(this.#need !== null)
    return settled.promise
  }

  /** Takes what is to be sent. */
  open(): Need {
    this.#isSent = true
    return this.#need ?? NOTHING
  }

  /**
   * Takes an answer: waits for others to return what they do not use, once, where it was too
   * little.
   */
  close(isShort: boolean, nodes: number, isEarly = 0): void {
    const pause = isShort && nodes > 1 ? RECALLS[this.#recalls] : undefined
    if (pause !== undefined) {
      this.#recalls += 1
      setTimeout(() => this.#send(true), pause)
      return
    }
    if (isShort) this.#emptyAt = this.#clock.ticks()
    else if (this.#need) this.#recalls = 0
    if (isEarly > 0) setTimeout(() => this.#end()?.resolve(), isEarly)
    else this.#end()?.resolve()
  }

  /** Refuses those that wait. Others may ask once nothing is on its way. */
  fail(error: unknown, isOver: boolean): void {
    if (isOver) this.#end()?.reject(error)
    else this.#settled?.reject(error)
  }

  #end(): PromiseWithResolvers<void> | null {
    const settled = this.#settled
    this.#settled = null
    this.#need = null
    this.#isSent = false
    return settled
  }
}

const NOTHING: Need = { want: 0, demand: 0, maximum: 0 }

/** One kind of counters by minutes or days. */
class Window implements SharedWindow {
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
    return new Promise(resolve => setTimeout(resolve, TICK))
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
