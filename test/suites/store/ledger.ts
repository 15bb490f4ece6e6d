import { expect, test } from 'bun:test'
import { hashLedgerRow, type LedgerRow, sealLedgerRow } from '../../../src/limits/chain.ts'
import type { Subaccount } from '../../../src/limits/ledger.ts'
import {
  buildGeneration,
  buildRecordEntry,
  buildStepEntry,
  PAYER,
} from '../../support/generation.ts'
import { TEST_MAC } from '../../support/ledger.ts'
import { type GetStore, LARGEST, readErrorType, sortByField } from './rows.ts'

/** Tests what every store promises about charges: steps of calls, the chain, and mismatches. */
export function testLedger(store: GetStore): void {
  /** Reads the ledger as `gateway doctor` does. */
  async function inspect() {
    const rows: LedgerRow[] = []
    const books = await store().ledger.inspect(row => rows.push(row))
    return { rows, ...books }
  }

  const finished = (id: string, cost: bigint | null, more = {}) =>
    buildGeneration({ id, upstream_inference_cost: cost, ...more })

  test('an empty ledger has no head, no rows and no faults', async () => {
    expect(await store().ledger.readHead()).toBeNull()
    expect(await store().ledger.listCharges('a')).toEqual([])
    expect(await inspect()).toEqual({
      ...{ rows: [], integrity: [], spend: [], parts: [], unmatched: [] },
      records: { count: 0, unsealed: 0, problems: [], unpaid: [] },
    })
  })

  test('charges form a chain in the order of their recording, up to the head', async () => {
    const { generations, ledger } = store()
    await generations.record([
      buildRecordEntry('b', { nanos: LARGEST }),
      buildStepEntry('c', 1, { key_hash: 'x' }),
    ])
    await generations.record([
      buildStepEntry('c', 2, { key_hash: 'x', byok: true, source: 'estimated' }),
    ])
    const { rows } = await inspect()
    expect(rows.map(({ seq, id, step }) => [seq, id, step])).toEqual([
      [1, 'b', 1],
      [2, 'c', 1],
      [3, 'c', 2],
    ])
    const { hash, ...row } = rows[2] as LedgerRow
    expect(row).toEqual({
      ...{ ...PAYER, key_hash: 'x', seq: 3, id: 'c', step: 2, byok: true, nanos: 4_500n },
      ...{ settled_at: '2026-03-04T05:06:08.000Z', source: 'estimated' },
    })
    const sealedFrom = (await store().seals.readOpening())?.ledger.seq ?? 0
    let before = ''
    for (const one of rows) {
      before =
        one.seq > sealedFrom ? sealLedgerRow(TEST_MAC, before, one) : hashLedgerRow(before, one)
      expect(one.hash).toBe(before)
    }
    expect(await ledger.readHead()).toEqual({ seq: 3, hash: hash ?? '' })
    expect(rows[0]?.nanos).toBe(LARGEST)
  })

  test('A-09 a call is charged step by step, each step once, and its rows are in order', async () => {
    const { generations, ledger } = store()
    await generations.record([
      buildStepEntry('a', 2, { nanos: 2n, byok: true }),
      buildStepEntry('b', 1),
    ])
    await generations.record([buildStepEntry('a', 1, { nanos: 1n })])
    const last = { ...buildStepEntry('a', 3, { nanos: 4n }), generation: finished('a', 7n) }
    await generations.record([last])
    const charges = [
      { step: 1, byok: false, nanos: 1n },
      { step: 2, byok: true, nanos: 2n },
      { step: 3, byok: false, nanos: 4n },
    ]
    expect(await ledger.listCharges('a')).toEqual(charges)
    for (const step of [1, 2, 3])
      expect(
        await readErrorType(
          generations.record([buildStepEntry('c', 1), buildStepEntry('a', step)]),
        ),
      ).toBe('conflict')
    expect(
      await readErrorType(generations.record([buildStepEntry('d', 1), buildStepEntry('d', 1)])),
    ).toBe('conflict')
    expect([await ledger.listCharges('a'), await ledger.listCharges('c')]).toEqual([charges, []])
    expect((await ledger.readHead())?.seq).toBe(4)
    const totals = sortByField(await ledger.listTotals(), 'nanos')
    expect(totals.map(({ byok, nanos }) => [byok, nanos])).toEqual([
      [true, 2n],
      [false, 4_505n],
    ])
  })

  test('charges of end users, tags and models are counted by day, and forgotten when they are old', async () => {
    const { generations, ledger } = store()
    const subaccounts: Subaccount[] = ['tag key k “𝄞”', 'end_user key k e']
    const [tag, user] = subaccounts as [Subaccount, Subaccount]
    await generations.record([
      buildRecordEntry('a', { nanos: LARGEST, subaccounts }),
      buildRecordEntry('b', { nanos: 5n, byok: true, subaccounts: [tag] }),
      buildStepEntry('c', 1, { nanos: 7n, day: 20_517, subaccounts: [user] }),
      buildStepEntry('c', 2, { nanos: 4n, day: 20_517, subaccounts: [user] }),
      buildStepEntry('d', 1, { nanos: 0n, subaccounts: ['tag key k free'] }),
    ])
    const list = async (since: number, ...accounts: Subaccount[]) =>
      sortByField(await ledger.listSubaccountDays(accounts, since), 'nanos')
    expect(await list(0, tag, 'tag key k free')).toEqual([
      { account: tag, day: 20_516, byok: true, nanos: 5n },
      { account: tag, day: 20_516, byok: false, nanos: LARGEST },
    ])
    expect(await list(20_517, tag, user)).toEqual([
      { account: user, day: 20_517, byok: false, nanos: 11n },
    ])
    expect(await ledger.removeSubaccountDays(20_517)).toBe(3)
    expect(await list(0, tag, user)).toHaveLength(1)
    expect(await ledger.removeSubaccountDays(20_517)).toBe(0)
  })

  test('a free step is recorded if nothing else shows that it is settled', async () => {
    const { generations, ledger } = store()
    await generations.record([buildStepEntry('a', 1, { nanos: 0n })])
    await generations.record([
      { ...buildRecordEntry('b', { nanos: 0n }), generation: finished('b', 0n) },
    ])
    expect(await ledger.listCharges('a')).toEqual([{ step: 1, byok: false, nanos: 0n }])
    expect([await ledger.listCharges('b'), await ledger.listTotals()]).toEqual([[], []])
    await generations.record([{ generation: finished('a', 0n), charge: null }])
    expect((await inspect()).unmatched).toEqual([])
  })

  test('an amount too large for a column is refused in a step too, with its batch', async () => {
    const { generations, ledger } = store()
    for (const nanos of [LARGEST + 1n, -(2n ** 64n) - 1n])
      expect(
        await readErrorType(
          generations.record([buildStepEntry('a', 1), buildStepEntry('a', 2, { nanos })]),
        ),
      ).toBe('conflict')
    expect(await ledger.listCharges('a')).toEqual([])
  })

  test('mismatches are found: the sum of a call’s rows must equal its record', async () => {
    const { generations } = store()
    await generations.record([
      buildRecordEntry('fits', { nanos: 4_500n }),
      { ...buildStepEntry('sum', 2, { nanos: 3n }), generation: finished('sum', 5n) },
      buildStepEntry('sum', 1, { nanos: 2n }),
      buildStepEntry('goes on', 1, { nanos: 1n }),
      buildStepEntry('less', 1, { nanos: 1n }),
      { generation: finished('less', 2n), charge: null },
      { generation: finished('not charged', 9n), charge: null },
      { generation: finished('free', 0n), charge: null },
      { generation: finished('unknown', null), charge: null },
      { generation: finished('nobody’s', 9n, { key_hash: null }), charge: null },
      { ...buildStepEntry('charged', 1, { nanos: 6n }), generation: finished('charged', null) },
      { ...buildStepEntry('for nothing', 1, { nanos: 0n }) },
    ])
    expect(sortByField((await inspect()).unmatched, 'id')).toEqual([
      { id: 'charged', charged: 6n, recorded: null },
      { id: 'goes on', charged: 1n, recorded: null },
      { id: 'less', charged: 1n, recorded: 2n },
      { id: 'not charged', charged: null, recorded: 9n },
    ])
  })

  test('an inspection that throws rejects with its error, and the store works on', async () => {
    const { generations, ledger } = store()
    await generations.record([buildRecordEntry('a'), buildRecordEntry('b')])
    const seen: string[] = []
    const look = ledger.inspect(({ id }) => {
      seen.push(id)
      throw new Error('enough')
    })
    expect(await look.catch(({ message }) => message)).toBe('enough')
    expect(seen).toEqual(['a'])
    await generations.record([buildRecordEntry('c')])
    expect((await inspect()).rows.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
  })

  test('an inspection sees one snapshot, whatever is written meanwhile', async () => {
    const { generations } = store()
    await generations.record([buildRecordEntry('a'), buildRecordEntry('b')])
    const looking = inspect()
    const writing = Array.from({ length: 20 }, (_, i) =>
      generations.record([buildRecordEntry(`w${i}`)]),
    )
    const { rows, spend, unmatched } = await looking
    await Promise.all(writing)
    expect(rows.reduce((sum, { nanos }) => sum + nanos, 0n)).toBe(spend[0]?.nanos ?? 0n)
    expect(unmatched).toEqual([])
  })
}
