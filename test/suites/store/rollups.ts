import { expect, test } from 'bun:test'
import type { Generation } from '../../../src/observability/generations/store.ts'
import { rollUp, type SumQuery } from '../../../src/observability/rollups.ts'
import { buildDefaultWorkspace } from '../../../src/resources/workspaces.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { buildGeneration } from '../../support/generation.ts'
import { buildKey, CREATED, type GetStore } from './rows.ts'

const DAY = 20_516
const WHOLE: SumQuery = {
  grain: 'day',
  from: DAY,
  until: DAY + 2,
  by: [],
  isByTime: false,
  conditions: [],
}

/** Tests what every store promises about roll-ups. */
export function testRollups(store: GetStore): void {
  const record = (...calls: Partial<Generation>[]) =>
    store().generations.record(
      calls.map(call => ({ generation: buildGeneration(call), charge: null })),
    )
  const settled = (day: number, hour: number) =>
    `2026-03-0${day}T${String(hour).padStart(2, '0')}:59:59.999Z`

  test('calls are in the roll-ups once, from when they are rolled up', async () => {
    const { rollups } = store()
    await record({ id: 'a', settled_at: settled(4, 5) }, { id: 'b', settled_at: settled(4, 6) })
    expect(await rollups.sum(WHOLE)).toEqual([])
    await rollUp({ store: store() })
    expect(await rollups.advance(5)).toBe(0)
    const [row, ...others] = await rollups.sum(WHOLE)
    expect(others).toEqual([])
    expect(row).toMatchObject({ start: null, values: [] })
    expect(row?.sums).toEqual({
      calls: 2,
      byok_calls: 0,
      failed_calls: 0,
      cancelled_calls: 0,
      filtered_calls: 0,
      prompt_tokens: 20,
      completion_tokens: 10,
      reasoning_tokens: 4,
      cached_tokens: 6,
      cost: 9_000n,
      byok_cost: 0n,
      upstream_cost: 9_000n,
    })
    expect(await rollups.verify()).toEqual([])
  })

  test('of calls that have to be read no more are added at once than asked for', async () => {
    const { rollups } = store()
    await record({ id: 'a' }, { id: 'b' }, { id: 'c' })
    await rollUp({ store: store() })
    await rollups.reset()
    expect([await rollups.advance(2), await rollups.advance(2), await rollups.advance(2)]).toEqual([
      2, 1, 0,
    ])
    expect(await rollups.verify()).toEqual([])
  })

  test('money is exact where a double is not', async () => {
    const total_cost = 9_007_199_254_740_993n
    await record({ id: 'a', total_cost }, { id: 'b', total_cost: 2n })
    await rollUp({ store: store() })
    expect((await store().rollups.sum(WHOLE))[0]?.sums.cost).toBe(total_cost + 2n)
  })

  test('sums have the dimensions, times and conditions that are asked for', async () => {
    const { rollups } = store()
    const byok = { is_byok: true, upstream_inference_cost: 7n, total_cost: 0n }
    await record(
      { id: 'a', settled_at: settled(4, 23), key_hash: 'k1', model: 'acme/one:free' },
      { id: 'b', settled_at: settled(5, 0), key_hash: null, ...byok },
      { id: 'c', settled_at: settled(5, 0), provider_name: null, provider_responses: [] },
    )
    await rollUp({ store: store() })
    const ask = async (query: Partial<SumQuery>) =>
      (await rollups.sum({ ...WHOLE, ...query }))
        .map(({ start, values, sums }) => [start, ...values, sums.calls])
        .sort()
    expect(await ask({ isByTime: true })).toEqual([
      [DAY, 1],
      [DAY + 1, 2],
    ])
    const hours = { grain: 'hour', from: DAY * 24, until: DAY * 24 + 25 } as const
    expect(await ask({ ...hours, isByTime: true })).toEqual([
      [DAY * 24 + 23, 1],
      [DAY * 24 + 24, 2],
    ])
    expect(await ask({ by: ['variant'] })).toEqual([
      [null, 'free', 1],
      [null, 'standard', 2],
    ])
    expect(await ask({ by: ['key_hash', 'is_byok'] })).toEqual([
      [null, '', '1', 1],
      [null, 'k', '0', 1],
      [null, 'k1', '0', 1],
    ])
    expect(await ask({ by: ['endpoint_id', 'provider_name'] })).toEqual([
      [null, '', '', 1],
      [null, 'local/up', 'Local', 2],
    ])
    const where = (
      comparison: 'in' | 'not_in' | 'eq' | 'neq' | 'gt' | 'lte',
      ...values: string[]
    ) => ask({ conditions: [{ dimension: 'key_hash', comparison, values }] })
    expect(await where('eq', 'k1')).toEqual([[null, 1]])
    expect(await where('neq', 'k1')).toEqual([[null, 2]])
    expect(await where('in', 'k1', '')).toEqual([[null, 2]])
    expect(await where('not_in', 'k1', '')).toEqual([[null, 1]])
    expect(await where('gt', 'k')).toEqual([[null, 1]])
    expect(await where('lte', 'k')).toEqual([[null, 2]])
    expect(await where('in')).toEqual([])
    expect(await ask({ from: DAY + 1, by: ['model'] })).toEqual([[null, 'acme/small', 2]])
  })

  test('the rows of hours are found, and read in slices', async () => {
    const { rollups } = store()
    const hours = [5, 6, 5, 7]
    expect(await rollups.findHours()).toBeNull()
    await record(...hours.map((hour, i) => ({ id: `g${i}`, settled_at: settled(4, hour) })))
    await rollUp({ store: store() })
    const found = await rollups.findRows(DAY * 24 + 5, DAY * 24 + 6)
    const { first = 0, last = 0 } = found ?? {}
    expect(await rollups.findHours()).toEqual({ first: DAY * 24 + 5, last: DAY * 24 + 7 })
    const read = await rollups.listCalls(first - 1, last, 10)
    expect(read.map(({ id }) => id)).toEqual(['g0', 'g1', 'g2'])
    expect((await rollups.listCalls(first, last, 1)).map(({ id }) => id)).toEqual(['g1'])
    expect(await rollups.findRows(DAY * 24 + 8, DAY * 24 + 9)).toBeNull()
    expect(read[0]).toMatchObject({ key_hash: 'k', endpoint_id: 'local/up', total_cost: 4_500n })
  })

  test('apps have stable ids, and no two share a slug', async () => {
    const { rollups } = store()
    await record(
      { id: 'a', http_referer: 'https://a.example/', title: 'First' },
      { id: 'b', http_referer: 'https://www.a.example', title: 'Second' },
      { id: 'c', http_referer: null, title: 'A example' },
      { id: 'd', http_referer: null, title: null },
    )
    await rollUp({ store: store() })
    const apps = await rollups.listApps()
    expect(apps).toEqual([
      { id: 1, identity: 'address a.example', name: 'First', slug: 'a-example' },
      { id: 2, identity: 'title a example', name: 'A example', slug: 'a-example-2' },
    ])
    await rollups.reset()
    await rollUp({ store: store() })
    expect(await rollups.listApps()).toEqual(apps)
    expect(await rollups.sum({ ...WHOLE, by: ['app_id'] })).toHaveLength(3)
  })

  test('cells have the median of sessions of one app, model and range of turns', async () => {
    const { rollups } = store()
    const session = (id: string, costs: (bigint | null)[], more: Partial<Generation> = {}) =>
      costs.map((total_cost, i) => ({
        id: `${id}-${i}`,
        session_id: id,
        total_cost,
        http_referer: 'https://a.example',
        ...more,
      }))
    await record(
      ...session('one', [1n]),
      ...session('two', [2n]),
      ...session('three', [10n]),
      ...session('four', [5n, 6n]),
      ...session('unknown', [1n, null]),
      ...session('failed', [1n], { error_type: 'timeout' }),
      ...session('later', [9n], { settled_at: '2026-03-09T00:00:00.000Z' }),
      ...session('other', [4n], { http_referer: 'https://b.example' }),
      ...session('nobody', [4n], { http_referer: null, title: null }),
      { id: 'none', session_id: null },
    )
    await rollUp({ store: store() })
    // From Monday 2026-03-02 to Sunday 2026-03-08.
    const week = 2931
    const list = async (sessions: number, of = week) =>
      (await rollups.listSessionCells(of, { sessions, workspaces: 0, workspace_id: null })).map(
        ({ app, turn_range, sessions, median }) => [app.slug, turn_range, sessions, median],
      )
    expect(await list(1)).toEqual([
      ['a-example', '1-turn', 3, 2],
      ['a-example', '2-9-turns', 1, 11],
      ['b-example', '1-turn', 1, 4],
    ])
    expect(await list(3)).toEqual([['a-example', '1-turn', 3, 2]])
    expect(await list(1, week + 1)).toEqual([['a-example', '1-turn', 1, 9]])
  })

  test('cells are of the workspaces of the keys that still exist', async () => {
    const { keys, rollups, workspaces } = store()
    const second = { ...buildDefaultWorkspace('w2', 'user_1', new Date(CREATED)), slug: 'w2' }
    await workspaces.insertIfAbsent({ ...second, is_default: false })
    await keys.insert(buildKey({ hash: 'one' }), buildAuditEntry())
    await keys.insert(buildKey({ hash: 'two', workspace_id: 'w2' }), buildAuditEntry())
    const session = (session_id: string, key_hash: string, total_cost: bigint) => {
      const http_referer = 'https://a.example'
      return { id: session_id, session_id, key_hash, total_cost, http_referer }
    }
    await record(session('a', 'one', 1n), session('b', 'two', 3n), session('c', 'gone', 8n))
    await rollUp({ store: store() })
    const list = async (workspaces: number, workspace_id: string | null = null) =>
      (await rollups.listSessionCells(2931, { sessions: 1, workspaces, workspace_id })).map(
        ({ sessions, median }) => [sessions, median],
      )
    expect(await list(2)).toEqual([[3, 3]])
    expect(await list(3)).toEqual([])
    expect(await list(0, 'w2')).toEqual([[1, 3]])
    expect(await list(0, 'w3')).toEqual([])
  })
}
