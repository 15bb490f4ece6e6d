import type { Clock } from '../../../base/clock.ts'
import { unavailable } from '../../../base/errors.ts'
import type { Need, Pools } from '../../valkey/pools.ts'
import { answerWithin, run, transact } from '../connection.ts'
import type { Pool } from '../pool.ts'

/** What a process needs to count together with others. */
export interface CountOptions {
  /** Opens a connection of its own: reports that take long must not keep calls waiting. */
  connect: () => Pool
  /** That of the process. */
  incarnation: string
  ticks: () => number
  /** Where nodes split what one of them has taken of a minute; none if absent. */
  pools?: Pools | undefined
}

/** In milliseconds: how long a call waits for an answer of the database, and a fifth more. */
const PATIENCE = 200
/** In milliseconds: a connection that has said nothing for so long is given up. */
const DEAD = 10_000
/** In milliseconds: for how long a counter that has nothing left is not asked again. */
const EMPTY = 250
/**
 * In milliseconds: how long others are given to return what they do not use, before a counter
 * counts as empty. More than a tick.
 */
const RECALLS = [60, 120]
/** As many counters are asked for at once. */
const AT_ONCE = 1_000

/**
 * The clock of the database, as its answers tell: never behind it, and ahead by no more than an
 * answer took. So what was taken of a window is never used in the next one.
 */
export class DatabaseClock implements Clock {
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
export interface Asker {
  readonly name: string
  /** Returns what is asked. Called once before each answer or failure. */
  ask(): object
  take(row: never): void
  fail(error: unknown, isOver: boolean): void
}

export interface CountRow {
  /** Its place among those that were asked for. */
  place: number
  number: number
  born: number
  taken: number
  granted: number
  nodes: number
  moment: number
}

export interface PlacesRow {
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

/** What nodes have lacked of late. They ask again as long as calls come. A crash ends all sessions. */
const LOOK = `select null as name, ${MOMENT} as moment,
    pg_postmaster_start_time() || ' ' || pg_backend_pid() as session
  union all select name, null, null from counts where wanted_at > now() - interval '2 seconds'
  union all select name, null, null from places where wanted_at > now() - interval '2 seconds'`

interface LookRow {
  name: string | null
  moment: number | null
  session: string | null
}

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
export class Trips {
  readonly #options: CountOptions
  readonly clock: DatabaseClock
  #pool: Pool
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
  /** The session in which it was looked last. */
  #session: string | null = null
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
      const rows = await answerWithin(DEAD, () => run<LookRow>(this.#pool, LOOK))
      for (const { moment, session } of rows) {
        if (moment === null) continue
        this.#hear(askedAt, moment)
        // It may have been away for less time than passes between two looks.
        if (session !== this.#session) this.isDoubtful = true
        this.#session = session
      }
      return new Set(rows.flatMap(({ name }) => name ?? []))
    } catch (error) {
      this.isDoubtful = true
      throw error
    }
  }

  async sweep(): Promise<void> {
    await answerWithin(DEAD, () => run(this.#pool, SWEEP_COUNTS))
    await answerWithin(DEAD, () =>
      transact(this.#pool, async connection => {
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

/** What those share who want something of one counter at the same time. */
export class Asking {
  #need: Need | null = null
  #isSent = false
  /** Whether the database is being asked. */
  #isAway = false
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

  /** Whether something is waited for that nobody is being asked. */
  get isWaiting(): boolean {
    return this.#settled !== null && !this.#isAway
  }

  get need(): Need {
    return this.#need ?? NOTHING
  }

  /** Has got some of it, and returns what is still lacked. */
  gain(count: number): number {
    const { want, demand, maximum } = this.need
    this.#need = { want: Math.max(0, want - count), demand: Math.max(0, demand - count), maximum }
    return this.#need.want
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
    this.#isAway = true
    return this.need
  }

  /**
   * Takes an answer: waits for others to return what they do not use, once, where it was too
   * little. Returns whether it is known now that there is nothing.
   */
  close(isShort: boolean, nodes: number, isEarly = 0): boolean {
    this.#isAway = false
    const pause = isShort && nodes > 1 ? RECALLS[this.#recalls] : undefined
    if (pause !== undefined) {
      this.#recalls += 1
      setTimeout(() => this.#send(true), pause)
      return false
    }
    if (isShort) this.#emptyAt = this.#clock.ticks()
    else if (this.#need) this.#recalls = 0
    if (isEarly > 0) setTimeout(() => this.#end()?.resolve(), isEarly)
    else this.#end()?.resolve()
    return isShort
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
    this.#isAway = false
    return settled
  }
}

export const NOTHING: Need = { want: 0, demand: 0, maximum: 0 }
