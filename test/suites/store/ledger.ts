import { expect, test } from 'bun:test'
import { chained, type LedgerRow } from '../../../src/core/ledger/chain.ts'
import { entryOf, generationWith, PAYER, stepOf } from '../../support/generation.ts'
import { LARGEST, type Opened, sortedBy, typeOf } from './rows.ts'

/** Tests what every store promises about charges: steps of calls, the chain, and mismatches. */
export function ledgerCases(store: Opened): void {
  /** Reads the ledger as `gateway doctor` does. */
  async function inspect() {
    const rows: LedgerRow[] = []
    const books = await store().ledger.inspect(row => rows.push(row))
    return { rows, ...books }
  }

  const finished = (id: string, cost: bigint | null, more = {}) =>
    generationWith({ id, upstream_inference_cost: cost, ...more })

  test('an empty ledger has no head, no rows and no faults', async () => {
    expect(await store().ledger.head()).toBeNull()
    expect(await store().ledger.charges('a')).toEqual([])
    expect(await inspect()).toEqual({ rows: [], integrity: ['ok'], spend: [], unmatched: [] })
  })

  test('charges form a chain in the order of their recording, up to the head', async () => {
    const { generations, ledger } = store()
    await generations.record([entryOf('b', { nanos: LARGEST }), stepOf('c', 1, { key_hash: 'x' })])
    await generations.record([stepOf('c', 2, { key_hash: 'x', byok: true, source: 'estimated' })])
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
    let before = ''
    for (const one of rows) {
      before = chained(before, one)
      expect(one.hash).toBe(before)
    }
    expect(await ledger.head()).toEqual({ seq: 3, hash: hash ?? '' })
    expect(rows[0]?.nanos).toBe(LARGEST)
  })

  test('a call is charged step by step, each step once, and its rows are in order', async () => {
    const { generations, ledger } = store()
    await generations.record([stepOf('a', 2, { nanos: 2n, byok: true }), stepOf('b', 1)])
    await generations.record([stepOf('a', 1, { nanos: 1n })])
    const last = { ...stepOf('a', 3, { nanos: 4n }), generation: finished('a', 7n) }
    await generations.record([last])
    const charges = [
      { step: 1, byok: false, nanos: 1n },
      { step: 2, byok: true, nanos: 2n },
      { step: 3, byok: false, nanos: 4n },
    ]
    expect(await ledger.charges('a')).toEqual(charges)
    for (const step of [1, 2, 3])
      expect(await typeOf(generations.record([stepOf('c', 1), stepOf('a', step)]))).toBe('conflict')
    expect(await typeOf(generations.record([stepOf('d', 1), stepOf('d', 1)]))).toBe('conflict')
    expect([await ledger.charges('a'), await ledger.charges('c')]).toEqual([charges, []])
    expect((await ledger.head())?.seq).toBe(4)
    const totals = sortedBy(await ledger.totals(), 'nanos')
    expect(totals.map(({ byok, nanos }) => [byok, nanos])).toEqual([
      [true, 2n],
      [false, 4_505n],
    ])
  })

  test('a free step is recorded if nothing else shows that it is settled', async () => {
    const { generations, ledger } = store()
    await generations.record([stepOf('a', 1, { nanos: 0n })])
    await generations.record([{ ...entryOf('b', { nanos: 0n }), generation: finished('b', 0n) }])
    expect(await ledger.charges('a')).toEqual([{ step: 1, byok: false, nanos: 0n }])
    expect([await ledger.charges('b'), await ledger.totals()]).toEqual([[], []])
    await generations.record([{ generation: finished('a', 0n), charge: null }])
    expect((await inspect()).unmatched).toEqual([])
  })

  test('an amount too large for a column is refused in a step too, with its batch', async () => {
    const { generations, ledger } = store()
    for (const nanos of [LARGEST + 1n, -(2n ** 64n) - 1n])
      expect(await typeOf(generations.record([stepOf('a', 1), stepOf('a', 2, { nanos })]))).toBe(
        'conflict',
      )
    expect(await ledger.charges('a')).toEqual([])
  })

  test('mismatches are found: the sum of a call’s rows must equal its record', async () => {
    const { generations } = store()
    await generations.record([
      entryOf('fits', { nanos: 4_500n }),
      { ...stepOf('sum', 2, { nanos: 3n }), generation: finished('sum', 5n) },
      stepOf('sum', 1, { nanos: 2n }),
      stepOf('goes on', 1, { nanos: 1n }),
      stepOf('less', 1, { nanos: 1n }),
      { generation: finished('less', 2n), charge: null },
      { generation: finished('not charged', 9n), charge: null },
      { generation: finished('free', 0n), charge: null },
      { generation: finished('unknown', null), charge: null },
      { generation: finished('nobody’s', 9n, { key_hash: null }), charge: null },
      { ...stepOf('charged', 1, { nanos: 6n }), generation: finished('charged', null) },
      { ...stepOf('for nothing', 1, { nanos: 0n }) },
    ])
    expect(sortedBy((await inspect()).unmatched, 'id')).toEqual([
      { id: 'charged', charged: 6n, recorded: null },
      { id: 'goes on', charged: 1n, recorded: null },
      { id: 'less', charged: 1n, recorded: 2n },
      { id: 'not charged', charged: null, recorded: 9n },
    ])
  })

  test('an inspection that throws rejects with its error, and the store works on', async () => {
    const { generations, ledger } = store()
    await generations.record([entryOf('a'), entryOf('b')])
    const seen: string[] = []
    const look = ledger.inspect(({ id }) => {
      seen.push(id)
      throw new Error('enough')
    })
    expect(await look.catch(({ message }) => message)).toBe('enough')
    expect(seen).toEqual(['a'])
    await generations.record([entryOf('c')])
    expect((await inspect()).rows.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
  })

  test('an inspection sees one snapshot, whatever is written meanwhile', async () => {
    const { generations } = store()
    await generations.record([entryOf('a'), entryOf('b')])
    const looking = inspect()
    const writing = Array.from({ length: 20 }, (_, i) => generations.record([entryOf(`w${i}`)]))
    const { rows, spend, unmatched } = await looking
    await Promise.all(writing)
    expect(rows.reduce((sum, { nanos }) => sum + nanos, 0n)).toBe(spend[0]?.nanos ?? 0n)
    expect(unmatched).toEqual([])
  })
}
