import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { computeFirstDay, type Period, toDayNumber } from '../../src/base/clock.ts'
import { GatewayError } from '../../src/base/errors.ts'
import {
  type Account,
  type Bound,
  type Hold,
  type HoldJournal,
  type JournalEntry,
  type Ledger,
  openLedger,
  type Payer,
} from '../../src/limits/ledger.ts'
import { openSqlite } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { TestClock } from '../support/gateway.ts'
import { buildRecordEntry, buildStepCharge } from '../support/generation.ts'
import { TEST_SECRETS, toExactEstimate } from '../support/ledger.ts'
import { openJournal } from '../support/log.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'

const OPERATIONS = LONG ? 10_000 : 4_000
const SEEDS = LONG ? 100 : 40

const directory = mkdtempSync(join(tmpdir(), 'gateway-model-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const PAYERS: Payer[] = [
  { key_hash: 'a', user_id: 'm', workspace_id: 'w' },
  { key_hash: 'b', user_id: 'm', workspace_id: 'v' },
  { key_hash: 'c', user_id: 'n', workspace_id: 'w' },
  { key_hash: 'd', user_id: 'n', workspace_id: 'w' },
]

const bound = (account: Account, period: Period | null, limit: bigint, byok = false): Bound => ({
  account,
  period,
  limit,
  byok,
  message: account,
})
const boundsOf = ({ key_hash, user_id, workspace_id }: Payer): Bound[] => [
  bound(`key ${key_hash}`, 'daily', 1_000n),
  bound(`member ${user_id}`, 'weekly', 4_000n, true),
  bound(`workspace ${workspace_id}`, 'monthly', 5_000n, true),
  bound('all', null, 150_000n),
]

interface Charged extends Payer {
  day: number
  byok: boolean
  nanos: bigint
}
interface Held extends Payer {
  own: bigint | null
  byok: bigint | null
}

const isOf = (account: Account, { key_hash, user_id, workspace_id }: Payer) =>
  [`key ${key_hash}`, `member ${user_id}`, `workspace ${workspace_id}`, 'all'].includes(account)

/** The reference in five lines: everything that ever happened, summed anew each time. */
class Reference {
  charges: Charged[] = []
  holds = new Map<string, Held>()

  spent = (account: Account, period: Period | null, byok: boolean, now: Date): bigint =>
    this.charges.reduce(
      (sum, one) =>
        sum +
        (isOf(account, one) &&
        one.byok === byok &&
        (!period || one.day >= computeFirstDay(period, now))
          ? one.nanos
          : 0n),
      0n,
    )
  held = (account: Account, byok: boolean): bigint =>
    [...this.holds.values()].reduce(
      (sum, one) => sum + (isOf(account, one) ? amountOf(one, byok) : 0n),
      0n,
    )
  fits = ({ account, period, byok, limit }: Bound, nanos: bigint, now: Date): boolean =>
    this.spent(account, period, false, now) +
      (byok ? this.spent(account, period, true, now) : 0n) +
      this.held(account, byok) +
      nanos <=
    limit
}

const amountOf = ({ own, byok }: Held, isCounted: boolean) =>
  isCounted && (byok ?? 0n) > (own ?? 0n) ? (byok ?? 0n) : (own ?? 0n)

/** Plausible mistakes in a ledger. */
const BUGS: Record<string, (ledger: Ledger) => Ledger> = {
  'no hold': ledger => ({
    ...ledger,
    reserve(payer, need, bounds) {
      ledger.release(ledger.reserve(payer, need, bounds))
      return ledger.reserve(payer, toExactEstimate({ own: 0n, byok: null }), [])
    },
  }),
  'a charge that settles twice': ledger => ({
    ...ledger,
    settle(hold, charge) {
      ledger.settle(hold, charge)
      ledger.charge(charge)
    },
  }),
  'a lost hold': ledger => ({ ...ledger, release: () => undefined }),
  'forgotten bounds': ledger => ({
    ...ledger,
    reserve: (payer, need, bounds) => ledger.reserve(payer, need, bounds.slice(0, -2)),
  }),
}

/** A running call. */
interface Open {
  hold: Hold
  payer: Payer
  word: JournalEntry
}

/**
 * Runs the ledger and the reference side by side, and returns the first difference, or undefined.
 */
async function differenceIn(
  seed: number,
  operations: number,
  planted: (ledger: Ledger) => Ledger = ledger => ledger,
): Promise<string | undefined> {
  const random = createSeededIntegers(seed)
  const clock = new TestClock('2026-02-20T22:00:00.000Z')
  const store = await openSqlite({
    path: ':memory:',
    durability: 'normal',
    busyTimeout: 0,
    secrets: TEST_SECRETS,
  })
  const journal = openJournal(mkdtempSync(join(directory, 'run-')))
  const reference = new Reference()
  const open = new Map<string, Open>()
  let written = Promise.resolve()
  let ledger = planted(await openLedger(store.ledger, clock))
  let count = 0
  try {
    for (let i = 0; i < operations; i++) {
      const chosen = [...open.keys()][random(Math.max(open.size, 1))]
      switch (random(chosen ? 10 : 5)) {
        case 0:
          clock.pass((random(20) === 0 ? -1 : 1) * random(16) * 3_600_000)
          break
        case 1:
          if (random(40) === 0)
            ledger = planted(await reopened(store, journal, clock, reference, open))
          break
        case 2:
        case 3:
        case 4: {
          const wrong = reserve(`g${++count}`)
          if (wrong) return `operation ${i}: ${wrong}`
          break
        }
        case 5:
        case 6:
          ledger.release(taken(chosen ?? '').hold)
          await store.generations.record([{ ...buildRecordEntry(chosen ?? ''), charge: null }])
          break
        default:
          await settle(chosen ?? '')
      }
      const wrong = difference()
      if (wrong) return `operation ${i}: ${wrong}`
    }
    return undefined
  } finally {
    // The directory may be removed only after the last line was written.
    await written
    await store.close()
  }

  function reserve(id: string): string | undefined {
    const payer = PAYERS[random(PAYERS.length)] as Payer
    const way = random(4)
    const amounts = {
      own: way === 0 ? null : BigInt(random(400)),
      byok: way < 2 ? BigInt(random(400)) : null,
    }
    const bounds = boundsOf(payer)
    const fitting = (nanos: bigint | null, those: Bound[]) =>
      nanos !== null && those.every(one => reference.fits(one, nanos, clock.now())) ? nanos : null
    const granted = {
      own: fitting(amounts.own, bounds),
      byok: fitting(
        amounts.byok,
        bounds.filter(one => one.byok),
      ),
    }
    const expected =
      granted.own !== null ||
      granted.byok !== null ||
      (amounts.own === null && amounts.byok === null)
    try {
      const hold = ledger.reserve(payer, toExactEstimate(amounts), bounds)
      if (!expected) return `${id} was let in`
      reference.holds.set(id, { ...payer, ...granted })
      const word = journal.append(heldCall(id, payer, granted.own ?? granted.byok ?? 0n))
      written = word.written
      open.set(id, { hold, payer, word })
    } catch (thrown) {
      if (expected) return `${id} was refused`
      if (GatewayError.from(thrown).status !== 402) throw thrown
    }
  }

  function taken(id: string) {
    const one = open.get(id)
    open.delete(id)
    reference.holds.delete(id)
    if (!one) throw new Error('Nothing was chosen')
    one.word.forget()
    return one
  }

  async function settle(id: string): Promise<void> {
    const { hold, payer } = taken(id)
    const byok = hold.amounts.own === null
    const nanos = BigInt(random(Number(hold.amounts.own ?? hold.amounts.byok ?? 0n) + 1))
    const charge = buildStepCharge({ ...payer, id, byok, nanos, day: toDayNumber(clock.now()) })
    ledger.settle(hold, charge)
    // A timer and the end of a stream may both settle: the second changes nothing.
    if (random(3) === 0) ledger.settle(hold, charge)
    reference.charges.push(charge)
    await store.generations.record([{ ...buildRecordEntry(id), charge }])
  }

  function difference(): string | undefined {
    const { key_hash, user_id, workspace_id } = PAYERS[random(PAYERS.length)] as Payer
    const account = (
      [`key ${key_hash}`, `member ${user_id}`, `workspace ${workspace_id}`, 'all'] as Account[]
    )[random(4)] as Account
    const period = (['daily', 'weekly', 'monthly', null] as const)[random(4)] ?? null
    const byok = random(2) === 0
    const [spent, held] = [ledger.getSpent(account, period, byok), ledger.getHeld(account, byok)]
    const [mustSpent, mustHeld] = [
      reference.spent(account, period, byok, clock.now()),
      reference.held(account, byok),
    ]
    if (spent !== mustSpent) return `${account} ${period} has spent ${spent}, and not ${mustSpent}`
    return held === mustHeld ? undefined : `${account} holds ${held}, and not ${mustHeld}`
  }
}

const heldCall = (id: string, payer: Payer, nanos: bigint) => ({
  ...payer,
  id,
  request_id: id,
  created_at: '2026-02-20T22:00:00.000Z',
  api_type: 'completions',
  model: 'acme/small',
  streamed: false,
  step: 1,
  byok: false,
  nanos,
  spent: nanos / 10n,
})

/**
 * The process dies: what running calls have cost so far is charged, and the ledger is opened anew.
 */
async function reopened(
  store: Store,
  journal: HoldJournal,
  clock: TestClock,
  reference: Reference,
  open: Map<string, Open>,
): Promise<Ledger> {
  for (const { word } of open.values()) await word.written
  for (const { id, spent: nanos, key_hash, user_id, workspace_id } of journal.listCalls()) {
    if (await store.generations.byId(id)) continue
    const day = toDayNumber(clock.now())
    const charge = buildStepCharge({ key_hash, user_id, workspace_id, id, byok: false, nanos, day })
    await store.generations.record([{ ...buildRecordEntry(id), charge }])
    open.get(id)?.word.forget()
    reference.charges.push(charge)
  }
  await journal.clear()
  expect(journal.listCalls()).toEqual([])
  reference.holds.clear()
  open.clear()
  return openLedger(store.ledger, clock)
}

describe('the ledger and its reference', () => {
  test(`agrees after each of ${OPERATIONS} operations (seed ${SEED})`, async () => {
    expect(await differenceIn(SEED, OPERATIONS)).toBeUndefined()
  }, 60_000)

  test(`agrees for ${SEEDS} other seeds`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++)
      expect([seed, await differenceIn(SEED + seed, 300)]).toEqual([seed, undefined])
  }, 60_000)

  for (const [name, planted] of Object.entries(BUGS)) {
    test(`finds ${name}, whatever the seed`, async () => {
      for (let seed = 0; seed < 5; seed++)
        expect(await differenceIn(SEED + seed, OPERATIONS, planted)).toBeString()
    }, 60_000)
  }
})
