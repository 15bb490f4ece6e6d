import { expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { requireValid } from '../../src/base/body.ts'
import { findQuantile } from '../../src/observability/analytics/metrics.ts'
import { AnalyticsQuery } from '../../src/observability/analytics/query.ts'
import { getAnalyticsMeta, queryAnalytics } from '../../src/observability/analytics.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { evictRows } from '../../src/observability/retention.ts'
import { summarizeUsage } from '../../src/observability/usage.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { buildGeneration } from '../support/generation.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { createRandomCalls } from '../support/random-calls.ts'

const NOW = '2026-03-12T10:30:00.000Z'

async function openHistory(calls: Partial<Generation>[]): Promise<Gateway> {
  const gateway = await testGateway({ clock: new TestClock(NOW) })
  for (const [i, call] of calls.entries()) {
    const generation = buildGeneration({ id: `gen-${String(i).padStart(6, '0')}`, ...call })
    await gateway.store.generations.record([{ generation, charge: null }])
  }
  return gateway
}

const ask = async (gateway: Gateway, query: AnalyticsQuery, actor?: Actor) =>
  (await queryAnalytics(gateway, actor ?? getOperator(gateway), query)).data
const at = (time: string) => ({ created_at: time, settled_at: time })
const range = (start: string, end: string) => ({ time_range: { start, end } })

test('every metric and dimension that is listed can be asked for', async () => {
  const gateway = await openHistory([at('2026-03-11T10:00:00.000Z')])
  const { data } = getAnalyticsMeta(gateway, getOperator(gateway))
  for (const { name } of data.metrics) {
    const [row] = (await ask(gateway, { metrics: [name] })).data
    expect([name, Object.keys(row ?? {})]).toEqual([name, [name]])
  }
  for (const { name } of data.dimensions)
    for (const { name: operator, value_type } of data.operators) {
      const value = value_type === 'array' ? ['zzz'] : 'zzz'
      const query = { metrics: ['request_count'], dimensions: [name] }
      const rows = (await ask(gateway, { ...query, filters: [{ field: name, operator, value }] }))
        .data
      const isOther = ['neq', 'not_in', 'lt', 'lte'].includes(operator)
      expect([name, operator, rows.length]).toEqual([name, operator, isOther ? 1 : 0])
    }
  for (const { name } of data.granularities) {
    const [row] = (await ask(gateway, { metrics: ['request_count'], granularity: name })).data
    expect(Object.keys(row ?? {})).toEqual([`date__${name}`, 'request_count'])
  }
})

test('parts of time begin where they should, and weeks on Mondays', async () => {
  const gateway = await openHistory([at('2026-03-11T09:59:59.999Z')])
  const date = async (granularity: string) =>
    Object.values(
      (await ask(gateway, { metrics: ['request_count'], granularity })).data[0] ?? {},
    )[0]
  expect(await date('minute')).toBe('2026-03-11T09:59:00Z')
  expect(await date('hour')).toBe('2026-03-11T09:00:00Z')
  expect(await date('day')).toBe('2026-03-11')
  expect(await date('week')).toBe('2026-03-09')
  expect(await date('month')).toBe('2026-03-01')
})

test('a time that begins and ends within an hour, a day or beyond has exactly its calls', async () => {
  const times = ['10:00:00.000', '10:29:59.999', '10:30:00.000', '11:00:00.000']
  const days = ['2026-03-09', '2026-03-10', '2026-03-11']
  const all = days.flatMap(day => times.map(time => `${day}T${time}Z`))
  const gateway = await openHistory(all.map(at))
  const edges = [...all, '2026-03-09T00:00:00.000Z', '2026-03-12T00:00:00.000Z'].sort()
  for (const start of edges)
    for (const end of edges.filter(edge => edge > start)) {
      const [row] = (await ask(gateway, { metrics: ['request_count'], ...range(start, end) })).data
      const expected = all.filter(time => time >= start && time < end).length
      expect([start, end, row?.request_count ?? 0]).toEqual([start, end, expected])
    }
})

test('after retention an hour is told whole, and what only records have is said to be missing', async () => {
  const times = ['10:10:00.000', '10:50:00.000', '11:20:00.000']
  const all = ['2026-03-09', '2026-03-11'].flatMap(day => times.map(time => `${day}T${time}Z`))
  const gateway = await openHistory(all.map(at))
  gateway.config = {
    ...gateway.config,
    retention: { ...gateway.config.retention, generations_days: 2 },
  }
  await evictRows(gateway)
  const count = async (start: string, end: string, more: object = {}) => {
    const { data, warnings } = await ask(gateway, {
      metrics: ['request_count'],
      ...range(start, end),
      ...more,
    })
    return [data.reduce((sum, row) => sum + Number(row.request_count), 0), warnings?.length ?? 0]
  }
  // Records are complete from 2026-03-10 on.
  expect(await count('2026-03-09T10:00:00Z', '2026-03-09T11:00:00Z')).toEqual([2, 0])
  expect(await count('2026-03-09T10:30:00Z', '2026-03-09T11:00:00Z')).toEqual([2, 1])
  expect(await count('2026-03-09T10:00:00Z', '2026-03-09T10:20:00Z')).toEqual([2, 1])
  expect(await count('2026-03-09T10:55:00Z', '2026-03-09T10:56:00Z')).toEqual([2, 1])
  expect(await count('2026-03-09T10:30:00Z', '2026-03-11T10:30:00Z')).toEqual([4, 1])
  expect(await count('2026-03-11T10:30:00Z', '2026-03-11T11:30:00Z')).toEqual([2, 0])
  for (const more of [{ dimensions: ['finish_reason'] }, { granularity: 'minute' }]) {
    expect(await count('2026-03-09T00:00:00Z', '2026-03-10T00:00:00Z', more)).toEqual([0, 1])
    expect(await count('2026-03-10T00:00:00Z', '2026-03-12T00:00:00Z', more)).toEqual([3, 0])
  }
  const usage = await summarizeUsage(gateway, { until: '2026-03-09T10:20:00Z' })
  expect(usage).toMatchObject({ total: { calls: 2 }, warnings: [expect.stringContaining('whole')] })
})

/** What a row should have, counted from the records one by one. */
function recount(calls: Generation[]) {
  const money = (read: (call: Generation) => bigint | null) =>
    Number(calls.reduce((sum, call) => sum + (read(call) ?? 0n), 0n)) / 1e9
  const times = calls.flatMap(call => call.latency ?? call.generation_time ?? [])
  times.sort((a, b) => a - b)
  return {
    request_count: calls.length,
    tokens_prompt: calls.reduce((sum, call) => sum + call.native_tokens_prompt, 0),
    credits_usage: money(call => call.total_cost),
    byok_usage: money(call => (call.is_byok ? call.upstream_inference_cost : 0n)),
    error_count: calls.filter(call => call.error_type !== null && !call.cancelled).length,
    p90_latency: findQuantile(0.9, times),
  }
}

const READERS: Record<string, (call: Generation) => string> = {
  model: call => call.model,
  provider: call => call.provider_name ?? '',
  variant: call => call.model.split(':')[1] ?? 'standard',
  finish_reason: call => call.finish_reason ?? '',
  streamed: call => String(call.streamed),
  session_id: call => call.session_id ?? 'none',
}

test('random queries answer what a recount of the records says', async () => {
  const integers = createSeededIntegers(SEED)
  const calls = Array.from({ length: LONG ? 3_000 : 250 }, createRandomCalls(integers))
  const gateway = await openHistory(calls)
  const begin = Date.parse('2026-02-20T00:00:00.000Z')
  const names = Object.keys(READERS)
  const pick = <T>(from: T[]) => from[integers(from.length)] as T
  for (let i = 0; i < (LONG ? 2_000 : 60); i++) {
    const from = begin + integers(20 * 86_400_000)
    const until = from + 1 + integers(25 * 86_400_000)
    const isAligned = integers(2) === 0
    const [start, end] = [from, until + 3_600_000].map(moment =>
      new Date(isAligned ? moment - (moment % 3_600_000) : moment).toISOString(),
    ) as [string, string]
    const dimensions = integers(3) === 0 ? [] : [pick(names)]
    const isMeasured = integers(3) === 0
    const field = pick(names)
    const value = READERS[field]?.(pick(calls)) ?? ''
    const granularity = integers(2) === 0 ? 'day' : undefined
    const isFiltered = integers(2) === 0
    const { data } = await ask(gateway, {
      metrics: Object.keys(recount([])).filter(name => isMeasured || name !== 'p90_latency'),
      dimensions,
      filters: isFiltered ? [{ field, operator: 'neq', value }] : [],
      ...(granularity ? { granularity } : {}),
      limit: 10_000,
      ...range(start, end),
    })
    const counted = calls.filter(
      call =>
        call.settled_at >= start &&
        call.settled_at < end &&
        !(isFiltered && READERS[field]?.(call) === value),
    )
    checkRows(data, counted, dimensions, granularity)
  }
})

/** Compares rows with a recount of the calls that they are of. */
function checkRows(
  rows: Record<string, unknown>[],
  counted: Generation[],
  dimensions: string[],
  granularity: string | undefined,
): void {
  const groups = Map.groupBy(counted, call =>
    JSON.stringify([
      ...(granularity ? [call.settled_at.slice(0, 10)] : []),
      ...dimensions.map(name => READERS[name]?.(call)),
    ]),
  )
  const expected = new Map([...groups].map(([name, of]) => [name, recount(of)]))
  expect(rows.length).toBe(expected.size)
  for (const row of rows) {
    const name = JSON.stringify([
      ...(granularity ? [row.date__day] : []),
      ...dimensions.map(dimension => row[dimension]),
    ])
    const { request_count, ...shown } = expected.get(name) ?? recount([])
    expect(row).toMatchObject({ request_count })
    for (const [metric, value] of Object.entries(shown))
      if (metric in row) expect([metric, row[metric]]).toEqual([metric, value])
  }
}

test('rows are ordered, limited, and said to be cut off', async () => {
  const gateway = await openHistory([
    { model: 'acme/a', total_cost: 1n, ...at('2026-03-10T10:00:00.000Z') },
    { model: 'acme/a', total_cost: 5n, ...at('2026-03-11T10:00:00.000Z') },
    { model: 'acme/b', total_cost: 3n, ...at('2026-03-11T10:00:00.000Z') },
  ])
  const list = async (query: Partial<AnalyticsQuery>) => {
    const { data, metadata } = await ask(gateway, {
      metrics: ['credits_usage'],
      dimensions: ['model'],
      ...query,
    })
    expect(metadata.row_count).toBe(data.length)
    return [...data.map(row => `${row.date__day ?? ''}${row.model}`), metadata.truncated]
  }
  expect(await list({})).toEqual(['acme/a', 'acme/b', false])
  expect(await list({ limit: 1 })).toEqual(['acme/a', true])
  const order = (field: string, direction: 'asc' | 'desc') => ({ order_by: { field, direction } })
  expect(await list(order('credits_usage', 'asc'))).toEqual(['acme/b', 'acme/a', false])
  expect(await list(order('model', 'desc'))).toEqual(['acme/b', 'acme/a', false])
  expect(await list(order('request_count', 'asc'))).toEqual(['acme/b', 'acme/a', false])
  const series = { granularity: 'day' }
  expect(await list(series)).toEqual([
    '2026-03-11acme/a',
    '2026-03-11acme/b',
    '2026-03-10acme/a',
    false,
  ])
  expect(await list({ ...series, ...order('date', 'asc') })).toEqual([
    '2026-03-10acme/a',
    '2026-03-11acme/a',
    '2026-03-11acme/b',
    false,
  ])
  expect(await list({ ...series, group_limit: 1 })).toEqual([
    '2026-03-11acme/a',
    '2026-03-11acme/b',
    true,
  ])
})

test('calls without a key match lists only where they are asked for', async () => {
  const gateway = await openHistory([
    { key_hash: null, ...at('2026-03-11T10:00:00.000Z') },
    { key_hash: 'k1', ...at('2026-03-11T10:00:00.000Z') },
  ])
  const count = async (operator: string, value: string[], include_unset?: boolean) => {
    const filter = { field: 'api_key_id', operator, value }
    const filters = [{ ...filter, ...(include_unset === undefined ? {} : { include_unset }) }]
    const { data, warnings } = await ask(gateway, { metrics: ['request_count'], filters })
    return [data[0]?.request_count ?? 0, warnings?.length ?? 0]
  }
  expect(await count('in', ['k1'])).toEqual([1, 1])
  expect(await count('in', ['k1'], true)).toEqual([2, 1])
  expect(await count('not_in', ['k2'])).toEqual([1, 1])
  expect(await count('not_in', ['k2'], true)).toEqual([2, 1])
})

test('a key of another workspace sees the calls of that one only', async () => {
  const [mine, theirs] = ['w-mine', 'w-theirs']
  const time = at('2026-03-11T10:00:00.000Z')
  const gateway = await openHistory([
    { workspace_id: mine, ...time },
    { workspace_id: theirs, ...time },
  ])
  const actor: Actor = { kind: 'management', user_id: 'u', workspace_id: mine, key_hash: 'k' }
  for (const metric of ['request_count', 'avg_latency']) {
    const query = { metrics: [metric], dimensions: ['workspace'] }
    expect((await ask(gateway, query, actor)).data).toMatchObject([{ workspace: mine }])
    expect((await ask(gateway, query)).data).toHaveLength(2)
  }
})

const FINE = { metrics: ['request_count'] }
test.each<[string, object]>([
  ['metrics', { metrics: [] }],
  ['metrics', { metrics: ['nothing'] }],
  ['metrics', { metrics: ['constructor'] }],
  ['dimensions', { dimensions: ['nothing'] }],
  ['dimensions', { dimensions: ['model', 'model'] }],
  ['dimensions', { dimensions: ['model', 'app', 'user'] }],
  ['granularity', { granularity: 'year' }],
  ['time_range', range('2026-03-11T00:00:00Z', '2026-03-10T00:00:00Z')],
  ['time_range', range('2026-03-11T00:00:00Z', '2026-03-11T00:00:00Z')],
  ['time_range', range('1926-03-11T00:00:00Z', '2026-03-10T00:00:00Z')],
  ['time_range', range('2026-03-10T00:00:00+02:00', '2026-03-11T00:00:00+02:00')],
  ['time_range', range('2026-03-10T00:00Z', '2026-03-11T00:00Z')],
  ['time_range', { ...range('2026-01-10T00:00:00Z', '2026-03-11T00:00:00Z'), granularity: 'hour' }],
  [
    'time_range',
    { ...range('2026-01-10T00:00:00Z', '2026-03-11T00:00:00Z'), dimensions: ['skin'] },
  ],
  ['group_limit', { group_limit: 1_000_000 }],
  ['group_limit', { group_limit: 0 }],
  ['limit', { limit: -1 }],
  ['limit', { limit: 1.5 }],
  ['order_by', { order_by: { field: 'tokens_total', direction: 'asc' } }],
  ['order_by', { order_by: { field: 'date', direction: 'asc' } }],
  ['order_by', { order_by: { field: 'request_count', direction: 'up' } }],
  ['filters', { filters: [{ field: 'nothing', operator: 'eq', value: 'a' }] }],
  ['filters', { filters: [{ field: 'model', operator: 'like', value: 'a' }] }],
  ['filters', { filters: [{ field: 'model', operator: 'toString', value: 'a' }] }],
  ['filters', { filters: [{ field: 'model', operator: 'eq', value: ['a'] }] }],
  ['filters', { filters: [{ field: 'model', operator: 'in', value: 'a' }] }],
  ['filters', { filters: [{ field: 'model', operator: 'in', value: [], include_unset: true }] }],
  ['filters', { filters: [{ field: 'user', operator: 'eq', value: 'a', include_unset: true }] }],
  [
    'classifier_filters',
    {
      classifier_filters: {
        classifier_id: crypto.randomUUID(),
        filters: [{ field: 'a', operator: 'eq', value: 'b' }],
      },
    },
  ],
  ['classifier_dimensions', { classifier_dimensions: { classifier_id: crypto.randomUUID() } }],
  ['nothing', { nothing: 1 }],
])('a wrong %s is a 400: %j', async (field, change) => {
  const gateway = await openHistory([])
  const refused = (async () => ask(gateway, requireValid(AnalyticsQuery, { ...FINE, ...change })))()
  await expect(refused).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining(field),
  })
})

test('a query that takes longer than the config allows is a 408', async () => {
  const clock = new TestClock(NOW)
  const gateway = await testGateway({ clock, config: { timeouts: { query_seconds: 2 } } })
  const { rollups } = gateway.store
  const slow = {
    ...gateway,
    store: {
      ...gateway.store,
      rollups: {
        ...rollups,
        listCalls: async () => {
          clock.pass(1_500)
          return rollups.listCalls(0, 1, 1)
        },
        findRows: async () => ({ first: 1, last: 9 }),
      },
    },
  }
  const generation = buildGeneration(at('2026-03-11T10:00:00.000Z'))
  await gateway.store.generations.record([{ generation, charge: null }])
  const asked = queryAnalytics(slow, getOperator(gateway), { metrics: ['p99_throughput'] })
  await expect(asked).rejects.toMatchObject({ status: 408 })
})
