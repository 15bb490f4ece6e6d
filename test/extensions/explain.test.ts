import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { GatewayError } from '../../src/base/errors.ts'
import type { Explanation } from '../../src/extensions/explain.ts'
import { assignMembers } from '../../src/limits/assignments.ts'
import { addCredit } from '../../src/limits/credits.ts'
import { createGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createByokKey } from '../../src/resources/byok.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { openWorld, REQUESTS, type World } from '../support/access.ts'
import { createApi } from '../support/api.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { INPUT_AUDIO } from '../support/recording.ts'
import { buildLocalConfig } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

const FILTERS = [{ label: '[CODENAME]', pattern: 'bluebird', action: 'block' as const }]
const CONFIG = buildLocalConfig('http://127.0.0.1:9/v1')
const BODY = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }
const asked = (debug: object = {}, more: object = {}) => ({
  ...BODY,
  ...more,
  debug: { dry_run: true, ...debug },
})

const calls = listDescribedRoutes(createApp(await testGateway())).filter(({ operation }) =>
  operation.statuses.includes(402),
)

describe('a dry run leaves no trace', () => {
  let upstream: Upstream
  let world: World

  beforeAll(async () => {
    upstream = await startUpstream()
    upstream.plan(completion('Hello'))
    world = await openWorld(upstream.url)
  })

  afterAll(async () => {
    await world[Symbol.asyncDispose]()
    await upstream.close()
  })

  const trace = ({ gateway }: World) => ({
    kept: world.readStored(),
    hits: upstream.hits.length,
    running: gateway.traffic.calls.size,
    sessions: gateway.traffic.sessions.size,
    health: gateway.catalog.models
      .get('acme/small')
      ?.endpoints.map(one => gateway.traffic.health.getStats(one)),
    money: [gateway.ledger.getSpent('all', null, true), gateway.ledger.getHeld('all', true)],
  })

  test.each(calls.map(route => [route.operation.id, route] as const))(
    'of %s, whatever its identity',
    async (id, route) => {
      const { body, ...place } = (await REQUESTS[id]?.(world.gateway, world.actors.operator)) ?? {}
      const { data } = await createKey(world.gateway, world.actors.operator, {
        name: 'as',
        limit: 1,
      })
      const before = trace(world)
      for (const key of [null, data.hash]) {
        const request = {
          ...place,
          body: { ...(body as object), session_id: 's', debug: { dry_run: true, key } },
        }
        const {
          status,
          headers,
          body: told,
        } = await world.ask(route, world.live['management key'], request)
        expect([status, headers['x-generation-id']]).toEqual([200, undefined])
        expect(JSON.parse(told)).toMatchObject({
          error: null,
          key: key === null ? null : { hash: key },
        })
      }
      expect(trace(world)).toEqual(before)
    },
  )

  test('it does not count as a call, but tells when the next would be too many', async () => {
    const gateway = await testGateway({ config: { limits: { requests_per_minute: 1 } } })
    const keys = await createTestKeys(gateway)
    const ask = createApi(gateway, keys.management)
    const body = asked({ key: keys.hash }, { model: 'sandbox/echo' })
    const error = async () =>
      ((await ask('POST', '/chat/completions', { body })).json as Explanation).error
    expect([await error(), await error()]).toEqual([null, null])
    const call = { key: keys.inference, body: { ...body, debug: {} } }
    expect((await ask('POST', '/chat/completions', call)).status).toBe(200)
    const refused = await ask('POST', '/chat/completions', call)
    expect(refused.status).toBe(429)
    expect(await error()).toMatchObject({
      code: 429,
      message: (refused.json as { error: { message: string } }).error.message,
    })
  })
})

describe('the asker', () => {
  let gateway: Gateway
  let clock: TestClock
  let keys: Awaited<ReturnType<typeof createTestKeys>>
  let ask: ReturnType<typeof createApi>

  beforeEach(async () => {
    clock = new TestClock()
    gateway = await testGateway({ config: buildLocalConfig('http://127.0.0.1:9/v1'), clock })
    keys = await createTestKeys(gateway)
    ask = createApi(gateway, keys.management)
  })

  const tell = async (debug: object = {}, more: object = {}, key?: string) => {
    const { status, json } = await ask('POST', '/chat/completions', {
      body: asked(debug, more),
      ...(key ? { key } : {}),
    })
    expect(status).toBe(200)
    return json as Explanation
  }
  const statusOf = async (key: string | null, debug: object = {}) => {
    const { status, json } = await ask('POST', '/chat/completions', { body: asked(debug), key })
    return [status, (json as { error?: { message: string } }).error?.message]
  }

  test('with an inference key, or none, is refused for want of a management key', async () => {
    expect(await statusOf(keys.inference)).toEqual([403, 'Only management keys can make dry runs'])
    expect(await statusOf(keys.inference, { key: keys.hash })).toEqual([
      403,
      'Only management keys can make dry runs',
    ])
    expect(await statusOf(null)).toEqual([401, expect.any(String)])
  })

  test('with a management key may use any key they manage, and learns of no other', async () => {
    const { data } = await createWorkspace(gateway, getOperator(gateway), {
      name: 'Team',
      slug: 'team',
    })
    const manager = await createKey(
      gateway,
      getOperator(gateway),
      { name: 'team', workspace_id: data.id },
      'management',
    )
    const member = await createKey(gateway, getOperator(gateway), {
      name: 'member',
      workspace_id: data.id,
    })
    expect(await tell({ key: member.data.hash })).toMatchObject({
      key: { name: 'member' },
      workspace: { slug: 'team' },
    })
    expect(await tell({ key: member.data.hash }, {}, manager.key)).toMatchObject({
      key: { name: 'member' },
    })
    expect(await statusOf(manager.key, { key: keys.hash })).toEqual([404, 'API key not found'])
    expect(await statusOf(manager.key, { key: 'nobody' })).toEqual([404, 'API key not found'])
    expect(await tell({}, {}, manager.key)).toMatchObject({
      key: null,
      workspace: { slug: 'team' },
    })
  })

  test('sees limits that others manage, but neither names nor remaining amounts', async () => {
    await reconfigure(gateway, {
      ...gateway.config,
      limits: { ...gateway.config.limits, credits: true },
    })
    await addCredit(gateway, getOperator(gateway), { amount: 25, note: 'here' })
    const guardrail = {
      name: 'Of the default workspace',
      limit_usd: 7,
      reset_interval: 'daily' as const,
      content_filters: FILTERS,
    }
    const { data: theirs } = await createGuardrail(gateway, getOperator(gateway), guardrail)
    await assignMembers(gateway, getOperator(gateway), theirs.id, {
      member_user_ids: [gateway.memory.owner.user_id],
    })
    const { data: team } = await createWorkspace(gateway, getOperator(gateway), {
      name: 'Team',
      slug: 'team',
    })
    const manager = await createKey(
      gateway,
      getOperator(gateway),
      { name: 'team', workspace_id: team.id },
      'management',
    )
    const { data: own } = await createKey(gateway, getOperator(gateway), {
      name: 'own',
      workspace_id: team.id,
      limit: 3,
    })
    const shown = ({ policy: { guardrails, filters, limits } }: Explanation) => ({
      name: guardrails.find(({ id }) => id === theirs.id)?.name,
      filters: filters.map(({ filter }) => filter),
      limits: limits.map(({ limit_usd, remaining_usd, pays }) => [limit_usd, remaining_usd, pays]),
    })
    expect(shown(await tell({ key: own.hash }))).toEqual({
      name: 'Of the default workspace',
      filters: ['[CODENAME]'],
      limits: [
        [3, 3, 'yes'],
        [7, 7, 'yes'],
        [25, 25, 'yes'],
      ],
    })
    expect(shown(await tell({ key: own.hash }, {}, manager.key))).toEqual({
      name: null,
      filters: [],
      limits: [
        [3, 3, 'yes'],
        [null, null, 'yes'],
        [null, null, 'yes'],
      ],
    })
  })

  test('without a key asks as their workspace, with its default guardrail', async () => {
    await updateGuardrail(
      gateway,
      getOperator(gateway),
      getDefaultGuardrailId(gateway.memory.owner.workspace_id),
      {
        ignored_providers: ['local'],
        limit_usd: 5,
        reset_interval: 'daily',
      },
    )
    const told = await tell()
    expect(told.policy.guardrails).toMatchObject([{ scope: 'workspace' }])
    expect(told.policy.limits).toMatchObject([
      { account: `workspace ${gateway.memory.owner.workspace_id}`, period: 'daily', limit_usd: 5 },
    ])
    expect(told.dropped).toMatchObject([
      { provider: 'local', guardrail: { field: 'ignored_providers' } },
    ])
    expect(told.error?.code).toBe(404)
  })

  test('sees the refusal of a key that would be refused', async () => {
    expect(
      (await tell({ key: Bun.CryptoHasher.hash('sha256', keys.management, 'hex') })).error,
    ).toMatchObject({ code: 403 })
    await updateKey(gateway, getOperator(gateway), keys.hash, { disabled: true })
    expect((await tell({ key: keys.hash })).error).toMatchObject({
      code: 401,
      message: 'Invalid API key',
    })
  })

  test('sees cooldowns, their end and reason, and measured speeds', async () => {
    const [endpoint] = gateway.catalog.models.get('acme/small')?.endpoints ?? []
    if (!endpoint) throw new Error('There is no endpoint')
    const sent = clock.ticks()
    clock.pass(100)
    gateway.traffic.health.recordAnswer(endpoint, sent, true)
    clock.pass(400)
    gateway.traffic.health.recordEnd(endpoint, sent, 50)
    expect((await tell()).endpoints[0]).toMatchObject({
      cooldown: null,
      latency: { p50: 100 },
      throughput: { p90: 100 },
    })
    gateway.traffic.health.recordFailure(
      endpoint,
      new GatewayError('rate_limit_exceeded', 'busy', { retryAfter: 60 }),
    )
    const until = new Date(clock.now().getTime() + 60_000).toISOString()
    expect((await tell()).endpoints[0]).toMatchObject({
      cooldown: { until, reason: 'asked_to_wait' },
      probability: 1,
    })
    clock.pass(60_000)
    for (let i = 0; i < 5; i++)
      gateway.traffic.health.recordFailure(endpoint, new GatewayError('timeout', 'late'))
    expect((await tell()).endpoints[0]?.cooldown?.reason).toBe('failures')
  })

  test('sees how well an endpoint calls tools, and when a hedge would start', async () => {
    const two = {
      ...CONFIG,
      models: CONFIG.models.map(one => ({
        ...one,
        endpoints: [one.endpoints[0], { provider: 'sandbox', model: 'echo' }],
      })),
    }
    gateway = await testGateway({ config: { ...two, routing: { choice: 'listed' } }, clock })
    keys = await createTestKeys(gateway)
    ask = createApi(gateway, keys.management)
    const [endpoint] = gateway.catalog.models.get('acme/small')?.endpoints ?? []
    if (!endpoint) throw new Error('There is no endpoint')
    expect((await tell({}, { stream: true })).endpoints[0]).toMatchObject({
      sound_tool_calls: null,
      hedge_after: null,
    })
    for (let i = 0; i < 20; i++) {
      gateway.traffic.health.recordToolCalls(endpoint, true)
      gateway.traffic.health.recordAnswer(endpoint, clock.ticks() - 100, true)
    }
    const hedged = (hedge: unknown, stream = true) => tell({}, { stream, provider: { hedge } })
    expect((await hedged(true)).endpoints[0]).toMatchObject({
      sound_tool_calls: { lower: expect.any(Number) },
      hedge_after: 100,
    })
    expect((await hedged({ after_ms: 70 })).endpoints.map(one => one.hedge_after)).toEqual([
      70,
      null,
    ])
    expect((await hedged(false)).endpoints[0]?.hedge_after).toBeNull()
    expect((await hedged(true, false)).endpoints[0]?.hedge_after).toBeNull()
  })

  test('sees no probabilities if a model was drawn at random', async () => {
    gateway = await testGateway()
    ask = createApi(gateway, (await createTestKeys(gateway)).management)
    const { endpoints, strategy, stages } = await tell({}, { model: 'gateway/free' })
    expect([strategy, stages.length]).toEqual(['free', 1])
    expect(endpoints.map(one => one.probability)).toEqual(endpoints.map(() => null))
    expect(endpoints.length).toBeGreaterThan(0)
  })

  test('sees what bounds the output: the endpoint, the config, or several answers', async () => {
    const costs = async (more: object) => (await tell({}, more)).endpoints[0]?.estimated_cost
    const most = gateway.config.limits.max_tokens
    expect(await costs({})).toMatchObject({ completion_tokens: most, bounded_by: 'config' })
    expect(await costs({ max_tokens: 100 })).toMatchObject({
      completion_tokens: 100,
      bounded_by: 'call',
      completion: 0.00006,
    })
    expect(await costs({ max_tokens: 100, n: 3 })).toMatchObject({
      completion_tokens: 300,
      completion: 0.00018,
    })
  })

  test('sees which endpoints a limit excludes, if another source of money is open', async () => {
    await createByokKey(gateway, getOperator(gateway), {
      provider: 'local',
      key: 'own',
      is_fallback: true,
    })
    await updateKey(gateway, getOperator(gateway), keys.hash, { limit: 0.000_001 })
    const told = await tell({ key: keys.hash })
    expect(told.endpoints).toMatchObject([{ provider: 'local', is_byok: true, probability: 1 }])
    expect(told.dropped).toMatchObject([
      {
        is_byok: false,
        excluded_by: 'payment_required',
        reason: 'Key limit exceeded (total limit)',
      },
    ])
    expect([told.error, told.set_aside?.credits, told.policy.limits[0]?.pays]).toEqual([
      null,
      null,
      'no',
    ])
    expect(told.set_aside?.byok).toBeGreaterThan(0)
  })

  test('sees the error of filters that cannot be compiled', async () => {
    const filters = Promise.reject(new GatewayError('invalid_request', 'no pattern'))
    filters.catch(() => undefined)
    gateway.memory.policies.set(keys.hash, { bounds: [], rules: [], regions: ['global'], filters })
    const told = await tell({ key: keys.hash })
    expect([told.policy.filters, told.error?.message]).toEqual([[], 'no pattern'])
  })

  test.each<[name: string, debug: unknown, field: string]>([
    ['no object', 7, 'debug'],
    ['a text for yes', { dry_run: 'true' }, 'debug.dry_run'],
    ['a number for yes', { dry_run: 1 }, 'debug.dry_run'],
    ['a number for a key', { dry_run: true, key: 7 }, 'debug.key'],
    ['no text for a key', { dry_run: true, key: '' }, 'debug.key'],
    ['a long text for a key', { dry_run: true, key: 'k'.repeat(201) }, 'debug.key'],
  ])('with %s sees the same in every dialect', async (_, debug, field) => {
    const bodies = {
      '/chat/completions': BODY,
      '/messages': { ...BODY, max_tokens: 5 },
      '/embeddings': { model: 'sandbox/embed', input: 'Hi' },
      '/rerank': { model: 'sandbox/embed', query: 'Hi', documents: ['Bye'] },
      '/audio/transcriptions': { model: 'sandbox/transcribe', input_audio: INPUT_AUDIO },
      '/audio/speech': { model: 'sandbox/speech', input: 'Hi' },
      '/images': { model: 'sandbox/image', prompt: 'Hi' },
      '/videos': { model: 'sandbox/video', prompt: 'Hi' },
    }
    for (const [path, body] of Object.entries(bodies)) {
      const { status, json } = await ask('POST', path, { body: { ...body, debug } })
      const { message } = (json as { error: { message: string } }).error
      expect([path, status, message.split(':')[0]]).toEqual([path, 400, field])
    }
  })

  test('a call that does not ask for debug runs, and its provider sees no debug', async () => {
    await using upstream = await startUpstream()
    upstream.plan(completion('Hello'))
    const calling = await testGateway({ config: buildLocalConfig(upstream.url) })
    const { inference } = await createTestKeys(calling)
    for (const [path, more] of [
      ['/chat/completions', {}],
      ['/messages', { max_tokens: 5 }],
    ] as const) {
      const body = { ...BODY, ...more, debug: { dry_run: false, key: null } }
      expect((await createApi(calling, inference)('POST', path, { body })).status).toBe(200)
    }
    expect(upstream.hits.map(({ json }) => Object.hasOwn(json as object, 'debug'))).toEqual([
      false,
      false,
    ])
  })
})
