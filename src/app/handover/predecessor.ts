import { join } from 'node:path'
import { unavailable } from '../../base/errors.ts'
import type { HeadFile } from '../../limits/chain.ts'
import type { WindowCounts } from '../../limits/counters.ts'
import type { Amounts, Charge, Hold, Ledger, Payer } from '../../limits/ledger.ts'
import type { RecorderEntry } from '../../observability/generations/store.ts'
import type { WrittenMessages } from '../../observability/outbox.ts'
import { LOG, LOG_BEFORE, removeLog } from '../../store/log.ts'
import { replaceMethods } from '../../store/methods.ts'
import { lockData } from '../../store/sqlite/lock.ts'
import { hasOwnSchema } from '../../store/sqlite/migrations.ts'
import type { Store } from '../../store/store.ts'
import type { Gateway } from '../gateway.ts'
import { lockBefore } from './before.ts'
import type { Channel } from './channel.ts'
import { giveContainers } from './containers.ts'
import { giveCounts } from './counts.ts'
import { type GivenAnswers, giveKeptCalls } from './kept-calls.ts'

/** Runs a method of the store in another process. */
type RunElsewhere = (noun: string, method: string, parameters: unknown[]) => Promise<unknown>

/**
 * Where the methods of a store run: here, as long as this process has the data directory, then in
 * the process that has taken it over. In between they wait.
 */
class StoreSwitch {
  #gate: { opened: Promise<void>; open(): void } | null = null
  #elsewhere: RunElsewhere | null = null
  #running = 0
  #onIdle: (() => void) | null = null

  /** Puts itself before every method of a noun: what the store does itself is of its own connection. */
  constructor(store: Store) {
    for (const [noun, part] of Object.entries(store))
      if (typeof part === 'object') this.#place(noun, part)
  }

  /** Holds back what begins from now on, and waits for what runs. */
  async hold(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#gate ??= { opened: promise, open: resolve }
    while (this.#running > 0)
      await new Promise<void>(idle => {
        this.#onIdle = idle
      })
  }

  /** Has what is held back, and all that follows, run elsewhere; null: here, as before. */
  release(elsewhere: RunElsewhere | null): void {
    this.#elsewhere = elsewhere
    this.#gate?.open()
    this.#gate = null
  }

  /** Waits while nothing may begin. */
  async pass(): Promise<void> {
    while (this.#gate) await this.#gate.opened
  }

  #place(noun: string, part: object): void {
    replaceMethods(part, (name, method) => (...parameters) => {
      const run = () => method(...parameters)
      return this.#gate || this.#elsewhere
        ? this.#runLater(noun, name, run, parameters)
        : this.#runHere(run)
    })
  }

  async #runLater(
    noun: string,
    method: string,
    here: () => Promise<unknown>,
    parameters: unknown[],
  ): Promise<unknown> {
    await this.pass()
    if (!this.#elsewhere) return this.#runHere(here)
    if (parameters.some(one => typeof one === 'function'))
      throw unavailable('Another server has taken over: ask that one')
    return this.#elsewhere(noun, method, parameters)
  }

  async #runHere(run: () => Promise<unknown>): Promise<unknown> {
    this.#running += 1
    try {
      return await run()
    } finally {
      this.#running -= 1
      if (this.#running === 0) this.#onIdle?.()
    }
  }
}

/** Money that is set aside, under the number by which both servers know it. */
export interface HandedHold {
  id: number
  payer: Payer
  amounts: Amounts
}

/** What a server has in memory alone, and hands over. */
export interface Handed {
  holds: HandedHold[]
  windows: WindowCounts[]
}

/**
 * The side of a handover that goes. Its calls run on to their ends: what they set aside, charge and
 * store goes through the server that has taken over, which alone writes to the data directory.
 */
export class Predecessor {
  readonly #gateway: Gateway
  readonly #data: string
  readonly #switch: StoreSwitch
  readonly #flushStore: () => Promise<void>
  readonly #ids = new WeakMap<Hold, number>()
  readonly #charged = new WeakMap<Charge, number>()
  readonly #recorded = new WeakSet<RecorderEntry>()
  readonly #own: Pick<Ledger, 'settle' | 'release'> & { head: HeadFile }
  #unlock: () => void
  #unlockBefore: () => void = () => undefined
  #channel: Channel | null = null
  #answers: GivenAnswers | null = null
  #released: number[] = []
  #count = 0

  /** `unlock` gives the data directory's lock back. */
  constructor(gateway: Gateway, data: string, unlock: () => void) {
    const { ledger, journal, store } = gateway
    this.#gateway = gateway
    this.#flushStore = store.generations.flush
    this.#data = data
    this.#unlock = unlock
    this.#switch = new StoreSwitch(gateway.store)
    this.#own = { settle: ledger.settle, release: ledger.release, head: journal.head }
  }

  /**
   * Waits for what is being written, and gives the data directory away. Running calls wait at the
   * store and at the ledger until `leave` or `takeBack`.
   */
  async give(): Promise<Handed> {
    const gateway = this.#gateway
    this.#unlockBefore = lockBefore(this.#data)
    await gateway.refusals.flush()
    gateway.recorder.pause()
    this.#watchLedger()
    await this.#switch.hold()
    await this.#flushStore()
    await gateway.journal.holds.moveTo(LOG_BEFORE)
    const jobs = new Set(gateway.videos.listHolds())
    const open = gateway.ledger.listHolds().filter(hold => !jobs.has(hold))
    const holds = open.map(hold => ({
      id: this.#number(hold),
      payer: hold.payer,
      amounts: hold.amounts,
    }))
    holds.push(...this.#listPending())
    gateway.journal.head = { ...this.#own.head, isKept: false }
    this.#unlock()
    this.#unlock = () => undefined
    return { holds, windows: gateway.traffic.counters.exportCounts() }
  }

  /**
   * Goes on as before: the other server has ended before it served. Throws where that cannot be: it
   * has migrated the store, or another one has it.
   */
  async takeBack(): Promise<void> {
    this.#unlock = await lockSoon(this.#data)
    requireOwnSchema(this.#data)
    const { ledger, journal, recorder } = this.#gateway
    await journal.holds.moveTo(LOG)
    journal.head = this.#own.head
    Object.assign(ledger, { settle: this.#own.settle, release: this.#own.release })
    ledger.reserveElsewhere = null
    this.#switch.release(null)
    recorder.resume()
    this.#unlockBefore()
  }

  /** Has everything from now on written by the other server. */
  leave(channel: Channel): void {
    this.#channel = channel
    for (const id of this.#released) channel.tell('release', id)
    // Told before the other one serves: it waits for the answer to the request that led here.
    channel.answer(giveCounts(this.#gateway, channel))
    this.#answers = giveKeptCalls(this.#gateway, channel)
    giveContainers(this.#gateway, channel)
    this.#switch.release((noun, method, parameters) =>
      this.#runElsewhere(channel, noun, method, parameters),
    )
    this.#gateway.recorder.resume(true)
    void channel.closed.then(() => this.#gateway.recorder.resume())
  }

  /** Nobody writes for this server any more: what its calls come to stays in its journal. */
  abandon(): void {
    this.#switch.release(() => Promise.reject(unavailable('The store is of another server')))
    this.#gateway.recorder.resume()
  }

  /**
   * Ends this side when every call is on record, and gives back what it has locked. Throws 503 if
   * the other server is gone: the next one looks at the journal.
   */
  async end(): Promise<void> {
    if (!this.#channel) return this.#unlock()
    await this.#answers?.sent
    await this.#channel.ask('end')
    removeLog(this.#data, LOG_BEFORE)
    this.#unlockBefore()
    this.#channel.close()
  }

  /** What is charged here and not yet on record: the other server sets it aside until then. */
  #listPending(): HandedHold[] {
    return this.#gateway.recorder.listPending().flatMap(({ charge }) => {
      if (!charge || this.#charged.has(charge)) return []
      const { key_hash, user_id, workspace_id, subaccounts, byok, nanos } = charge
      const id = ++this.#count
      this.#charged.set(charge, id)
      const amounts = { own: byok ? null : nanos, byok: byok ? nanos : null }
      const parts = subaccounts ? { subaccounts } : {}
      return [{ id, payer: { key_hash, user_id, workspace_id, ...parts }, amounts }]
    })
  }

  #watchLedger(): void {
    const { ledger } = this.#gateway
    const { settle, release } = this.#own
    ledger.reserveElsewhere = (payer, estimate, bounds, free) => {
      free?.()
      return this.#reserve([payer, estimate, bounds])
    }
    ledger.settle = (hold, charge) => {
      const id = this.#ids.get(hold)
      if (id !== undefined && hold.isOpen) this.#charged.set(charge, id)
      settle(hold, charge)
    }
    ledger.release = hold => {
      const id = this.#ids.get(hold)
      if (id !== undefined && hold.isOpen) this.#tellReleased(id)
      release(hold)
    }
  }

  #tellReleased(id: number): void {
    if (this.#channel) this.#channel.tell('release', id)
    else this.#released.push(id)
  }

  #number(hold: Hold): number {
    this.#ids.set(hold, ++this.#count)
    return this.#count
  }

  async #reserve(of: Parameters<Ledger['reserve']>): Promise<Hold> {
    const { ledger } = this.#gateway
    await this.#switch.pass()
    const [payer, estimate, bounds] = of
    if (!this.#channel) return ledger.reserve(payer, estimate, bounds)
    const id = ++this.#count
    const amounts = (await this.#channel.ask('reserve', id, payer, estimate, bounds)) as Amounts
    const hold = ledger.reserve(payer, { maximum: amounts, minimum: amounts }, [])
    this.#ids.set(hold, id)
    return hold
  }

  async #runElsewhere(
    channel: Channel,
    noun: string,
    method: string,
    parameters: unknown[],
  ): Promise<unknown> {
    if (noun === 'generations' && method === 'record')
      return this.#record(channel, parameters[0] as RecorderEntry[])
    // The other server sums up what it records.
    if (noun === 'rollups' && method === 'advance') return 0
    return channel.ask('store', noun, method, parameters)
  }

  /** Records what is not on record yet. Throws the first failure. */
  async #record(channel: Channel, batch: RecorderEntry[]): Promise<WrittenMessages[]> {
    const results = await Promise.allSettled(
      batch
        .filter(entry => !this.#recorded.has(entry))
        .map(async entry => {
          const hold = entry.charge ? this.#charged.get(entry.charge) : undefined
          await channel.ask('record', entry, hold ?? null)
          this.#recorded.add(entry)
        }),
    )
    const failed = results.find(result => result.status === 'rejected')
    if (failed) throw failed.reason
    // The other server tells its own queue.
    return []
  }
}

/** In milliseconds: how long a server that could not start may take to end, and between looks. */
const PATIENCE = 10_000
const PAUSE = 20

async function lockSoon(data: string): Promise<() => void> {
  for (let waited = 0; ; waited += PAUSE) {
    try {
      return lockData(data)
    } catch (thrown) {
      if (waited >= PATIENCE) throw thrown
    }
    await Bun.sleep(PAUSE)
  }
}

function requireOwnSchema(data: string): void {
  if (!hasOwnSchema(join(data, 'gateway.db')))
    throw unavailable('The store was migrated by another program')
}
