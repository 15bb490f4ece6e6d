import { describe, expect, test } from 'bun:test'
import { toDayNumber } from '../../src/base/clock.ts'
import { unavailable } from '../../src/base/errors.ts'
import { pickLarger } from '../../src/base/money.ts'
import { createDefaultConfig } from '../../src/config.ts'
import { type Grant, openCounters } from '../../src/limits/counters.ts'
import {
  type LeaseRequest,
  type LeaseStore,
  type Lent,
  NodeLeases,
} from '../../src/limits/leases.ts'
import { type Bound, type Charge, type HeldCall, openLedger } from '../../src/limits/ledger.ts'
import { TestClock } from '../support/gateway.ts'
import { createLedgerStore } from '../support/ledger.ts'

const LIMIT = 1_000n
const bound: Bound = {
  ...{ account: 'key k', limit: LIMIT, period: null, byok: false, message: 'used up' },
}
const payer = { key_hash: 'k', user_id: 'u', workspace_id: 'w' }

/** A store with one limit, of which nothing is spent by others. */
class OneLimit implements LeaseStore {
  /** What is on lease, as the store has it. */
  lent = 0n
  spent = 0n
  exchanges = 0
  /** What becomes of the next exchange; each is done and answered if there is none. */
  faults: ('not done' | 'not heard')[] = []
  isAway = false
  /** Holds back the answer of the next exchange, which is done. */
  gate: Promise<void> | null = null
  wanted: LeaseRequest['meter'][] = []
  /** By which limits was asked last. */
  limits: LeaseRequest['limits'] = new Map()
  #answer: { number: number; lent: Lent[] } | null = null

  async exchange(number: number, requests: LeaseRequest[]): Promise<Lent[]> {
    this.#reach()
    this.exchanges += 1
    const fault = this.faults.shift()
    if (fault === 'not done') throw unavailable('away')
    const answer = requests.map(({ meter, limits, returned, least, wanted }) => {
      this.limits = limits
      this.lent -= returned
      const left = LIMIT - this.spent - this.lent
      const most = pickLarger(least, wanted)
      const amount = left < most ? (left < 0n ? 0n : left) : most
      this.lent += amount
      return { meter, amount, left: left - amount, isElsewhere: false }
    })
    const { gate } = this
    this.gate = null
    await gate
    this.#answer = { number, lent: answer }
    if (fault === 'not heard') throw unavailable('away')
    return answer
  }
  async findAnswer(number: number) {
    this.#reach()
    return this.#answer?.number === number ? this.#answer.lent : null
  }
  async listWanted() {
    this.#reach()
    return this.wanted.splice(0)
  }
  async listOthers(last: number) {
    this.#reach()
    return { charges: [], last }
  }
  /** What is not known yet: whether this node was forgotten. */
  doubt: Promise<void> | null = null
  confirm = () => this.doubt
  takeBackAll = async () => undefined
  /** How many calls run, as the store has it. */
  running = 0
  async noteRunning({ length }: unknown[]) {
    this.#reach()
    this.running = length
  }
  readSpending = async () => ({ totals: [], days: [], last: 0 })

  #reach(): void {
    if (this.isAway) throw unavailable('away')
  }
}

async function open() {
  const store = new OneLimit()
  const clock = new TestClock()
  const books = createLedgerStore()
  const ledger = await openLedger(books, clock, books => new NodeLeases(store, books, clock.ticks))
  const leases = ledger.leases as NodeLeases
  const reserve = async (nanos: bigint, bounds = [bound]) => {
    const amounts = { own: nanos, byok: null }
    return ledger.reserveElsewhere?.(payer, { maximum: amounts, minimum: amounts }, bounds)
  }
  /** What is in hand and set aside: what the store has to have on lease. */
  const sum = () => leases.getAvailable(bound) + ledger.getHeld('key k', false)
  return { store, books, clock, ledger, leases, reserve, sum }
}

describe('leases', () => {
  test('what nothing bounds asks nobody', async () => {
    const { store, reserve } = await open()
    expect((await reserve(5_000n, []))?.amounts.own).toBe(5_000n)
    expect(store.exchanges).toBe(0)
  })

  test('a node that may have been forgotten takes nothing of a limit before it knows', async () => {
    const { store, ledger, reserve } = await open()
    await reserve(10n)
    const { promise, resolve } = Promise.withResolvers<void>()
    store.doubt = promise
    const waiting = reserve(10n)
    expect((await reserve(10n, []))?.amounts.own).toBe(10n)
    expect(ledger.listHolds()).toHaveLength(2)
    store.doubt = null
    resolve()
    expect((await waiting)?.amounts.own).toBe(10n)
    store.doubt = Promise.reject(unavailable('left'))
    await expect(reserve(10n)).rejects.toThrow('left')
    expect(ledger.listHolds()).toHaveLength(3)
  })

  test('calls that ended while the store was away are noted as ended when it is back', async () => {
    const { store, leases } = await open()
    await leases.noteRunning([{ held: {} as HeldCall, spent: 1n }])
    expect(store.running).toBe(1)
    store.isAway = true
    await leases.noteRunning([])
    store.isAway = false
    await leases.noteRunning([])
    expect(store.running).toBe(0)
  })

  test('callers at the same moment ask once', async () => {
    const { store, reserve } = await open()
    await Promise.all(Array.from({ length: 8 }, () => reserve(10n)))
    expect(store.exchanges).toBeLessThanOrEqual(4)
  })

  test('an exchange that was not heard is made good, and one that was not done is taken back', async () => {
    for (const fault of ['not heard', 'not done'] as const) {
      const { store, ledger, leases, reserve, sum } = await open()
      const first = await reserve(50n)
      store.faults = [fault]
      if (fault === 'not done') await expect(reserve(300n)).rejects.toThrow('away')
      else expect((await reserve(300n))?.amounts.own).toBe(300n)
      expect(sum()).toBe(store.lent)
      for (const hold of ledger.listHolds()) if (hold !== first) ledger.release(hold)
      if (first) ledger.release(first)
      store.faults = [fault]
      await leases.end()
      await leases.end()
      expect([store.lent, sum()]).toEqual([0n, 0n])
    }
  })

  test('an exchange that takes too long is made good when it ends, and none begins before', async () => {
    const { store, leases, reserve, sum } = await open()
    await reserve(50n)
    const answer = Promise.withResolvers<void>()
    store.gate = answer.promise
    await expect(reserve(300n)).rejects.toThrow('The database does not answer')
    const { exchanges } = store
    await expect(reserve(300n)).rejects.toThrow('The database does not answer')
    expect(store.exchanges).toBe(exchanges)
    answer.resolve()
    await leases.beat()
    expect(sum()).toBe(store.lent)
    expect((await reserve(300n))?.amounts.own).toBe(300n)
  })

  test('a call that began before its account had a limit takes nothing of what is being lent', async () => {
    const { store, ledger, reserve, sum } = await open()
    const early = await reserve(10n, [])
    const answer = Promise.withResolvers<void>()
    store.gate = answer.promise
    const first = reserve(100n)
    const charge: Charge = { ...payer, day: 0, byok: false, nanos: 10n }
    if (early) ledger.settle(early, charge)
    expect(charge.leased).toEqual([])
    answer.resolve()
    expect((await first)?.amounts.own).toBe(100n)
    expect(sum()).toBe(store.lent)
  })

  test('while the store is away, less than is in hand is taken', async () => {
    const { store, reserve, leases } = await open()
    await reserve(100n)
    store.isAway = true
    const inHand = leases.getAvailable(bound)
    expect((await reserve(inHand))?.amounts.own).toBe(inHand)
    await expect(reserve(1n)).rejects.toThrow('away')
  })

  test('what costs nothing passes where a call has cost more than was lent', async () => {
    const { store, ledger, leases, reserve, sum } = await open()
    const hold = await reserve(10n)
    const nanos = leases.getAvailable(bound) + 60n
    if (hold) ledger.settle(hold, { ...payer, day: 0, byok: false, nanos })
    store.lent -= nanos
    store.spent += nanos
    expect(leases.getAvailable(bound)).toBeLessThan(0n)
    expect((await reserve(0n))?.amounts.own).toBe(0n)
    expect(sum()).toBe(store.lent)
  })

  test('what is set aside for the next turn of a call goes to no other', async () => {
    const { ledger, clock } = await open()
    const counters = openCounters(createDefaultConfig(), clock, ledger)
    const take = (nanos: bigint, instead: Grant | null = null) => {
      const amounts = { own: nanos, byok: null }
      const money = { payer, estimate: { maximum: amounts, minimum: amounts }, bounds: [bound] }
      return counters.take({ actor: payer, call: { models: [] }, money, instead })
    }
    const kept = await take(600n)
    const next = take(600n, kept)
    await expect(take(500n)).rejects.toThrow('used up')
    expect((await next).hold?.amounts.own).toBe(600n)
    expect(ledger.getHeld('key k', false)).toBe(600n)
  })

  test('what other nodes spend of an end user, tag or model is heard of within a second', async () => {
    const { books, clock, ledger } = await open()
    const account = 'model key k acme/small'
    const getRemaining = async () => {
      const close = await ledger.openSubaccounts([account])
      close()
      return ledger.getRemaining({ account, limit: LIMIT, period: 'daily', byok: false })
    }
    expect(await getRemaining()).toBe(LIMIT)
    const spent = { account, day: toDayNumber(clock.now()), byok: false, nanos: 700n } as const
    books.listSubaccountDays = async () => [spent]
    clock.pass(1_001)
    expect(await getRemaining()).toBe(300n)
    for (const failing of [Promise.reject(unavailable('away')), new Promise<never>(() => {})]) {
      books.listSubaccountDays = () => failing
      clock.pass(1_001)
      expect(await getRemaining()).toBe(300n)
    }
  })

  test('callers who know a limit and the one before ask by the lower one', async () => {
    const { store, reserve } = await open()
    const lower = { ...bound, limit: 100n }
    await Promise.all([reserve(90n, [lower]), reserve(100n)])
    expect(store.limits).toEqual(new Map([['', 100n]]))
    expect(store.exchanges).toBe(1)
  })

  test('what has nothing left is known for a moment, and nobody asks again', async () => {
    const { store, clock, reserve } = await open()
    await reserve(LIMIT)
    await expect(reserve(1n)).rejects.toThrow('used up')
    const { exchanges } = store
    await expect(reserve(1n)).rejects.toThrow('used up')
    expect(store.exchanges).toBe(exchanges)
    clock.pass(251)
    await expect(reserve(1n)).rejects.toThrow('used up')
    expect(store.exchanges).toBe(exchanges + 1)
  })

  test('what is not used for ten seconds goes back, and what others want at once', async () => {
    const { store, clock, ledger, leases, reserve } = await open()
    const hold = await reserve(10n)
    store.wanted = ['own key k']
    await leases.beat()
    expect(store.lent).toBe(10n)
    if (hold) ledger.release(hold)
    clock.pass(10_001)
    await leases.beat()
    expect(store.lent).toBe(0n)
  })

  test('whatever happens, the store has on lease what is in hand and set aside', async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = createRandom(seed)
      const { store, clock, ledger, leases, reserve, sum } = await open()
      const holds = new Set<NonNullable<Awaited<ReturnType<typeof reserve>>>>()
      for (let i = 0; i < 120; i++) {
        if (random() < 0.1) store.faults = [random() < 0.5 ? 'not done' : 'not heard']
        if (random() < 0.1) store.wanted = ['own key k']
        clock.pass(Math.floor(random() * 2_000))
        if (random() < 0.2) await leases.beat()
        if (random() < 0.6) {
          const hold = await reserve(BigInt(1 + Math.floor(random() * 200))).catch(() => undefined)
          if (hold) holds.add(hold)
        }
        for (const hold of holds) {
          if (random() < 0.5) continue
          holds.delete(hold)
          const nanos = random() < 0.2 ? 0n : (hold.amounts.own ?? 0n) / 2n
          const charge = { ...payer, day: 0, byok: false, nanos }
          ledger.settle(hold, charge)
          // As the record of the call does.
          store.lent -= nanos
          store.spent += nanos
        }
        expect(store.lent).toBeGreaterThanOrEqual(0n)
        expect(store.lent + store.spent).toBeLessThanOrEqual(LIMIT)
      }
      store.faults = []
      for (const hold of holds) ledger.release(hold)
      await leases.end()
      await leases.end()
      expect({ seed, lent: store.lent, sum: sum() }).toEqual({ seed, lent: 0n, sum: 0n })
    }
  })
})

/** A generator of numbers that are the same for a seed. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}
