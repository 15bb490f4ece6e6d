import type { SQL } from 'bun'
import { awaitWithin, systemClock } from '../../base/clock.ts'
import { unavailable } from '../../base/errors.ts'

/** In milliseconds: what is not answered for so long may not have been heard. */
const LATE = 5_000
/** In milliseconds: between two looks whether it was, and how long one takes. */
const PAUSE = 1_000
const PATIENCE = 2_000
/** In seconds: for so long what runs may go on over connections that are given up. */
const GRACE = 1

/** Who hears of notifications, over whichever connection. */
interface Listener {
  given: Parameters<SQL['listen']>
  listening: Pick<SQL.ListenSubscription, 'unlisten'>
}

/**
 * A pool of connections. They are given up for new ones where the database is heard over those alone:
 * it was moved to another machine, or what is between has forgotten them, which breaks no connection
 * for a quarter of an hour. So are those to a database that only follows another one by now.
 */
export class Pool {
  readonly #open: (name: string) => SQL
  #sql: SQL
  /** That of its connections, by which the database knows what it is asked over them. */
  #name = createName()
  /** What is not answered yet, and since when. The oldest is the first. */
  readonly #asked = new Map<Promise<unknown>, number>()
  readonly #listeners = new Set<Listener>()
  #isLooking = false
  #lookedAt = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(open: (name: string) => SQL) {
    this.#open = open
    this.#sql = open(this.#name)
  }

  unsafe = ((...given: Parameters<SQL['unsafe']>) =>
    this.watch(this.#sql.unsafe(...given))) as SQL['unsafe']

  begin = ((...given: Parameters<SQL['begin']>) =>
    this.watch(this.#sql.begin(...given))) as SQL['begin']

  /** Takes a connection. What is done with it is to be watched. */
  reserve(): ReturnType<SQL['reserve']> {
    return this.#sql.reserve()
  }

  /** Notes what is asked until it is answered, and returns it. */
  watch<Asked extends Promise<unknown>>(asked: Asked): Asked {
    this.#look()
    this.#asked.set(asked, systemClock.ticks())
    asked.then(
      () => this.#asked.delete(asked),
      thrown => {
        this.#asked.delete(asked)
        if (thrown?.errno === READ_ONLY) void this.#renew(() => true)
      },
    )
    return asked
  }

  async listen(...given: Listener['given']): Promise<Listener['listening']> {
    const listener: Listener = { given, listening: await this.#sql.listen(...given) }
    this.#listeners.add(listener)
    return {
      unlisten: () => {
        this.#listeners.delete(listener)
        return listener.listening.unlisten()
      },
    }
  }

  close(options?: Parameters<SQL['close']>[0]): Promise<void> {
    this.#isClosed = true
    return this.#sql.close(options)
  }

  #look(): void {
    const [oldest] = this.#asked
    if (!oldest) return
    const [asked, since] = oldest
    if (systemClock.ticks() - since < LATE) return
    void this.#renew(isBusy => !isBusy && this.#asked.has(asked))
  }

  /** Opens other connections, and goes on with those if the database takes changes over them. */
  async #renew(isToBe: (isBusy: boolean) => boolean): Promise<void> {
    if (this.#isClosed || this.#isLooking || systemClock.ticks() - this.#lookedAt < PAUSE) return
    this.#isLooking = true
    const name = createName()
    const fresh = this.#open(name)
    let given = fresh
    try {
      const [found] = await awaitWithin(PATIENCE, fresh.unsafe(LOOK, [this.#name]), explainSilence)
      if (found.takes_changes && !this.#isClosed && isToBe(found.is_busy)) {
        given = this.#sql
        this.#sql = fresh
        this.#name = name
        for (const listener of this.#listeners) void this.#listenAgain(listener)
      }
    } catch {
      // It is looked again.
    } finally {
      this.#isLooking = false
      this.#lookedAt = systemClock.ticks()
      await given.close({ timeout: GRACE }).catch(() => undefined)
    }
  }

  async #listenAgain(listener: Listener): Promise<void> {
    try {
      const listening = await this.#sql.listen(...listener.given)
      if (this.#listeners.has(listener)) listener.listening = listening
      else await listening.unlisten()
    } catch {
      // Who listens also looks now and then.
    }
  }
}

const explainSilence = () => unavailable('The database does not answer')

const createName = () => `gateway ${crypto.randomUUID().slice(0, 8)}`

/** What a database says that takes no changes. */
const READ_ONLY = '25006'

// What was asked over other connections may take long, or wait for others.
const LOOK = `select current_setting('transaction_read_only') = 'off' as takes_changes,
  exists (select from pg_stat_activity where application_name = $1 and (state = 'active'
    or state <> 'idle' and state_change > clock_timestamp() - interval '5 seconds')) as is_busy`
