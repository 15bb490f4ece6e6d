import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import {
  BadRequestResponseError,
  ForbiddenResponseError,
  TooManyRequestsResponseError,
} from '@openrouter/sdk/models/errors'
import { openGateway } from '../../src/app/gateway.ts'
import { authenticate } from '../../src/resources/actor.ts'
import { buildGeneration } from '../support/generation.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

let server: LocalServer
let checker: Wirecheck | undefined
let management: OpenRouter
let client: OpenRouter

const DAY = 86_400_000
const MODEL = 'sandbox/echo'
const TITLE = 'Agent'

beforeAll(async () => {
  server = await startLocalServer({ datasets: { requests_per_minute: 12 } })
  await recordWeeks(server.data, server.inference_key)
  checker = hasWirecheck ? await startWirecheck(server.url) : undefined
  const serverURL = `${checker?.url ?? server.url}/api/v1`
  const clientWith = (apiKey: string) =>
    new OpenRouter({ apiKey, serverURL, retryConfig: { strategy: 'none' } })
  management = clientWith(server.management_key)
  client = clientWith(server.inference_key)
})
afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
})

/** Records sessions of a key of this week and the last, so that a week may end while the tests run. */
async function recordWeeks(data: string, secret: string): Promise<void> {
  const gateway = await openGateway({ data })
  const { key_hash } = authenticate(gateway, `Bearer ${secret}`)
  for (const [week, age] of [0, 1, 7].entries())
    for (let i = 0; i < 5; i++) {
      const settled_at = new Date(Date.now() - age * DAY).toISOString()
      const id = `gen-${week}-${i}`
      const { workspace_id } = gateway.memory.owner
      const call = { id, settled_at, workspace_id, key_hash, session_id: id, model: MODEL }
      const generation = buildGeneration({ ...call, http_referer: null, title: TITLE })
      await gateway.store.generations.record([{ generation, charge: null }])
    }
  await gateway.close()
}

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

describe('the official client', () => {
  test('reads what was used by day and endpoint', async () => {
    const { data } = await management.analytics.getUserActivity({ groupBy: 'workspace' })
    expect(data[0]).toMatchObject({ modelPermaslug: MODEL, requests: 5, usage: 22_500e-9 })
    expect(await failureOf(client.analytics.getUserActivity())).toBeInstanceOf(
      ForbiddenResponseError,
    )
    const wrong = management.analytics.getUserActivity({ date: '2020-01-01' })
    expect(await failureOf(wrong)).toBeInstanceOf(BadRequestResponseError)
  })

  test('asks what can be asked, and asks it', async () => {
    const { data: known } = await management.analytics.getAnalyticsMeta()
    const { data } = await management.analytics.queryAnalytics({
      requestBody: {
        metrics: known.metrics.map(({ name }) => name),
        dimensions: ['model'],
        granularity: 'day',
        filters: [{ field: 'model', operator: 'eq', value: MODEL }],
        orderBy: { field: 'date', direction: 'asc' },
        timeRange: { start: new Date(Date.now() - 20 * DAY), end: new Date(Date.now() + DAY) },
      },
    })
    // The client drops the columns, which its schema does not name.
    expect([data.data.length, data.metadata]).toEqual([
      3,
      { rowCount: 3, truncated: false, queryTimeMs: expect.any(Number) },
    ])
    const wrong = management.analytics.queryAnalytics({ requestBody: { metrics: ['nothing'] } })
    expect(await failureOf(wrong)).toBeInstanceOf(BadRequestResponseError)
  })

  test('reads every dataset, until it has read too often', async () => {
    const cells = await client.datasets.getSessionCost({ model: MODEL })
    expect(cells.result.data).toMatchObject([
      { appName: TITLE, appSlug: 'agent', turnRange: '1-turn', medianSessionCostUsd: 4_500e-9 },
    ])
    const apps = await client.datasets.getAppRankings({ sort: 'popular' })
    expect(apps.result.data[0]).toMatchObject({ rank: 1, appName: TITLE, totalTokens: '150' })
    const { data: models } = await client.datasets.getRankingsDaily({ period: 'month' })
    expect(models[0]).toMatchObject({ modelPermaslug: MODEL })
    const tasks = await client.classifications.getTaskClassifications()
    expect(tasks.data.classifications).toEqual([])
    expect((await client.benchmarks.getBenchmarks()).data).toEqual([])
    const wrong = client.datasets.getAppRankings({ endDate: '2020-01-01' })
    expect(await failureOf(wrong)).toBeInstanceOf(BadRequestResponseError)
    // More than two minutes allow, because a minute may end between two of them.
    const all = await Promise.all(
      Array.from({ length: 25 }, () => failureOf(client.benchmarks.getBenchmarks())),
    )
    expect(all.find(one => one !== undefined)).toBeInstanceOf(TooManyRequestsResponseError)
  })

  test.skipIf(!hasWirecheck)('every answer matches the public schema', async () => {
    const report = await checker?.report()
    expect(report?.violations).toEqual([])
    expect(Object.keys(report?.seen ?? {})).toEqual(
      expect.arrayContaining([
        ...[200, 400, 403].map(status => `getUserActivity ${status}`),
        'getAnalyticsMeta 200',
        ...[200, 400].map(status => `queryAnalytics ${status}`),
        'getSessionCost 200',
        ...[200, 400].map(status => `getAppRankings ${status}`),
        'getRankingsDaily 200',
        'getTaskClassifications 200',
        ...[200, 429].map(status => `getBenchmarks ${status}`),
      ]),
    )
  })
})
