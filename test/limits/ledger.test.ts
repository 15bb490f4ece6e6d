import { afterAll, describe, expect, test } from 'bun:test'
import { type Period, toDayNumber } from '../../src/base/clock.ts'
import { GatewayError } from '../../src/base/errors.ts'
import {
  type Account,
  type Amounts,
  type Bound,
  type DaySpend,
  type Ledger,
  openLedger,
} from '../../src/limits/ledger.ts'
import { TestClock } from '../support/gateway.ts'
import {
  buildBound,
  buildCharge,
  buildPayer,
  createLedgerStore,
  spend,
  toExactEstimate,
  toOwnAmounts,
} from '../support/ledger.ts'

const DAY = 86_400_000
const PERIODS: (Period | null)[] = ['daily', 'weekly', 'monthly', null]

const windowsOf = (ledger: Ledger, account: Account = 'key k') =>
  PERIODS.map(period => ledger.getSpent(account, period, false))

/** Returns whether enough was left. */
function fits(reserve: () => unknown): boolean {
  try {
    reserve()
    return true
  } catch (thrown) {
    expect(GatewayError.from(thrown)).toMatchObject({ type: 'payment_required', status: 402 })
    return false
  }
}

describe('a hold', () => {
  test('sets money aside while a call runs, and becomes spending when it settles', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    const hold = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), [])
    expect([ledger.getHeld('key k', false), ledger.getSpent('key k', null, false)]).toEqual([
      100n,
      0n,
    ])
    ledger.settle(hold, buildCharge(clock, 70n))
    expect([ledger.getHeld('key k', false), ledger.getSpent('key k', null, false)]).toEqual([
      0n,
      70n,
    ])
  })

  test('is set aside, released and spent in every account of the payer', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    const accounts: Account[] = ['key k', 'member m', 'workspace w', 'all']
    const first = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), [])
    const other = ledger.reserve(
      buildPayer({ key_hash: 'k2', workspace_id: 'w2' }),
      toExactEstimate(toOwnAmounts(5n)),
      [],
    )
    expect(accounts.map(account => ledger.getHeld(account, false))).toEqual([
      100n,
      105n,
      100n,
      105n,
    ])
    ledger.settle(first, buildCharge(clock, 70n))
    ledger.release(other)
    expect(accounts.map(account => ledger.getHeld(account, false))).toEqual([0n, 0n, 0n, 0n])
    expect(accounts.map(account => ledger.getSpent(account, 'daily', false))).toEqual([
      70n,
      70n,
      70n,
      70n,
    ])
    expect(ledger.getSpent('workspace w2', null, false)).toBe(0n)
  })

  test('costs nothing when it is released, and is released once', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    const hold = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), [])
    ledger.release(hold)
    ledger.release(hold)
    expect([ledger.getHeld('key k', false), ledger.getSpent('key k', null, false)]).toEqual([
      0n,
      0n,
    ])
  })

  test('can be computed in advance, which sets nothing aside', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    ledger.settle(
      ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), []),
      buildCharge(clock, 70n),
    )
    const bound = buildBound({ limit: 100n })
    const grant = (most: bigint, least = most) =>
      ledger.computeGrant({ maximum: toOwnAmounts(most), minimum: toOwnAmounts(least) }, [bound])
    expect([grant(30n), grant(31n, 10n)]).toEqual([toOwnAmounts(30n), toOwnAmounts(15n)])
    expect([fits(() => grant(30n)), fits(() => grant(31n))]).toEqual([true, false])
    expect([ledger.getRemaining(bound), ledger.getHeld('key k', false)]).toEqual([30n, 0n])
  })

  test('A-09 settles only once', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    const hold = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), [])
    ledger.settle(hold, buildCharge(clock, 70n))
    ledger.settle(hold, buildCharge(clock, 70n))
    ledger.release(hold)
    const released = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(5n)), [])
    ledger.release(released)
    ledger.settle(released, buildCharge(clock, 5n))
    expect([ledger.getHeld('key k', false), ledger.getSpent('key k', null, false)]).toEqual([
      0n,
      70n,
    ])
  })

  test('of a call that may be paid either way counts the dearer one where both count', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    const hold = ledger.reserve(buildPayer(), toExactEstimate({ own: 10n, byok: 30n }), [])
    expect([ledger.getHeld('key k', false), ledger.getHeld('key k', true)]).toEqual([10n, 30n])
    ledger.release(hold)
    expect([ledger.getHeld('key k', false), ledger.getHeld('key k', true)]).toEqual([0n, 0n])
  })
})

describe('a bound', () => {
  test('admits what it has left to the nano-dollar, then refuses with its message', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    const bounds = [buildBound({ limit: 100n, message: 'Key limit exceeded (daily limit)' })]
    ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(60n)), bounds)
    ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(40n)), bounds)
    expect(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(1n)), bounds)).toThrow(
      'Key limit exceeded (daily limit)',
    )
    expect(ledger.getHeld('key k', false)).toBe(100n)
  })

  test('counts what was spent, not what was set aside', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    const bounds = [buildBound({ limit: 100n })]
    const hold = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), bounds)
    ledger.settle(hold, buildCharge(clock, 30n))
    expect(
      fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(71n)), bounds)),
    ).toBe(false)
    expect(
      fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(70n)), bounds)),
    ).toBe(true)
  })

  test('among several: the smallest applies, and a refusal changes none of them', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    const nested = [
      buildBound({ account: 'key k', limit: 100n, message: 'key' }),
      buildBound({ account: 'member m', limit: 80n, message: 'member' }),
      buildBound({ account: 'workspace w', limit: 500n, message: 'workspace' }),
      buildBound({ account: 'all', limit: 60n, message: 'credits' }),
    ]
    for (const bounds of [nested, nested.toReversed()]) {
      expect(() =>
        ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(61n)), bounds),
      ).toThrow('credits')
      const hold = ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(60n)), bounds)
      expect(
        fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(1n)), bounds)),
      ).toBe(false)
      ledger.release(hold)
      expect(nested.map(({ account }) => ledger.getHeld(account, true))).toEqual([0n, 0n, 0n, 0n])
    }
  })

  test('of a member counts all keys they made, of a workspace all its keys', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    const member = [buildBound({ account: 'member m', limit: 100n })]
    ledger.reserve(
      buildPayer({ key_hash: 'a', workspace_id: 'w1' }),
      toExactEstimate(toOwnAmounts(60n)),
      member,
    )
    expect(
      fits(() =>
        ledger.reserve(
          buildPayer({ key_hash: 'b', workspace_id: 'w2' }),
          toExactEstimate(toOwnAmounts(41n)),
          member,
        ),
      ),
    ).toBe(false)
    const workspace = [buildBound({ account: 'workspace w1', limit: 100n })]
    expect(
      fits(() =>
        ledger.reserve(
          buildPayer({ key_hash: 'c', user_id: 'n', workspace_id: 'w1' }),
          toExactEstimate(toOwnAmounts(41n)),
          workspace,
        ),
      ),
    ).toBe(false)
    expect(
      fits(() =>
        ledger.reserve(
          buildPayer({ key_hash: 'c', user_id: 'n', workspace_id: 'w1' }),
          toExactEstimate(toOwnAmounts(40n)),
          workspace,
        ),
      ),
    ).toBe(true)
  })

  test('counts spending through callers’ own keys only where it is set to', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    spend(ledger, clock, 90n, { byok: true })
    const ask = (byok: boolean, amounts: Parameters<typeof toExactEstimate>[0]) =>
      fits(() =>
        ledger.release(
          ledger.reserve(buildPayer(), toExactEstimate(amounts), [
            buildBound({ limit: 100n, byok }),
          ]),
        ),
      )
    expect(ask(false, toOwnAmounts(100n))).toBe(true)
    expect(ask(true, toOwnAmounts(11n))).toBe(false)
    expect(ask(true, toOwnAmounts(10n))).toBe(true)
    expect(ask(false, { own: null, byok: 1_000n })).toBe(true)
    expect(ask(true, { own: null, byok: 11n })).toBe(false)
    expect(ask(true, { own: 11n, byok: 11n })).toBe(false)
    expect(ask(false, { own: 1n, byok: 11n })).toBe(true)
  })

  test('excludes the way that cannot be paid, and allows the other', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    spend(ledger, clock, 90n)
    const grant = (amounts: Amounts, more: Partial<Bound>) => {
      const hold = ledger.reserve(buildPayer(), toExactEstimate(amounts), [
        buildBound({ limit: 100n, ...more }),
      ])
      ledger.release(hold)
      return hold.amounts
    }
    expect(grant({ own: 11n, byok: 500n }, { byok: false })).toEqual({ own: null, byok: 500n })
    expect(grant({ own: 11n, byok: 10n }, { byok: true })).toEqual({ own: null, byok: 10n })
    expect(grant({ own: 10n, byok: 11n }, { byok: true })).toEqual({ own: 10n, byok: null })
    expect(() => grant({ own: 11n, byok: 11n }, { byok: true })).toThrow('Key limit exceeded')
    expect(() => grant(toOwnAmounts(11n), { byok: true })).toThrow('Key limit exceeded')
  })

  test('grants half of what is left to a call whose minimum allows it, or that minimum', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    const bounds = [buildBound({ limit: 100n }), buildBound({ account: 'all', limit: 70n })]
    const hold = ledger.reserve(
      buildPayer(),
      { maximum: toOwnAmounts(150n), minimum: toOwnAmounts(20n) },
      bounds,
    )
    expect(hold.amounts).toEqual(toOwnAmounts(35n))
    const again = () =>
      ledger.reserve(
        buildPayer(),
        { maximum: toOwnAmounts(150n), minimum: toOwnAmounts(20n) },
        bounds,
      )
    expect(again().amounts).toEqual(toOwnAmounts(20n))
    expect(fits(again)).toBe(false)
  })

  test('that is used up stops paid calls; free ones only once it is exceeded', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    spend(ledger, clock, 100n)
    expect(
      fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(1n)), [buildBound()])),
    ).toBe(false)
    expect(
      fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(0n)), [buildBound()])),
    ).toBe(true)
    expect(
      fits(() =>
        ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(0n)), [
          buildBound({ limit: 99n }),
        ]),
      ),
    ).toBe(false)
  })

  test('of a key without spending admits its whole limit and no more', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    expect(
      fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(101n)), [buildBound()])),
    ).toBe(false)
    expect(ledger.getHeld('key k', false)).toBe(0n)
    expect(
      fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(100n)), [buildBound()])),
    ).toBe(true)
  })
})

describe('windows', () => {
  test('begin by the clock: at midnight, on Monday, on the first', async () => {
    const clock = new TestClock('2026-03-29T23:59:59.000Z') // A Sunday.
    const ledger = await openLedger(createLedgerStore(), clock)
    spend(ledger, clock, 10n)
    expect(windowsOf(ledger)).toEqual([10n, 10n, 10n, 10n])
    clock.pass(1_000)
    expect(windowsOf(ledger)).toEqual([0n, 0n, 10n, 10n])
    spend(ledger, clock, 5n)
    clock.pass(DAY)
    expect(windowsOf(ledger)).toEqual([0n, 5n, 15n, 15n])
    clock.pass(DAY)
    expect(windowsOf(ledger)).toEqual([0n, 5n, 0n, 15n])
  })

  /** The last millisecond of a window, and which windows end there: day, week, month. */
  const EDGES: [name: string, last: string, ends: [week: boolean, month: boolean]][] = [
    ['an ordinary night', '2026-03-04T23:59:59.999Z', [false, false]],
    ['Sunday to Monday', '2026-03-08T23:59:59.999Z', [true, false]],
    ['the end of a month of 31 days', '2026-03-31T23:59:59.999Z', [false, true]],
    ['the end of a month of 30 days', '2026-04-30T23:59:59.999Z', [false, true]],
    ['the end of February', '2026-02-28T23:59:59.999Z', [false, true]],
    ['the day before a leap day', '2028-02-28T23:59:59.999Z', [false, false]],
    ['a leap day', '2028-02-29T23:59:59.999Z', [false, true]],
    ['no leap day in 2100', '2100-02-28T23:59:59.999Z', [true, true]],
    ['the end of a year', '2026-12-31T23:59:59.999Z', [false, true]],
    ['the end of a year that is a Sunday', '2028-12-31T23:59:59.999Z', [true, true]],
    ['the night when Europe’s clocks go forward', '2026-03-28T23:59:59.999Z', [false, false]],
    ['the night when New York’s clocks go back', '2026-10-31T23:59:59.999Z', [false, true]],
  ]

  const ZONES: [name: string, offset: number][] = [
    ['UTC', 0],
    ['America/New_York', 300],
    ['Asia/Kathmandu', -345],
  ]
  const before = process.env.TZ
  afterAll(() => {
    process.env.TZ = before ?? 'UTC'
  })

  for (const [zone, offset] of ZONES) {
    for (const [name, last, [week, month]] of EDGES) {
      test(`end at ${name}, in ${zone}`, async () => {
        process.env.TZ = zone
        expect(new Date('2026-01-01T00:00:00Z').getTimezoneOffset()).toBe(offset)
        const clock = new TestClock(last)
        const ledger = await openLedger(createLedgerStore(), clock)
        const bounds = (['daily', 'weekly', 'monthly'] as const).map(period =>
          buildBound({ period, limit: 100n }),
        )
        spend(ledger, clock, 100n)
        const before = ledger.reserve(
          buildPayer({ key_hash: 'late' }),
          toExactEstimate(toOwnAmounts(7n)),
          [],
        )
        for (const bound of bounds)
          expect(
            fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(1n)), [bound])),
          ).toBe(false)
        clock.pass(1)
        expect(windowsOf(ledger)).toEqual([0n, week ? 0n : 100n, month ? 0n : 100n, 100n])
        expect(
          bounds.map(bound =>
            fits(() => ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(1n)), [bound])),
          ),
        ).toEqual([true, week, month])
        // A charge settled after the edge counts after it, though its hold was made before.
        ledger.settle(before, buildCharge(clock, 7n, { key_hash: 'late' }))
        expect(windowsOf(ledger, 'key late')).toEqual([7n, 7n, 7n, 7n])
      })
    }
  }

  test('unread for a quarter of a year begin at zero', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    spend(ledger, clock, 10n)
    clock.pass(90 * DAY)
    expect(windowsOf(ledger)).toEqual([0n, 0n, 0n, 10n])
  })

  test('stay exact over a year of days', async () => {
    const clock = new TestClock('2026-01-01T12:00:00.000Z')
    const ledger = await openLedger(createLedgerStore(), clock)
    for (let day = 0; day < 365; day++) {
      spend(ledger, clock, 1n)
      const monthly = ledger.getSpent('key k', 'monthly', false)
      if (monthly !== BigInt(clock.now().getUTCDate()))
        expect(`${clock.now().toISOString()} ${monthly}`).toBe('')
      clock.pass(DAY)
    }
    expect(ledger.getSpent('key k', null, false)).toBe(365n)
  })

  const HOUR = 3_600_000
  for (const [name, jump] of [
    ['an hour', HOUR],
    ['a day', DAY],
    ['a month', 31 * DAY],
    ['four hundred days', 400 * DAY],
  ] as const) {
    test(`a clock that is set back by ${name} gives nothing back`, async () => {
      const clock = new TestClock('2026-03-01T00:30:00.000Z')
      const ledger = await openLedger(createLedgerStore(), clock)
      spend(ledger, clock, 100n)
      clock.pass(-jump)
      expect(windowsOf(ledger)).toEqual([100n, 100n, 100n, 100n])
      for (const period of ['daily', 'weekly', 'monthly'] as const)
        expect(
          fits(() =>
            ledger.reserve(buildPayer(), toExactEstimate(toOwnAmounts(1n)), [
              buildBound({ period }),
            ]),
          ),
        ).toBe(false)
    })

    test(`a clock that runs ahead by ${name} and is corrected opens no window twice`, async () => {
      const clock = new TestClock('2026-03-01T00:30:00.000Z')
      const ledger = await openLedger(createLedgerStore(), clock)
      for (let day = 0; day < 40; day++) {
        spend(ledger, clock, 1n)
        clock.pass(DAY)
      }
      const before = windowsOf(ledger)
      clock.pass(jump)
      spend(ledger, clock, 100n)
      clock.pass(-jump)
      expect(windowsOf(ledger)).toEqual(before.map(nanos => nanos + 100n))
    })
  }
})

describe('the counters', () => {
  test('count spending through own provider keys separately', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    spend(ledger, clock, 10n)
    spend(ledger, clock, 3n, { byok: true })
    expect([
      ledger.getSpent('key k', 'daily', false),
      ledger.getSpent('key k', 'daily', true),
    ]).toEqual([10n, 3n])
  })

  test('include what was spent before the start, in its windows', async () => {
    const clock = new TestClock('2026-03-31T12:00:00.000Z')
    const today = toDayNumber(clock.now())
    const of = (day: number, nanos: bigint): DaySpend => ({
      ...buildPayer({ key_hash: `k${day}` }),
      day,
      byok: false,
      nanos,
    })
    const ledger = await openLedger(
      createLedgerStore([of(today, 1n), of(today - 1, 2n), of(today - 30, 4n), of(today - 90, 8n)]),
      clock,
    )
    expect(windowsOf(ledger, `key k${today}`)).toEqual([1n, 1n, 1n, 1n])
    expect(windowsOf(ledger, `key k${today - 1}`)).toEqual([0n, 2n, 2n, 2n])
    expect(windowsOf(ledger, `key k${today - 30}`)).toEqual([0n, 0n, 4n, 4n])
    expect(windowsOf(ledger, `key k${today - 90}`)).toEqual([0n, 0n, 0n, 8n])
    expect(windowsOf(ledger, 'member m')).toEqual([1n, 3n, 7n, 15n])
  })

  test('A-20 a million tiny charges add up exactly', async () => {
    const clock = new TestClock()
    const ledger = await openLedger(createLedgerStore(), clock)
    const charge = buildCharge(clock, 700n)
    for (let i = 0; i < 1_000_000; i++) ledger.charge(charge)
    expect(ledger.getSpent('key k', 'daily', false)).toBe(700_000_000n)
  })

  test('an unknown account has no spending and no holds', async () => {
    const ledger = await openLedger(createLedgerStore(), new TestClock())
    expect([ledger.getSpent('key x', 'monthly', true), ledger.getHeld('key x', true)]).toEqual([
      0n,
      0n,
    ])
  })
})
