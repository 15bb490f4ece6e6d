import { describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { requireValid } from '../../src/base/body.ts'
import { ActivityQuery, getActivity } from '../../src/observability/activity.ts'
import { getSessionCost, SessionCostQuery } from '../../src/observability/datasets/session-cost.ts'
import {
  AppRankingsQuery,
  getAppRankings,
  getBenchmarks,
  getRankingsDaily,
  getTaskClassifications,
  type RankingsDailyQuery,
} from '../../src/observability/datasets.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { createOtherWorkspace, TestClock, testGateway } from '../support/gateway.ts'
import { buildGeneration } from '../support/generation.ts'

// A Thursday: the last whole week is from Monday 2 to Sunday 8 March.
const NOW = '2026-03-12T10:30:00.000Z'
const SOURCE = {
  as_of: NOW,
  version: 'v1',
  license:
    'Licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/): reuse and republish ' +
    'with attribution to gateway.',
}

const IN_WEEK = '2026-03-08T23:59:59.999Z'

async function openHistory(
  calls: Partial<Generation>[],
  config: Record<string, unknown> = {},
): Promise<{ gateway: Gateway; clock: TestClock }> {
  const clock = new TestClock(NOW)
  const gateway = await testGateway({ clock, config })
  for (const [i, call] of calls.entries()) {
    const generation = buildGeneration({
      id: `gen-${i}`,
      settled_at: IN_WEEK,
      session_id: null,
      ...call,
    })
    await gateway.store.generations.record([{ generation, charge: null }])
  }
  return { gateway, clock }
}

const at = (day: string) => ({ settled_at: `2026-03-${day}T12:00:00.000Z` })
const KEY: Actor = { kind: 'inference', user_id: 'u', workspace_id: 'w', key_hash: 'k1' }
const refusalOf = (asked: () => unknown) =>
  (async () => asked())().then(
    () => null,
    ({ status, message }) => [status, message],
  )

describe('session costs', () => {
  const sessions = (count: number, more: Partial<Generation> = {}) =>
    Array.from({ length: count }, (_, i) => ({
      session_id: `s-${i}`,
      http_referer: 'https://agent.example',
      title: 'Agent',
      total_cost: BigInt(i + 1) * 1_000_000_000n,
      ...more,
    }))
  const other = { http_referer: null, title: 'Other' }
  const read = async (gateway: Gateway, query: SessionCostQuery = {}) =>
    getSessionCost(gateway, getOperator(gateway), query)

  test('are of the last whole week, by app and model, with five sessions or more', async () => {
    const { gateway, clock } = await openHistory([
      ...sessions(5),
      ...sessions(4, { model: 'acme/rare' }),
      ...sessions(6, other),
      ...sessions(5, { model: 'acme/later', ...at('09') }),
      ...sessions(5, { model: 'acme/before', settled_at: '2026-03-01T23:59:59.999Z' }),
    ])
    expect(await read(gateway)).toEqual({
      data: [
        {
          app_name: 'Agent',
          app_slug: 'agent-example',
          turn_range: '1-turn',
          model_permaslug: 'acme/small',
          median_session_cost_usd: 3,
        },
        {
          app_name: 'Other',
          app_slug: 'other',
          turn_range: '1-turn',
          model_permaslug: 'acme/small',
          median_session_cost_usd: 3.5,
        },
      ],
      meta: { ...SOURCE, window_days: 7, window_end_date: '2026-03-08' },
    })
    // The next week begins: its sessions are shown, and those of the week before no more.
    clock.pass(4 * 86_400_000)
    const { data, meta } = await read(gateway)
    expect([data.map(cell => cell.model_permaslug), meta.window_end_date]).toEqual([
      ['acme/later'],
      '2026-03-15',
    ])
  })

  test('are filtered and paged; without any, no window is published', async () => {
    const { gateway } = await openHistory([...sessions(5), ...sessions(5, other)])
    const slugs = async (query: SessionCostQuery) =>
      (await read(gateway, query)).data.map(cell => cell.app_slug)
    expect(await slugs({ app_slug: 'other' })).toEqual(['other'])
    expect(await slugs({ model: 'acme/small' })).toEqual(['agent-example', 'other'])
    expect(await slugs({ model: 'acme/none' })).toEqual([])
    expect(await slugs({ turn_range: '50-plus-turns' })).toEqual([])
    expect(await slugs({ limit: 1, offset: 1 })).toEqual(['other'])
    expect(await slugs({ limit: 1 })).toEqual(['agent-example'])
    const empty = (await openHistory([])).gateway
    expect((await read(empty)).meta).toMatchObject({ window_days: null, window_end_date: null })
  })

  test('say nothing of who called', async () => {
    const { gateway } = await openHistory([...sessions(5, { external_user: 'ada' })])
    const answer = await read(gateway)
    expect(answer.data).toHaveLength(1)
    for (const secret of ['ada', 'user_1', 's-0', 'gen-', '"k"'])
      expect(JSON.stringify(answer)).not.toContain(secret)
  })

  test.each([
    { limit: 0 },
    { limit: 501 },
    { limit: 1.5 },
    { offset: -1 },
    { offset: 5_001 },
    { turn_range: '2-turns' },
    { app_slug: '' },
  ])('refuse %j', query => {
    expect(() => requireValid(SessionCostQuery, query)).toThrow(Object.keys(query)[0])
  })
})

test('datasets are read as often as the config allows: by key, and by all keys in a day', async () => {
  const { gateway, clock } = await openHistory([], {
    datasets: { requests_per_minute: 2, requests_per_day: 5 },
  })
  const statusOf = async (key_hash: string) =>
    (await refusalOf(() => getBenchmarks(gateway, { ...KEY, key_hash }, {})))?.[0] ?? 200
  const readings = [await statusOf('k1'), await statusOf('k1'), await statusOf('k1')]
  expect(readings).toEqual([200, 200, 429])
  expect([await statusOf('k2'), await statusOf('k2')]).toEqual([200, 200])
  clock.pass(60_000)
  expect([await statusOf('k1'), await statusOf('k1')]).toEqual([200, 429])
  clock.pass(86_400_000)
  expect(await statusOf('k1')).toBe(200)
  // The operator is not counted.
  for (let i = 0; i < 9; i++) await getSessionCost(gateway, getOperator(gateway), {})
})

describe('rankings of apps', () => {
  const rank = async (gateway: Gateway, query: AppRankingsQuery = {}) =>
    (await getAppRankings(gateway, getOperator(gateway), query)).data
  const app = (title: string, day: string, tokens: number) => ({
    http_referer: null,
    title,
    native_tokens_prompt: tokens,
    native_tokens_completion: 0,
    ...at(day),
  })

  test('are by tokens, or by how much more they are than before', async () => {
    const { gateway } = await openHistory([
      app('Large', '05', 900),
      app('Large', '08', 900),
      app('Grown', '08', 500),
      app('', '08', 9_999),
    ])
    const days = { start_date: '2026-03-08', end_date: '2026-03-08' }
    expect(await rank(gateway, days)).toEqual([
      { rank: 1, app_id: 1, app_name: 'Large', total_tokens: '900', total_requests: 1 },
      { rank: 2, app_id: 2, app_name: 'Grown', total_tokens: '500', total_requests: 1 },
    ])
    const trending = await rank(gateway, { ...days, sort: 'trending' })
    expect(trending.map(({ app_name }) => app_name)).toEqual(['Large', 'Grown'])
    const week = { start_date: '2026-03-09', end_date: '2026-03-11' }
    expect(await rank(gateway, { ...week, sort: 'trending' })).toEqual([])
    expect((await rank(gateway, { offset: 1 }))[0]).toMatchObject({ rank: 2, app_name: 'Grown' })
    expect(await rank(gateway, { category: 'coding' })).toEqual([])
  })

  test('say which days they are of', async () => {
    const { gateway } = await openHistory([])
    const meta = async (query: AppRankingsQuery) =>
      (await getAppRankings(gateway, getOperator(gateway), query)).meta
    expect(await meta({})).toEqual({
      ...SOURCE,
      start_date: '2026-02-09',
      end_date: '2026-03-11',
    })
    const century = { start_date: '1990-01-01', end_date: '2090-01-01' }
    expect(await meta(century)).toMatchObject({ start_date: '2025-01-01', end_date: '2026-03-12' })
  })

  test.each<[string, AppRankingsQuery]>([
    ['end_date', { end_date: '2024-12-31' }],
    ['end_date', { end_date: '2026-02-30' }],
    ['start_date', { start_date: '2026-03-09', end_date: '2026-03-08' }],
    ['subcategory', { category: 'coding', subcategory: 'game' }],
  ])('refuse a wrong %s: %j', async (field, query) => {
    const { gateway } = await openHistory([])
    expect(await refusalOf(() => rank(gateway, requireValid(AppRankingsQuery, query)))).toEqual([
      400,
      expect.stringContaining(field),
    ])
  })
})

describe('rankings of models', () => {
  const rank = async (gateway: Gateway, query: RankingsDailyQuery = {}) =>
    (await getRankingsDaily(gateway, getOperator(gateway), query)).data
  const use = (model: string, day: string, tokens: number, more: Partial<Generation> = {}) => ({
    model,
    native_tokens_prompt: tokens,
    native_tokens_completion: 0,
    ...at(day),
    ...more,
  })

  test('are by day, week or month, with all but the first fifty together', async () => {
    const { gateway } = await openHistory([
      use('acme/a', '02', 5),
      use('acme/b', '03', 7),
      use('acme/a', '03', 7),
      ...Array.from({ length: 52 }, (_, i) => use(`many/${i}`, '04', 100 - i)),
      use('acme/nothing', '04', 0),
    ])
    const days = await rank(gateway)
    expect(
      days.slice(0, 3).map(row => `${row.date} ${row.model_permaslug} ${row.total_tokens}`),
    ).toEqual(['2026-03-02 acme/a 5', '2026-03-03 acme/a 7', '2026-03-03 acme/b 7'])
    expect(days).toHaveLength(3 + 51)
    expect(days.at(-1)).toEqual({
      date: '2026-03-04',
      model_permaslug: 'other',
      total_tokens: String(50 + 49),
    })
    const first = async (period: 'week' | 'month') => (await rank(gateway, { period }))[0]?.date
    expect([await first('week'), await first('month')]).toEqual(['2026-03-02', '2026-03-01'])
  })

  test('know modalities of models, tools of answers and lengths of prompts', async () => {
    const { gateway } = await openHistory([
      use('sandbox/echo', '02', 999),
      use('sandbox/image', '02', 5_000, { finish_reason: 'tool_calls' }),
    ])
    const models = async (query: RankingsDailyQuery) =>
      (await rank(gateway, query)).map(row => row.model_permaslug)
    expect(await models({ modality: 'image_output' })).toEqual(['sandbox/image'])
    expect(await models({ modality: 'text' })).toEqual(['sandbox/echo'])
    expect(await models({ modality: 'tool_calling' })).toEqual(['sandbox/image'])
    expect(await models({ context_bucket: '1K' })).toEqual(['sandbox/echo'])
    expect(await models({ context_bucket: '10K' })).toEqual(['sandbox/image'])
    expect(await models({ category: 'programming' })).toEqual([])
  })

  test.each<[string, RankingsDailyQuery]>([
    ['category', { category: 'legal', language_type: 'natural' }],
    ['category', { category: 'legal', modality: 'text' }],
    ['language_type', { language_type: 'natural', context_bucket: '1K' }],
    ['period', { category: 'legal', period: 'day' }],
    ['start_date', { context_bucket: '1K', start_date: '2025-06-01' }],
  ])('refuse a wrong %s: %j', async (field, query) => {
    const { gateway } = await openHistory([])
    expect(await refusalOf(() => rank(gateway, query))).toEqual([
      400,
      expect.stringContaining(field),
    ])
  })
})

describe('a key of one workspace reads', () => {
  const IDS = Array.from({ length: 5 }, (_, i) => `00000000-0000-7000-8000-0000000000b${i}`)
  const SECRET = { http_referer: 'https://secret.example', title: 'Falcon' }

  /** An app of each workspace, and one of all five; that of the first is asked by the second, too. */
  async function openFive(config: Record<string, unknown> = {}) {
    const { gateway } = await openHistory([], { datasets: { minimum_sessions: 1 }, ...config })
    const hashes: string[] = []
    for (const [i, id] of IDS.entries()) {
      const { data } = await createOtherWorkspace(gateway, id, 'inference', `other-${i}`)
      hashes.push(data.hash)
    }
    const call = (i: number, id: string, more: Partial<Generation>) => {
      const [workspace_id, key_hash] = [IDS[i] ?? '', hashes[i] ?? '']
      const session_id = `${id}-${i}`
      const own = { id: session_id, session_id, workspace_id, key_hash, settled_at: IN_WEEK }
      const counts = { native_tokens_prompt: 10 ** i, native_tokens_completion: 0 }
      return buildGeneration({ ...own, ...counts, total_cost: BigInt(i + 1) * 10n ** 9n, ...more })
    }
    const shared = { model: 'acme/shared', http_referer: null, title: 'Shared' }
    const calls = [
      ...IDS.map((_, i) => call(i, 'shared', shared)),
      call(0, 'secret', { model: 'acme/secret', ...SECRET }),
      call(1, 'secret', { model: 'acme/secret', ...SECRET, title: 'Mine' }),
    ]
    for (const generation of calls)
      await gateway.store.generations.record([{ generation, charge: null }])
    const actors = IDS.map(
      (workspace_id, i): Actor => ({ ...KEY, workspace_id, key_hash: hashes[i] ?? '' }),
    )
    return { gateway, actors }
  }

  const DAYS = { start_date: '2026-03-08', end_date: '2026-03-08' }
  async function readAll(gateway: Gateway, actor: Actor | undefined) {
    if (!actor) throw new Error('No actor')
    const costs = (await getSessionCost(gateway, actor, {})).data
    const apps = (await getAppRankings(gateway, actor, DAYS)).data
    const models = (await getRankingsDaily(gateway, actor, DAYS)).data
    return {
      costs: costs.map(row => [row.app_name, row.median_session_cost_usd]),
      apps: apps.map(row => [row.app_name, row.total_tokens]),
      models: models.map(row => [row.model_permaslug, row.total_tokens]),
    }
  }
  const OF_ALL = {
    costs: [['Shared', 3]],
    apps: [['Shared', '11111']],
    models: [['acme/shared', '11111']],
  }

  test('rows of five workspaces, and its own', async () => {
    const { gateway, actors } = await openFive()
    expect(await readAll(gateway, actors[4])).toEqual(OF_ALL)
    // The title is that of another workspace: the address is its own.
    expect(await readAll(gateway, actors[1])).toEqual({
      costs: [['secret.example', 2], ...OF_ALL.costs],
      apps: [...OF_ALL.apps, ['secret.example', '10']],
      models: [...OF_ALL.models, ['acme/secret', '10']],
    })
    expect((await readAll(gateway, getOperator(gateway))).costs[0]).toEqual(['Falcon', 1.5])
    const manager: Actor = { ...getOperator(gateway), kind: 'management', key_hash: 'm' }
    expect((await readAll(gateway, manager)).apps).toContainEqual(['Falcon', '11'])
    // The workspace is that of the operator, but the key may only make calls.
    expect(await readAll(gateway, { ...manager, kind: 'inference' })).toEqual(OF_ALL)
  })

  test('its own alone where six workspaces are asked for', async () => {
    const datasets = { minimum_sessions: 1, minimum_workspaces: 6 }
    const { gateway, actors } = await openFive({ datasets })
    expect(await readAll(gateway, actors[4])).toEqual({
      costs: [['Shared', 5]],
      apps: [['Shared', '10000']],
      models: [['acme/shared', '10000']],
    })
  })

  test('nothing where datasets are switched off', async () => {
    const { gateway, actors } = await openFive({ datasets: { enabled: false } })
    const refused = await refusalOf(() => readAll(gateway, actors[0]))
    expect(refused).toEqual([404, 'Datasets are switched off here'])
    expect(await refusalOf(() => readAll(gateway, getOperator(gateway)))).toBeNull()
  })
})

test('what nobody has measured here is empty, and says of which days', async () => {
  const { gateway } = await openHistory([])
  const { data } = await getTaskClassifications(gateway, getOperator(gateway), {})
  expect(data).toEqual({
    window_days: 7,
    as_of: '2026-03-11',
    classifications: [],
    macro_categories: [],
  })
  const query = { source: 'openrouter', task_type: 'search' } as const
  expect(await getBenchmarks(gateway, getOperator(gateway), query)).toMatchObject({
    data: [],
    meta: { source: 'openrouter', task_type: 'search', model_count: 0 },
  })
})

describe('activity', () => {
  const read = async (gateway: Gateway, query: ActivityQuery = {}, actor?: Actor) =>
    (await getActivity(gateway, actor ?? getOperator(gateway), query)).data
  const HASH = 'a'.repeat(64)

  test('is by day and endpoint, over thirty days that have ended, exact to the nano-dollar', async () => {
    const byok = { is_byok: true, total_cost: 0n, upstream_inference_cost: 7n }
    const { gateway } = await openHistory([
      { ...at('11'), total_cost: 1n },
      { ...at('11'), total_cost: 2n, workspace_id: 'w2' },
      { ...at('11'), ...byok },
      { ...at('10'), provider_name: null, provider_responses: [], total_cost: null },
      { ...at('12') },
      { settled_at: '2026-02-09T23:59:59.999Z' },
      { settled_at: '2026-02-10T00:00:00.000Z', model: 'acme/first' },
    ])
    const rows = await read(gateway)
    expect(rows[0]).toEqual({
      date: '2026-03-11',
      model: 'acme/small',
      model_permaslug: 'acme/small',
      endpoint_id: 'local/up',
      provider_name: 'Local',
      usage: 3e-9,
      byok_usage_inference: 7e-9,
      requests: 3,
      prompt_tokens: 30,
      completion_tokens: 15,
      reasoning_tokens: 6,
    })
    expect(rows.map(row => `${row.date} ${row.provider_name} ${row.requests}`)).toEqual([
      '2026-03-11 Local 3',
      '2026-03-10  1',
      '2026-02-10 Local 1',
    ])
    expect(await read(gateway, { date: '2026-03-10' })).toHaveLength(1)
    const split = await read(gateway, { group_by: 'workspace', date: '2026-03-11' })
    expect(split.map(row => [row.workspace_id, row.requests])).toEqual([
      ['00000000-0000-7000-8000-000000000001', 2],
      ['w2', 1],
    ])
  })

  test('is of one key, member or workspace', async () => {
    const { gateway } = await openHistory([])
    const { workspace_id, user_id } = gateway.memory.owner
    const calls = [{ key_hash: HASH }, { user_id }, { workspace_id }]
    for (const [i, call] of calls.entries()) {
      const generation = buildGeneration({
        id: `gen-${i}`,
        workspace_id: 'w',
        ...at('11'),
        ...call,
      })
      await gateway.store.generations.record([{ generation, charge: null }])
    }
    const count = async (query: ActivityQuery) =>
      (await read(gateway, query)).reduce((sum, row) => sum + row.requests, 0)
    expect(await count({})).toBe(3)
    expect(await count({ api_key_hash: HASH })).toBe(1)
    expect(await count({ api_key_hash: 'b'.repeat(64) })).toBe(0)
    expect(await count({ user_id })).toBe(1)
    expect(await count({ workspace_id })).toBe(1)
  })

  test('of a key of another workspace is that workspace’s, and names no member', async () => {
    const { gateway } = await openHistory([{ ...at('11') }])
    const id = '00000000-0000-7000-8000-0000000000aa'
    await createOtherWorkspace(gateway, id)
    const actor: Actor = { kind: 'management', user_id: 'u', workspace_id: id, key_hash: 'k' }
    const generation = buildGeneration({ id: 'own', workspace_id: id, ...at('11') })
    await gateway.store.generations.record([{ generation, charge: null }])
    expect(await read(gateway, {}, actor)).toMatchObject([{ requests: 1 }])
    const { owner } = gateway.memory
    const refused = (query: ActivityQuery) => refusalOf(() => read(gateway, query, actor))
    expect((await refused({ workspace_id: owner.workspace_id }))?.[0]).toBe(404)
    expect((await refused({ user_id: owner.user_id }))?.[0]).toBe(403)
  })

  test.each<[number, string, object]>([
    [400, 'date', { date: '2026-03-12' }],
    [400, 'date', { date: '2026-02-09' }],
    [400, 'date', { date: '2026-02-30' }],
    [400, 'date', { date: '1926-03-11' }],
    [400, 'date', { date: 'today' }],
    [400, 'api_key_hash', { api_key_hash: 'A'.repeat(64) }],
    [400, 'group_by', { group_by: 'key' }],
    [400, 'workspace_id', { workspace_id: 'default' }],
    [404, 'Workspace', { workspace_id: crypto.randomUUID() }],
    [404, 'Member', { user_id: 'nobody' }],
  ])('answers %s for a wrong %s: %j', async (status, field, query) => {
    const { gateway } = await openHistory([])
    const refusal = await refusalOf(() => read(gateway, requireValid(ActivityQuery, query)))
    expect(refusal).toEqual([status, expect.stringContaining(field)])
  })
})
