import { beforeEach, expect, test } from 'bun:test'
import type { Destination } from '../../../src/core/destinations/store.ts'
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
      payload: 'xxxxxxxxxx',
      created_at: '2026-03-04T05:06:08.000Z',
      bytes: 10,
    })
    expect(await countOf('b')).toMatchObject({ waiting: 6, bytes: 60, delivered: 0 })
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
