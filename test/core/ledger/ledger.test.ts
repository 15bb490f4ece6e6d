import { describe, expect, test } from 'bun:test'
import { type Charge, type DaySpend, type Ledger, type LedgerStore, openLedger } from '../../../src/core/ledger/ledger.ts'
import { dayOf } from '../../../src/core/ledger/periods.ts'
import { TestClock } from '../../support/gateway.ts'

const DAY = 86_400_000

const remembering = (days: DaySpend[] = []): LedgerStore => ({
  days: async since => days.filter(one => one.day >= since),
  totals: async () => days.map(({ day: _, ...total }) => total),
})

const chargeOf = (clock: TestClock, nanos: bigint, byok = false): Charge => ({
  key_hash: 'k',
  day: dayOf(clock.now()),
  byok,
  nanos,
})

const spend = (ledger: Ledger, clock: TestClock, nanos: bigint, byok = false) =>
  ledger.settle(ledger.reserve('k', nanos), chargeOf(clock, nanos, byok))

describe('ledger', () => {
  test('a call’s money is held while it runs and spent when it settles', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(remembering(), clock)
    const hold = ledger.reserve('k', 100n)
    expect([ledger.held('k'), ledger.spent('k', null, false)]).toEqual([100n, 0n])
    ledger.settle(hold, chargeOf(clock, 70n))
    expect([ledger.held('k'), ledger.spent('k', null, false)]).toEqual([0n, 70n])
  })

  test('a hold that is released costs nothing', async () => {
    const ledger = await openLedger(remembering(), new TestClock())
    const hold = ledger.reserve('k', 100n)
    ledger.release(hold)
    ledger.release(hold)
    expect([ledger.held('k'), ledger.spent('k', null, false)]).toEqual([0n, 0n])
  })

  test('settling twice, or after a release, changes nothing', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(remembering(), clock)
    const hold = ledger.reserve('k', 100n)
    ledger.settle(hold, chargeOf(clock, 70n))
    ledger.settle(hold, chargeOf(clock, 70n))
    ledger.release(hold)
    const released = ledger.reserve('k', 5n)
    ledger.release(released)
    ledger.settle(released, chargeOf(clock, 5n))
    expect([ledger.held('k'), ledger.spent('k', null, false)]).toEqual([0n, 70n])
  })

  test('holds of one key add up, and end one by one', async () => {
    const ledger = await openLedger(remembering(), new TestClock())
    const [a, b] = [ledger.reserve('k', 1n), ledger.reserve('k', 2n)]
    ledger.reserve('other', 50n)
    expect(ledger.held('k')).toBe(3n)
    ledger.release(a)
    expect(ledger.held('k')).toBe(2n)
    ledger.release(b)
    expect([ledger.held('k'), ledger.held('other')]).toEqual([0n, 50n])
  })

  test('windows begin by the clock alone: at midnight, on Monday, on the first', async () => {
    const clock = new TestClock('2026-03-29T23:59:59.000Z') // A Sunday.
    const ledger = await openLedger(remembering(), clock)
    const windows = () => (['daily', 'weekly', 'monthly', null] as const).map(period => ledger.spent('k', period, false))
    spend(ledger, clock, 10n)
    expect(windows()).toEqual([10n, 10n, 10n, 10n])
    clock.pass(1_000)
    expect(windows()).toEqual([0n, 0n, 10n, 10n])
    spend(ledger, clock, 5n)
    clock.pass(DAY)
    expect(windows()).toEqual([0n, 5n, 15n, 15n])
    clock.pass(DAY)
    expect(windows()).toEqual([0n, 5n, 0n, 15n])
  })

  test('spending with own provider keys is counted apart', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(remembering(), clock)
    spend(ledger, clock, 10n)
    spend(ledger, clock, 3n, true)
    expect([ledger.spent('k', 'daily', false), ledger.spent('k', 'daily', true)]).toEqual([10n, 3n])
  })

  test('what was spent before the start is there again, in its windows', async () => {
    const clock = new TestClock('2026-03-31T12:00:00.000Z')
    const today = dayOf(clock.now())
    const of = (day: number, nanos: bigint): DaySpend => ({ key_hash: `k${day}`, day, byok: false, nanos })
    const ledger = await openLedger(remembering([of(today, 1n), of(today - 1, 2n), of(today - 30, 4n), of(today - 90, 8n)]), clock)
    const spent = (day: number) => (['daily', 'weekly', 'monthly', null] as const).map(period => ledger.spent(`k${day}`, period, false))
    expect(spent(today)).toEqual([1n, 1n, 1n, 1n])
    expect(spent(today - 1)).toEqual([0n, 2n, 2n, 2n])
    expect(spent(today - 30)).toEqual([0n, 0n, 4n, 4n])
    expect(spent(today - 90)).toEqual([0n, 0n, 0n, 8n])
  })

  test('a year of days keeps every window exact', async () => {
    const clock = new TestClock('2026-01-01T12:00:00.000Z')
    const ledger = await openLedger(remembering(), clock)
    for (let day = 0; day < 365; day++) {
      spend(ledger, clock, 1n)
      const monthly = ledger.spent('k', 'monthly', false)
      if (monthly !== BigInt(clock.now().getUTCDate())) expect(`${clock.now().toISOString()} ${monthly}`).toBe('')
      clock.pass(DAY)
    }
    expect(ledger.spent('k', null, false)).toBe(365n)
  })

  test('a key that nobody knows has spent and holds nothing', async () => {
    const ledger = await openLedger(remembering(), new TestClock())
    expect([ledger.spent('x', 'monthly', true), ledger.held('x')]).toEqual([0n, 0n])
  })
})
