import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { examineValkey } from '../../src/app/valkey.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { waitUntil } from '../support/chat.ts'
import { hasPostgres, type PostgresServer, startPostgres } from '../support/postgres.ts'
import { buildLocalConfig } from '../support/server.ts'
import { type SharingServer, startSharing } from '../support/servers.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'
import { hasValkey, startValkey, type ValkeyServer } from '../support/valkey.ts'

if ((await hasPostgres()) && (await hasValkey())) {
  let postgres: PostgresServer
  let valkey: ValkeyServer
  let upstream: Upstream
  const servers: SharingServer[] = []
  beforeAll(async () => {
    postgres = await startPostgres()
    valkey = await startValkey()
    upstream = await startUpstream()
  })
  afterAll(async () => {
    await upstream.close()
    await valkey[Symbol.asyncDispose]()
    await postgres[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    await valkey.run('FLUSHALL')
    await postgres.empty()
    let answers = 0
    upstream.answer(() => completion(`answer ${++answers}`))
  })
  afterEach(async () => {
    for (const server of servers.splice(0)) await server[Symbol.asyncDispose]()
  })

  /** Starts two servers of the database that use Valkey. */
  async function start(more: object = {}): Promise<[SharingServer, SharingServer]> {
    const storage = { valkey: { url: valkey.url } }
    const config = { ...buildLocalConfig(upstream.url, {}), storage, ...more }
    await startSharing([postgres.url, postgres.url], servers, { config })
    return servers as [SharingServer, SharingServer]
  }

  const ASKED = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }

  /** Asks, and returns what the cache did and what was answered. */
  async function ask(server: SharingServer, more: Record<string, string> = {}, body: object = {}) {
    const response = await server.fetch('/chat/completions', {
      ...{ json: { ...ASKED, ...body }, headers: { 'x-openrouter-cache': 'true', ...more } },
    })
    const answer = (await response.json()) as { choices: { message: { content: string } }[] }
    const status = response.headers.get('x-openrouter-cache-status')
    return [response.status, status, answer.choices[0]?.message.content]
  }

  const listKeys = async (kind: string): Promise<string[]> =>
    (await valkey.run('KEYS', `*:${kind}:*`)) as string[]
  const becomeUp = (of: SharingServer[], isUp: boolean) =>
    waitUntil(async () => of.every(({ gateway }) => gateway.hot?.state.isUp === isUp))

  describe('a kept answer', () => {
    test('of one server is given by the other, also its own again, and forgotten by both', async () => {
      const [a, b] = await start()
      expect(await ask(a)).toEqual([200, 'MISS', 'answer 1'])
      await waitUntil(async () => (await listKeys('answer')).length === 1)
      expect(await ask(b)).toEqual([200, 'HIT', 'answer 1'])
      await valkey.run('FLUSHALL')
      expect(await ask(b)).toEqual([200, 'HIT', 'answer 1'])
      expect(await ask(a, { 'x-openrouter-cache-clear': 'true' })).toEqual([
        200,
        'MISS',
        'answer 2',
      ])
      await waitUntil(async () => (await ask(b))[2] === 'answer 2')
    })

    test('cannot be read or planted by who has access to Valkey', async () => {
      const [a, b] = await start()
      await ask(a)
      await ask(a, {}, { max_tokens: 9 })
      await waitUntil(async () => (await listKeys('answer')).length === 2)
      const [first = '', second = ''] = await listKeys('answer')
      expect(String(await valkey.run('GET', first))).not.toContain('answer')
      await valkey.run('COPY', first, 'kept')
      await valkey.run('COPY', second, first, 'REPLACE')
      await valkey.run('COPY', 'kept', second, 'REPLACE')
      expect(await ask(b)).toEqual([200, 'MISS', 'answer 3'])
      expect(await ask(b, {}, { max_tokens: 9 })).toEqual([200, 'MISS', 'answer 4'])
    })

    test('that is large stays at its server', async () => {
      upstream.answer(() => completion('x'.repeat(300_000)))
      const [a, b] = await start()
      expect((await ask(a))[1]).toBe('MISS')
      expect((await ask(b))[1]).toBe('MISS')
      expect((await ask(a))[1]).toBe('HIT')
      expect(await listKeys('answer')).toHaveLength(0)
    })
  })

  test('a session that a caller names stays at its endpoint at every server', async () => {
    const endpoints = ['one', 'two', 'three', 'four', 'five', 'six'].map(model => ({
      ...{ provider: 'local', model },
      usd_per_million_tokens: { prompt: 1, completion: 1, cache_read: 0.1 },
    }))
    const [a, b] = await start({ models: [{ id: 'acme/small', endpoints }] })
    const stayed: string[] = []
    // A call does not wait for a Valkey that is late: where much else runs, some sessions move once.
    for (let i = 0; stayed.length < 12 && i < 30; i++) {
      const models = new Set<string>()
      for (const server of [a, b]) {
        await server.fetch('/chat/completions', { json: { ...ASKED, session_id: `session ${i}` } })
        const { body = '{}' } = upstream.hits.at(-1) ?? {}
        models.add((JSON.parse(body) as { model: string }).model)
        await waitUntil(async () => (await listKeys('session')).length === i + 1)
      }
      if (models.size === 1) stayed.push(...models)
    }
    expect(stayed).toHaveLength(12)
    expect(new Set(stayed).size).toBeGreaterThan(1)
    const [key = ''] = await listKeys('session')
    expect(Number(await valkey.run('PTTL', key))).toBeGreaterThan(590_000)
    expect(String(await valkey.run('HVALS', key))).not.toContain('acme')
  })

  test('what another program makes of a key keeps nothing else from being shared', async () => {
    const endpoint = {
      ...{ provider: 'local', model: 'one' },
      usd_per_million_tokens: { prompt: 1, completion: 1, cache_read: 0.1 },
    }
    const [a, b] = await start({ models: [{ id: 'acme/small', endpoints: [endpoint] }] })
    await ask(a, {}, { session_id: 'one' })
    await waitUntil(async () => (await listKeys('session')).length === 1)
    await waitUntil(async () => (await listKeys('answer')).length === 1)
    const states: boolean[] = []
    b.gateway.events.on('valkey.changed', ({ isUp }) => states.push(isUp))
    for (const key of [...(await listKeys('session')), ...(await listKeys('answer'))]) {
      await valkey.run('DEL', key)
      await valkey.run('LPUSH', key, 'x')
    }
    expect(await ask(b, {}, { session_id: 'one' })).toEqual([200, 'MISS', 'answer 2'])
    expect(await ask(a, {}, { seed: 1 })).toEqual([200, 'MISS', 'answer 3'])
    await waitUntil(async () => (await ask(b, {}, { seed: 1 }))[2] === 'answer 3')
    expect(states).toEqual([])
  })

  test('an outage fails no call, is told in words, and ends by itself', async () => {
    const [a, b] = await start()
    await ask(a)
    await valkey.stop()
    await becomeUp(servers, false)
    for (const server of [a, b]) expect((await ask(server, {}, { session_id: 'one' }))[0]).toBe(200)
    const ready = await fetch(`${new URL(a.url).origin}/ready`)
    expect([ready.status, await ready.json()]).toEqual([
      200,
      {
        status: 'ready',
        degraded: 'valkey',
        valkey: expect.stringMatching(/closed|reached|does not answer/),
      },
    ])
    expect(openMetrics(a.gateway).renderText()).toContain('\ngateway_valkey_up 0\n')
    expect(await examineValkey(a.gateway)).toEqual({
      ...{ check: 'valkey', ok: true },
      found: expect.stringMatching(
        /^127\.0\.0\.1:\d+: degraded: it cannot be reached \(ECONNREFUSED\)/,
      ),
    })
    // What it has not heard of it hears afterwards.
    expect((await ask(a, { 'x-openrouter-cache-clear': 'true' }))[1]).toBe('MISS')
    await valkey.start()
    await becomeUp(servers, true)
    expect((await examineValkey(a.gateway)).found).toEndWith(': answers')
    const [, , answer] = await ask(a, {}, { seed: 1 })
    await waitUntil(async () => (await listKeys('answer')).length > 0)
    expect(await ask(b, {}, { seed: 1 })).toEqual([200, 'HIT', answer])
  })
}
