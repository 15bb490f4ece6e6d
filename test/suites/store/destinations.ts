import { beforeEach, expect, test } from 'bun:test'
import type { Destination } from '../../../src/observability/destinations/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { buildRecordEntry } from '../../support/generation.ts'
import {
  CREATED,
  countAudit,
  type GetStore,
  readErrorType,
  readRefusal,
  WORKSPACE,
} from './rows.ts'

const LATER = '2026-03-05T00:00:00.000Z'
const MOST = 5

const buildDestination = (id: string, more: Partial<Destination> = {}): Destination => ({
  id,
  workspace_id: WORKSPACE,
  type: 'webhook',
  name: 'hook “𝄞”',
  sealed: 'sealed',
  enabled: true,
  paused_at: null,
  api_key_hashes: null,
  regions: ['global'],
  broadcast_generation_cost: false,
  broadcast_generation_identity: false,
  broadcast_generation_request_context: false,
  filter_rules: null,
  privacy_mode: false,
  sampling_rate: 1,
  created_at: CREATED,
  updated_at: CREATED,
  ...more,
})

/** Tests what every store promises about destinations and what waits for them. */
export function testDestinations(store: GetStore): void {
  let calls = 0
  beforeEach(() => {
    calls = 0
  })
  const insert = (destination: Destination, most = MOST) =>
    store().destinations.insert(destination, most, buildAuditEntry())
  /** Records calls with a message each for these receivers. */
  const record = async (count: number, ...receivers: string[]) => {
    for (let i = 0; i < count; i++)
      await store().generations.record([
        {
          ...buildRecordEntry(`call-${calls++}`),
          outbox: [{ topic: 'trace', payload: 'x'.repeat(10), receivers }],
        },
      ])
  }
  /** Records calls in one transaction, with a message each for these receivers. */
  const recordTogether = async (count: number, ...receivers: string[]) => {
    const entries = Array.from({ length: count }, () => {
      const id = `call-${calls++}`
      const outbox = [{ topic: 'trace', payload: `of ${id}`, receivers }]
      return { ...buildRecordEntry(id), outbox }
    })
    await store().generations.record(entries)
  }
  const listRange = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, i) => from + i)
  const countOf = async (id: string) =>
    (await store().deliveries.count()).find(({ destination_id }) => destination_id === id)
  const sequencesOf = async (id: string) =>
    (await store().deliveries.listWaiting(id, 0, 100, 1_000_000)).map(({ sequence }) => sequence)
  const pending = async () =>
    (await store().outbox.listPending(100)).map(({ sequence }) => sequence)

  test('a destination is read as inserted, and as changed, until it is removed', async () => {
    const { destinations } = store()
    const full = buildDestination('d1', {
      paused_at: LATER,
      api_key_hashes: ['a'.repeat(64)],
      regions: ['europe', 'us'],
      filter_rules: { groups: [{ rules: [{ field: 'model', operator: 'exists' }] }] },
      sampling_rate: 0.0001,
      privacy_mode: true,
      broadcast_generation_identity: true,
    })
    await insert(full)
    await insert(buildDestination('d2'))
    expect(await destinations.all()).toEqual([full, buildDestination('d2')])
    const change = { name: 'other', filter_rules: null, api_key_hashes: null, enabled: false }
    await destinations.update('d1', change, buildAuditEntry())
    expect(await destinations.all()).toEqual([{ ...full, ...change }, buildDestination('d2')])
    const before = await countAudit(store())
    await destinations.remove('d1', LATER, buildAuditEntry())
    expect(await destinations.all()).toEqual([buildDestination('d2')])
    expect(await countAudit(store())).not.toEqual(before)
  })

  test('more of a type than allowed, an id that exists and a missing workspace are refused', async () => {
    for (let i = 0; i < MOST; i++) await insert(buildDestination(`d${i}`))
    expect(await readErrorType(insert(buildDestination('d9')))).toBe('conflict')
    await insert(buildDestination('s1', { type: 's3' }))
    expect(await readErrorType(insert(buildDestination('s1', { type: 'sentry' })))).toBe('conflict')
    await store().destinations.remove('d0', LATER, buildAuditEntry())
    await insert(buildDestination('d9'))
    const homeless = buildDestination('x', { workspace_id: 'nowhere' })
    expect(await readRefusal(insert(homeless))).toContain('workspace_id')
  })

  test('messages wait for each receiver, in order and in parts that fit', async () => {
    const { deliveries } = store()
    await record(5, 'a', 'b')
    await record(1, 'b')
    expect([await sequencesOf('a'), await sequencesOf('b')]).toEqual([
      [1, 2, 3, 4, 5],
      [1, 2, 3, 4, 5, 6],
    ])
    const listed = async (after: number, limit: number, bytes: number) =>
      (await deliveries.listWaiting('b', after, limit, bytes)).map(({ sequence }) => sequence)
    expect([await listed(2, 2, 100), await listed(0, 9, 25), await listed(0, 9, 1)]).toEqual([
      [3, 4],
      [1, 2],
      [1],
    ])
    expect((await deliveries.listWaiting('a', 4, 1, 100))[0]).toEqual({
      sequence: 5,
      generation_id: 'call-4',
      payload: new TextEncoder().encode('xxxxxxxxxx'),
      created_at: '2026-03-04T05:06:08.000Z',
      bytes: 10,
    })
    expect(await countOf('b')).toMatchObject({ waiting: 6, bytes: 60, delivered: 0 })
  })

  test('messages of one transaction are read each by itself, in order, in parts that fit', async () => {
    const { deliveries, outbox } = store()
    await record(1, 'a')
    await recordTogether(40, 'a', 'b')
    await record(1, 'b')
    expect(await sequencesOf('a')).toEqual(listRange(1, 41))
    expect(await sequencesOf('b')).toEqual(listRange(2, 42))
    expect(await countOf('a')).toMatchObject({ waiting: 41 })
    // Page by page, whatever the size of a page: none is left out, and none comes twice.
    for (const limit of [1, 5, 7, 16, 17, 33]) {
      const read: number[] = []
      for (let after = 0; ; after = read.at(-1) ?? 0) {
        const rows = await deliveries.listWaiting('b', after, limit, 1_000_000)
        if (rows.length === 0) break
        expect(rows.length).toBeLessThanOrEqual(limit)
        for (const { sequence, generation_id, payload, bytes } of rows) {
          if (sequence < 42)
            expect([generation_id, new TextDecoder().decode(payload)]).toEqual([
              `call-${sequence - 1}`,
              `of call-${sequence - 1}`,
            ])
          expect(bytes).toBe(payload.length)
          read.push(sequence)
        }
      }
      expect(read).toEqual(listRange(2, 42))
    }
    expect(await deliveries.listWaiting('b', 3, 9, 20)).toHaveLength(2)
    expect(await deliveries.listWaiting('b', 3, 9, 1)).toHaveLength(1)
    expect((await outbox.listPending(99)).map(({ sequence }) => sequence)).toEqual(listRange(1, 42))
  })

  test('messages of one transaction are settled each by itself', async () => {
    const { deliveries } = store()
    await recordTogether(16, 'a', 'b')
    const bytes = (numbers: number[]) =>
      numbers.reduce((sum, number) => sum + `of call-${number - 1}`.length, 0)
    const all = bytes(listRange(1, 16))
    expect(await deliveries.finish('a', [2, 3, 99], LATER)).toEqual({
      ...{ destination_id: 'a', count: 2, bytes: bytes([2, 3]) },
    })
    expect(await deliveries.skip('a', [3, 4])).toMatchObject({ count: 1, bytes: bytes([4]) })
    expect(await sequencesOf('a')).toEqual([1, ...listRange(5, 16)])
    expect(await countOf('b')).toMatchObject({ waiting: 16, bytes: all })
    const refusal = { reason: 'It answered 401', status: 401, failed_at: LATER }
    expect(await deliveries.fail('a', [5], refusal, 9)).toMatchObject({ bytes: bytes([5]) })
    expect((await deliveries.listFailed('a', 0, 9)).rows).toMatchObject([
      { sequence: 5, generation_id: 'call-4', bytes: bytes([5]) },
    ])
    // What b has of them is not touched, and goes with the last that waits for it.
    expect(await sequencesOf('b')).toEqual(listRange(1, 16))
    expect(await deliveries.finish('b', listRange(1, 16), LATER)).toMatchObject({
      ...{ count: 16, bytes: all },
    })
    expect(await pending()).toEqual([1, ...listRange(5, 16)])
    await deliveries.replay('a')
    expect(await deliveries.drop('a', 4)).toMatchObject({ count: 4 })
    expect(await pending()).toEqual(listRange(8, 16))
  })

  test('all messages of one transaction leave, fail or are dropped at once', async () => {
    const { deliveries } = store()
    await recordTogether(32, 'a')
    expect(await deliveries.drop('a', 5)).toMatchObject({ count: 5 })
    expect(await deliveries.finish('a', listRange(1, 16), LATER)).toMatchObject({ count: 11 })
    expect(await pending()).toEqual(listRange(17, 32))
    const refusal = { reason: 'It answered 401', status: 401, failed_at: LATER }
    expect(await deliveries.fail('a', listRange(17, 32), refusal, 9)).toMatchObject({ count: 16 })
    expect(await countOf('a')).toMatchObject({ waiting: 0, bytes: 0, failed: 9, dropped: 12 })
    expect(await pending()).toEqual(listRange(24, 32))
    await recordTogether(3, 'a')
    await insert(buildDestination('a'))
    await store().destinations.remove('a', LATER, buildAuditEntry())
    expect(await pending()).toEqual([])
    await recordTogether(20, 'b')
    let dropped = 0
    while (dropped < 20) {
      const [taken] = await deliveries.dropOldest(1)
      dropped += taken?.count ?? 99
    }
    expect(await countOf('b')).toMatchObject({ waiting: 0, bytes: 0, dropped: 20 })
    expect(await pending()).toEqual([])
  })

  test('the oldest are dropped in turns, however many there are, and of all receivers', async () => {
    const { deliveries } = store()
    await record(45, 'a', 'b')
    const dropped: number[] = []
    for (;;) {
      const taken = await deliveries.dropOldest(200)
      if (taken.length === 0) break
      dropped.push(taken.reduce((sum, { count }) => sum + count, 0))
      const left = Math.max(...(await deliveries.count()).map(({ waiting }) => waiting))
      expect(await pending()).toEqual(listRange(46 - left, 45))
    }
    expect(dropped.reduce((sum, count) => sum + count, 0)).toBe(90)
    expect(await countOf('a')).toMatchObject({ waiting: 0, bytes: 0, dropped: 45 })
    expect(await countOf('b')).toMatchObject({ waiting: 0, bytes: 0, dropped: 45 })
  })

  test('what is settled is counted once, and a message goes with its last receiver', async () => {
    const { deliveries } = store()
    await record(4, 'a', 'b')
    expect(await deliveries.finish('a', [1, 2, 99], LATER)).toEqual({
      destination_id: 'a',
      count: 2,
      bytes: 20,
    })
    expect(await deliveries.finish('a', [1, 2], LATER)).toMatchObject({ count: 0, bytes: 0 })
    expect(await deliveries.skip('b', [1])).toMatchObject({ count: 1 })
    expect(await pending()).toEqual([2, 3, 4])
    expect(await deliveries.drop('b', 2)).toMatchObject({ count: 2, bytes: 20 })
    expect(await pending()).toEqual([3, 4])
    await record(1, 'c')
    expect(await deliveries.dropOldest(2)).toEqual([{ destination_id: 'a', count: 2, bytes: 20 }])
    await deliveries.noteError('c', 'It answered 500', LATER)
    expect(await deliveries.count()).toEqual([
      {
        ...{ destination_id: 'a', waiting: 0, bytes: 0, failed: 0 },
        ...{ delivered: 2, skipped: 0, dropped: 2 },
        ...{ last_success_at: LATER, last_error_at: null, last_error: null },
      },
      {
        ...{ destination_id: 'b', waiting: 1, bytes: 10, failed: 0 },
        ...{ delivered: 0, skipped: 1, dropped: 2 },
        ...{ last_success_at: null, last_error_at: null, last_error: null },
      },
      {
        ...{ destination_id: 'c', waiting: 1, bytes: 10, failed: 0 },
        ...{ delivered: 0, skipped: 0, dropped: 0 },
        ...{ last_success_at: null, last_error_at: LATER, last_error: 'It answered 500' },
      },
    ])
  })

  test('what failed is kept apart up to a bound, waits again, or is dropped', async () => {
    const { deliveries } = store()
    await record(4, 'a')
    const refusal = { reason: 'It answered 401', status: 401, failed_at: LATER }
    expect(await deliveries.fail('a', [1, 2], refusal, 2)).toMatchObject({ count: 2, bytes: 20 })
    await deliveries.fail('a', [3], { ...refusal, status: null, failed_at: `${LATER}x` }, 2)
    expect(await countOf('a')).toMatchObject({ waiting: 1, failed: 2, dropped: 1 })
    expect(await deliveries.countFailed()).toEqual(new Map([['a', 2]]))
    expect(await deliveries.listFailed('a', 1, 5)).toEqual({
      rows: [
        {
          ...{ sequence: 3, generation_id: 'call-2', bytes: 10, ...refusal },
          ...{ status: null, failed_at: `${LATER}x` },
        },
      ],
      total: 2,
    })
    await deliveries.replay('a')
    expect(await sequencesOf('a')).toEqual([2, 3, 4])
    await deliveries.fail('a', [2, 4], refusal, 2)
    await deliveries.dropFailed('a')
    expect(await countOf('a')).toMatchObject({ waiting: 1, failed: 0, dropped: 3 })
    expect(await pending()).toEqual([3])
  })

  test('everything of a destination goes with it', async () => {
    const { deliveries } = store()
    await insert(buildDestination('a'))
    await record(2, 'a', 'b')
    await record(1, 'a')
    await deliveries.fail('a', [1], { reason: '', status: null, failed_at: LATER }, 9)
    await store().destinations.remove('a', LATER, buildAuditEntry())
    expect(await countOf('a')).toBeUndefined()
    expect([await sequencesOf('b'), await pending()]).toEqual([
      [1, 2],
      [1, 2],
    ])
  })
}
