import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { getPolicy } from '../../src/limits/effective.ts'
import { type FilterRule, openFilters } from '../../src/limits/filters.ts'
import { listRefusals, type Refusal, type RefusalQuery } from '../../src/observability/refusals.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import { getApp } from '../support/app.ts'
import { createLimitedKey, sendChat, waitUntil } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildLocalConfig, type Server, startServer } from '../support/server.ts'

let server: Server
beforeAll(async () => {
  const limits = { requests_per_minute: 1_000 }
  server = await startServer({ config: buildLocalConfig('http://127.0.0.1:9/v1', { limits }) })
})
afterAll(() => server[Symbol.asyncDispose]())

/** Finds what `gateway logs` has of a request. */
async function find(id: string, { data } = server): Promise<Refusal[]> {
  const read = async () =>
    JSON.parse((await runCommand(['logs', '--id', id, '--json', '--data', data])).stdout)
      .data as Refusal[]
  await waitUntil(async () => (await read()).length > 0)
  return read()
}

const STRANGE = `gw-v1-${'a1b2c3d4'.repeat(9)}`

describe('a refused call is found by the request id that its caller saw', () => {
  test.each<[number, object, { key?: string; path?: string }, object]>([
    [400, { temperature: 'hot' }, {}, { error_type: 'invalid_request' }],
    [400, { model: 'acme/none' }, {}, { model: 'acme/none' }],
    [401, {}, { key: STRANGE }, { key: 'gw-v1-a1b...3d4', key_hash: null, workspace_id: null }],
    [403, {}, { path: '/keys' }, { path: '/api/v1/keys' }],
    [404, {}, { path: '/nothing' }, { path: '/api/v1/nothing', key_hash: expect.any(String) }],
  ])('%i for %j with %j', async (status, body, options, expected) => {
    const outcome = await sendChat(server, body, options).outcome()
    expect(outcome.status).toBe(status)
    const id = outcome.headers['x-request-id'] ?? ''
    const [refusal, ...others] = await find(id)
    expect(refusal).toMatchObject({ id, status, ...expected })
    expect(others).toEqual([])
    expect(JSON.stringify(refusal)).not.toContain(STRANGE)
  })

  test('402, with the key', async () => {
    const key = await createLimitedKey(server, 0)
    const options = { key, headers: { 'x-request-id': 'mine-402' } }
    expect((await sendChat(server, { max_tokens: 9 }, options).outcome()).status).toBe(402)
    expect(await find('mine-402')).toMatchObject([
      { status: 402, model: 'acme/small', key_hash: expect.any(String) },
    ])
    const listed = await runCommand([
      'generations',
      'list',
      '--id',
      'mine-402',
      '--data',
      server.data,
    ])
    expect(listed.stdout).toContain('refused with 402: Key limit exceeded')
  })

  test('429, with the key and the model', async () => {
    const limits = { requests_per_minute: 1 }
    const config = buildLocalConfig('http://127.0.0.1:9/v1', { limits })
    await using limited = await startServer({ config })
    await sendChat(limited).outcome()
    const options = { headers: { 'x-request-id': 'mine-429' } }
    expect((await sendChat(limited, {}, options).outcome()).status).toBe(429)
    expect(await find('mine-429', limited)).toMatchObject([
      {
        id: 'mine-429',
        status: 429,
        error_type: 'rate_limit_exceeded',
        model: 'acme/small',
        key_hash: expect.any(String),
        workspace_id: expect.any(String),
        path: '/api/v1/chat/completions',
      },
    ])
  })

  test('but not a call that became a generation', async () => {
    const outcome = await sendChat(server).outcome()
    expect(outcome.status).toBe(502)
    await sendChat(server, { n: 'x' }, { headers: { 'x-request-id': 'after' } }).outcome()
    await find('after')
    const { stdout } = await runCommand(['logs', '--json', '--data', server.data])
    expect(stdout).not.toContain(outcome.headers['x-request-id'] ?? 'none')
  })
})

describe('a flood', () => {
  test('O-06 is bounded in rate and in number', async () => {
    const gateway = await testGateway({ config: { storage: { refusals: 60 } } })
    const { inference } = await createTestKeys(gateway)
    const skipped: number[] = []
    gateway.events.on('refusals.skipped', ({ count }) => skipped.push(count))
    const app = createApp(gateway)
    const ask = (id: number) =>
      app.handle(
        new Request('http://localhost/api/v1/chat/completions', {
          method: 'POST',
          headers: { authorization: `Bearer ${inference}`, 'x-request-id': `r-${id}` },
          body: '{}x',
        }),
      )
    for (let i = 0; i < 250; i++) expect((await ask(i)).status).toBe(400)
    await gateway.refusals.flush()
    expect(skipped.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0)
    const kept = await gateway.store.refusals.list(1_000)
    expect(kept).toHaveLength(60)
    expect(await gateway.store.refusals.list(9, { id: kept[5]?.id ?? '' })).toEqual(
      kept.slice(5, 6),
    )
    await gateway.close()
  })

  test('of unknown keys leaves the refusals of others where they are, and is counted', async () => {
    const clock = new TestClock()
    const gateway = await testGateway({
      clock,
      config: { storage: { refusals: 60 } },
    })
    const { inference } = await createTestKeys(gateway)
    const app = createApp(gateway)
    const ask = async (key: string, id: string) => {
      const headers = { authorization: `Bearer ${key}`, 'x-request-id': id }
      const url = 'http://localhost/api/v1/chat/completions'
      return (await app.handle(new Request(url, { method: 'POST', headers, body: '{}x' }))).status
    }
    const flood = async (hour: number) => {
      for (let i = 0; i < 300; i++) {
        const key = `gw-v1-${String(i).padStart(72, '0')}`
        expect(await ask(key, `flood-${hour}-${i}`)).toBe(401)
        if (i % 90 === 0) await gateway.refusals.flush()
      }
      await gateway.refusals.flush()
    }
    expect(await ask(inference, 'mine')).toBe(400)
    await flood(0)
    clock.pass(3_600_000)
    await flood(1)
    const { data } = await listRefusals(gateway, { limit: 1000 })
    expect(data.map(({ id }) => id)).toEqual([
      ...Array.from({ length: 10 }, (_, i) => `flood-1-${9 - i}`),
      ...Array.from({ length: 10 }, (_, i) => `flood-0-${9 - i}`),
      'mine',
    ])
    expect(data.map(({ left_out }) => left_out)).toEqual([
      ...[290, ...Array(9).fill(0)],
      ...[290, ...Array(9).fill(0)],
      0,
    ])
    expect(data[0]?.left_out_until).toBe(clock.now().toISOString())
    await gateway.close()
  })

  test('can be paged, and chosen by key and status', async () => {
    const gateway = await testGateway()
    const refusal = (id: number) => ({
      id: `r-${id}`,
      created_at: new Date(id * 1_000).toISOString(),
      path: '/api/v1/keys',
      status: id % 2 === 0 ? 401 : 404,
      error_type: 'x',
      message: 'y',
      key: null,
      key_hash: id < 4 ? 'k' : null,
      workspace_id: null,
      model: null,
    })
    await gateway.store.refusals.add(
      Array.from({ length: 7 }, (_, i) => refusal(i)),
      [],
      100,
    )
    const ids = async (query: RefusalQuery) => {
      const { data, next_cursor } = await listRefusals(gateway, query)
      return [data.map(({ id }) => id).join(' '), next_cursor] as const
    }
    const [first, cursor] = await ids({ limit: 3 })
    const [second, next] = await ids({ limit: 3, cursor: String(cursor) })
    expect([first, second]).toEqual(['r-6 r-5 r-4', 'r-3 r-2 r-1'])
    expect(await ids({ limit: 3, cursor: String(next) })).toEqual(['r-0', null])
    expect(await ids({ key_hash: 'k', status: 404 })).toEqual(['r-3 r-1', null])
    await gateway.close()
  })

  test('is not noted at all where none are kept', async () => {
    const gateway = await testGateway({ config: { storage: { refusals: 0 } } })
    const before = await gateway.store.refusals.list(1_000)
    await getApp(gateway).handle(new Request('http://localhost/api/v1/nothing'))
    await gateway.refusals.flush()
    expect(await gateway.store.refusals.list(1_000)).toEqual(before)
    await gateway.close()
  })
})

test('a call is found too that is refused after its stream has begun to wait', async () => {
  const config = buildLocalConfig('http://127.0.0.1:9/v1', {
    timeouts: { keep_alive_seconds: 0.001 },
  })
  const gateway = await testGateway({ config })
  const { key, data } = await createKey(gateway, getOperator(gateway), { name: 'long' })
  const policy = getPolicy(gateway, { ...getOperator(gateway), key_hash: data.hash })
  const rule = { guardrail_id: 'g', scope: 'key', action: 'flag', pattern: 'rare', label: 'R' }
  const filters = openFilters([rule as FilterRule])
  gateway.memory.policies.set(data.hash, { ...policy, filters })
  const answer = await getApp(gateway).handle(
    new Request('http://localhost/api/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: 'acme/small',
        stream: true,
        messages: [{ role: 'user', content: 'x'.repeat(4_000_000) }],
      }),
    }),
  )
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('"code":400')])
  await gateway.refusals.flush()
  expect(await gateway.store.refusals.list(10)).toMatchObject([
    { id: answer.headers.get('x-request-id'), status: 400, key_hash: data.hash },
  ])
})
