import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { examineNodes, forgetNode, listNodes } from '../../src/app/nodes.ts'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import { createBatchRunner } from '../../src/extensions/batches/runner.ts'
import { beginLogin } from '../../src/extensions/tools/mcp/login.ts'
import { getToken } from '../../src/extensions/tools/mcp/oauth.ts'
import { provideKey } from '../../src/limits/workloads.ts'
import { runCommands } from '../../src/network/containers/commands.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { listAudit } from '../../src/resources/audit.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import {
  beginProviderSession,
  endProviderSessions,
  findSession,
} from '../../src/resources/sign-ins.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { VERSION } from '../../src/store/postgres/schema.ts'
import { startAuthorizationServer } from '../support/authorization-server.ts'
import { waitUntil } from '../support/chat.ts'
import { openDeafProxy } from '../support/deaf-proxy.ts'
import { TestClock } from '../support/gateway.ts'
import { startMcpServer } from '../support/mcp-server.ts'
import { hasPostgres, type PostgresServer, startPostgres } from '../support/postgres.ts'
import { startReceiver } from '../support/receiver.ts'
import { FakeSandbox } from '../support/sandboxes/fake.ts'
import { buildLocalConfig } from '../support/server.ts'
import { type SharingServer, startSharing } from '../support/servers.ts'
import {
  completion,
  delta,
  sseHead,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

if (await hasPostgres()) {
  let postgres: PostgresServer
  let upstream: Upstream
  const servers: SharingServer[] = []
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres[Symbol.asyncDispose]())
  beforeEach(async () => {
    await postgres.empty()
    upstream = await startUpstream()
  })
  afterEach(async () => {
    for (const server of servers.splice(0)) await server[Symbol.asyncDispose]()
    await upstream.close()
  })

  /** Starts two servers of the database. */
  async function start(
    config: Record<string, unknown> = {},
    options: { parts?: object; urls?: string[] } = {},
  ): Promise<[SharingServer, SharingServer]> {
    const { parts = {}, urls = [postgres.url, postgres.url] } = options
    await startSharing(urls, servers, { config: buildLocalConfig(upstream.url, config), parts })
    return servers as [SharingServer, SharingServer]
  }

  const MESSAGES = [{ role: 'user', content: 'Hi' }]
  const chat = (server: SharingServer, key?: string, more: object = {}) =>
    server.fetch('/chat/completions', {
      json: { model: 'acme/small', messages: MESSAGES, ...more },
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
    })

  describe('a call under an Idempotency-Key', () => {
    test('that another server makes is refused, and answered with its answer afterwards', async () => {
      const [a, b] = await start()
      upstream.plan([{ wait: 'go' }, completion('Once')])
      const first = chat(a, 'k1')
      await upstream.hit()
      const during = await chat(b, 'k1')
      expect([during.status, await during.text()]).toEqual([
        409,
        expect.stringContaining('still runs'),
      ])
      upstream.open('go')
      const answer = await (await first).text()
      let again = await chat(b, 'k1')
      await waitUntil(async () => {
        again = await chat(b, 'k1')
        return again.status !== 409
      })
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
      expect(await again.text()).toBe(answer)
      expect((await chat(b, 'k1', { max_tokens: 1 })).status).toBe(422)
      expect(upstream.hits).toHaveLength(1)
    })

    test('whose server is gone is not made again, and names its generation', async () => {
      const [a, b] = await start()
      upstream.plan([{ wait: 'go' }, completion('Once')])
      const first = chat(a, 'k1')
      await upstream.hit()
      await postgres.run("update gateway.kept_calls set incarnation = 'killed'")
      const refused = await readError(chat(b, 'k1'))
      expect([refused.status, refused.error.message]).toEqual([
        409,
        expect.stringContaining('was interrupted'),
      ])
      expect(refused.error.metadata.generation_id).toMatch(/^gen-/)
      upstream.open('go')
      await (await first).text()
      expect(upstream.hits).toHaveLength(1)
    })

    test('whose answer is too long for others is not made again', async () => {
      const [a, b] = await start()
      upstream.plan(completion('x'.repeat(9 * 1024 * 1024)))
      await (await chat(a, 'k1')).text()
      await waitUntil(async () =>
        (await readError(chat(b, 'k1'))).error.message.includes('its answer is gone'),
      )
      expect(upstream.hits).toHaveLength(1)
    })

    test('that has failed may be made again anywhere', async () => {
      const [a, b] = await start()
      upstream.plan(status(500))
      expect((await chat(a, 'k1')).status).toBeGreaterThanOrEqual(500)
      upstream.plan(completion('Now'))
      await waitUntil(async () => (await chat(b, 'k1')).status === 200)
    })

    test('is not made while the database is away, and plain calls are', async () => {
      const [, b] = await start()
      upstream.plan(completion('Hello'))
      await (await chat(b)).text()
      await postgres.stop()
      const refused = await chat(b, 'k1')
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
      expect((await chat(b)).status).toBe(200)
      await postgres.start()
      expect(upstream.hits).toHaveLength(2)
    })
  })

  async function readError(answer: Promise<Response>) {
    const response = await answer
    const { error } = (await response.json()) as {
      error: { message: string; metadata: { generation_id?: string } }
    }
    return { status: response.status, error }
  }

  describe('what is used once', () => {
    test('an approval that one server asks for is taken by another, once at both', async () => {
      const [a, b] = (await start()).map(({ gateway }) => gateway.traffic.approvals)
      const id = a?.issue('w', 'add') ?? ''
      expect(b?.issue('w', 'add')).not.toBe(id)
      expect([b?.check(id, 'add'), b?.check(id, 'delete')]).toEqual(['good', 'unknown'])
      expect(await b?.use(id)).toBe(true)
      expect(await a?.use(id)).toBe(false)
      b?.giveBack(id)
      await waitUntil(async () => (await a?.use(id)) === true)
    })

    test('a token is exchanged once, also by a server that has started since', async () => {
      const [a, b] = (await start()).map(({ gateway }) => gateway.workloads.used)
      const now = new Date()
      const at = Math.floor(now.getTime() / 1000)
      const subject = { jti: 'one', issuedAt: at - 3_600, expiresAt: at + 60 } as never
      await a?.use('ci', subject, now)
      await expect(b?.use('ci', subject, now)).rejects.toThrow('it was exchanged already')
      await b?.use('another', subject, now)
    })
  })

  describe('a workload', () => {
    const RULE = { issuer: 'https://ci.example', audiences: ['gateway'], claims: { sub: ['repo'] } }
    const config = {
      server: { site_url: 'https://gateway.example' },
      oauth: { issuers: { ci: RULE } },
    }
    const provide = ({ gateway }: SharingServer) =>
      provideKey(gateway, 'ci', gateway.config.oauth.issuers.ci as never, { name: 'repo' })

    test('has one key, whichever servers it asks at once', async () => {
      const issuers = { ci: { ...RULE, most_subjects: 1 } }
      const [a, b] = await start({ ...config, oauth: { issuers } })
      const [first, second] = await Promise.all([provide(a), provide(b)])
      expect(second.hash).toBe(first.hash)
    })

    test('is one of as many as its policy allows, whichever servers they ask at once', async () => {
      const issuers = { ci: { ...RULE, most_subjects: 3 } }
      const both = await start({ ...config, oauth: { issuers } })
      const asked = Array.from({ length: 12 }, (_, i) => {
        const { gateway } = both[i % 2] as SharingServer
        const rule = gateway.config.oauth.issuers.ci as never
        return provideKey(gateway, 'ci', rule, { name: `repo ${i}` })
      })
      const results = await Promise.allSettled(asked)
      const reasons = results.flatMap(one =>
        one.status === 'rejected' ? [String(one.reason)] : [],
      )
      expect(reasons).toHaveLength(9)
      for (const reason of reasons) expect(reason).toContain('subjects already')
      const made = "select from gateway.keys where external_user like 'repo %'"
      expect(await postgres.run(made)).toHaveLength(3)
    })

    test('is known by its token where its key was not heard of yet', async () => {
      await using proxy = openDeafProxy(postgres.url)
      const [a, b] = await start(config, { urls: [postgres.url, proxy.url] })
      const { hash: key_hash } = await provide(a)
      const grant = { policy: 'ci', issuer: RULE.issuer, subject: 'repo', key_hash }
      const key = await a.gateway.workloads.tokens.sign(a.gateway, grant, 60, 'one')
      expect((await b.fetch('/key', { key })).status).toBe(200)
      expect((await b.fetch('/key', { key: `${key}x` })).status).toBe(401)
    })
  })

  test('a batch is made with the key and the preset that another server has made a moment ago', async () => {
    await using proxy = openDeafProxy(postgres.url)
    const [a, b] = await start({}, { urls: [postgres.url, proxy.url] })
    await b.gateway.jobs?.claim()
    upstream.plan([completion('Made')])
    const { key } = await createKey(a.gateway, getOperator(a.gateway), { name: 'new' })
    const preset = { messages: [{ role: 'system', content: 'Be brief' }] }
    await a.fetch('/presets/brief/chat/completions', { key, json: preset })
    const body = { messages: MESSAGES, preset: 'brief' }
    const requests = [{ custom_id: 'one', body }]
    const json = { endpoint: '/v1/chat/completions', model: 'acme/small', requests }
    const { id } = (await (await a.fetch('/batches', { key, json })).json()) as { id: string }
    const runner = createBatchRunner(b.gateway)
    await runner.start()
    await runner.rest()
    await runner.stop()
    const batch = await b.gateway.store.batches.find(id)
    expect(batch).toMatchObject({ status: 'completed', errors: [], completed: 1, failed: 0 })
  })

  test('a call is told to a destination that another server has switched on a moment ago', async () => {
    await using proxy = openDeafProxy(postgres.url)
    const receiver = await startReceiver()
    const config = { security: { allow_private_urls: [receiver.host] } }
    const [a, b] = await start(config, { urls: [postgres.url, proxy.url] })
    const { deliveries, jobs } = b.gateway
    await jobs?.claim()
    await deliveries.start()
    const actor = getOperator(a.gateway)
    const hook = { type: 'webhook', name: 'hook', config: { url: receiver.url } }
    await createDestination(a.gateway, actor, hook as never)
    await b.gateway.catchUp()
    const on = { is_observability_broadcast_enabled: true }
    await updateWorkspace(a.gateway, actor, a.gateway.memory.owner.workspace_id, on)
    upstream.plan([completion('Hi')])
    expect((await chat(a)).status).toBe(200)
    await deliveries.look(1)
    await waitUntil(() => deliveries.list().every(({ waiting }) => waiting === 0))
    expect(deliveries.list()).toMatchObject([{ delivered: 1, dropped: 0 }])
    await deliveries.stop()
    await receiver.close()
  })

  test('a sign-in that is under way when another server is told of its logout does not begin', async () => {
    const [{ gateway: a }, { gateway: b }] = await start()
    const at = Math.floor(Date.now() / 1000)
    const there = { issuer: 'https://id.example', subject: 's', sid: null }
    await endProviderSessions(a, { ...there, at }, new Date().toISOString())
    const { user_id } = a.memory.owner
    await expect(beginProviderSession(b, user_id, there, at)).rejects.toThrow(
      'signed out meanwhile',
    )
    const session = await beginProviderSession(b, user_id, there, at + 1)
    expect((await findSession(a, session))?.member?.id).toBe(user_id)
  })

  test('a login at an MCP server is refreshed by one server for both', async () => {
    const mcp = startMcpServer({ tools: [] })
    const authorization = startAuthorizationServer(mcp.url)
    await using stack = new AsyncDisposableStack()
    stack.defer(async () => void (await mcp.close()))
    stack.defer(async () => void (await authorization.stop()))
    const clock = new TestClock()
    const own = { url: authorization.url, oauth: { grant: 'authorization_code' } }
    const allowed = { allow_private_urls: [authorization.host] }
    const config = { security: allowed, mcp_servers: { own } }
    const [{ gateway: a }, { gateway: b }] = await start(config, { parts: { clock } })
    const begun = await beginLogin(a, getOperator(a), 'own', 'http://127.0.0.1:5/callback')
    await begun.finish(authorization.consent(begun.url).searchParams)
    const token = (gateway: Gateway) =>
      getToken(gateway, 'own', gateway.config.mcp_servers.own?.oauth as never)
    expect(await Promise.all([token(a), token(b)])).toEqual(['access-1', 'access-1'])
    clock.pass(540_000)
    expect(await Promise.all([token(a), token(b)])).toEqual(['access-2', 'access-2'])
    expect(authorization.asked.filter(one => one === 'token refresh_token')).toHaveLength(1)
  })

  describe('a response in the background', () => {
    const begin = async (server: SharingServer, stream = false) => {
      const json = { model: 'acme/small', input: 'Hi', background: true, stream }
      const response = await server.fetch('/responses', { json })
      if (!stream) return ((await response.json()) as { id: string }).id
      await response.body?.cancel()
      return ''
    }
    const read = async (server: SharingServer, path: string, init: object = {}) =>
      (await (await server.fetch(`/responses/${path}`, init)).json()) as {
        status: string
        error?: { message: string }
      }

    test('is told of, and cancelled, at any server', async () => {
      const [a, b] = await start({ responses: { store: true } })
      upstream.plan([{ wait: 'go' }, completion('Late')])
      const id = await begin(a)
      const hit = await upstream.hit()
      expect((await read(b, id)).status).toBe('in_progress')
      expect((await read(b, `${id}?stream=true`)).error?.message).toContain('kept here')
      expect((await read(b, `${id}/cancel`, { method: 'POST' })).status).toBe('cancelled')
      await hit.clientLeft
      expect((await read(a, id)).status).toBe('cancelled')
    })

    test('whose server is gone has failed', async () => {
      const [a, b] = await start({ responses: { store: true } })
      upstream.plan([{ wait: 'go' }, completion('Late')])
      const id = await begin(a)
      await upstream.hit()
      await postgres.run(
        `update gateway.marks set name = 'maker ${id} killed' where name like 'maker %'`,
      )
      expect(await read(b, id)).toMatchObject({ status: 'failed' })
      expect((await read(a, id)).status).toBe('in_progress')
      upstream.open('go')
      await waitUntil(async () => (await read(b, id)).status === 'completed')
    })

    test('that another server deletes is ended, and its events with it', async () => {
      const [a, b] = await start({ responses: { store: true } })
      upstream.plan([sseHead(), delta('One'), { wait: 'go' }])
      const json = { model: 'acme/small', input: 'Hi', background: true, stream: true }
      const response = await a.fetch('/responses', { json })
      const hit = await upstream.hit()
      const [id = ''] = a.gateway.traffic.background.keys()
      expect((await b.fetch(`/responses/${id}`, { method: 'DELETE' })).status).toBe(200)
      await hit.clientLeft
      await response.text()
      await waitUntil(() => a.gateway.traffic.eventLogs.get(id) === undefined)
    })
  })

  describe('a container', () => {
    const open = async () => {
      const sandboxes = [new FakeSandbox(), new FakeSandbox()] as const
      const [a, b] = await start({ sandbox: { kind: 'just-bash' } })
      a.gateway.sandboxes = [sandboxes[0]]
      b.gateway.sandboxes = [sandboxes[1]]
      return { a: a.gateway, b: b.gateway, sandboxes }
    }
    const run = (gateway: SharingServer['gateway'], ...commands: string[]) =>
      runCommands(gateway, {
        ...{ workspace_id: gateway.memory.owner.workspace_id, holder: 'k', name: 'mine' },
        ...{ file_ids: [], commands, hosts: [], timeoutMs: 5_000, maxOutput: 100 },
        cancellation: new Cancellation(),
      })

    test('moves to the server that uses it, with its files', async () => {
      const { a, b, sandboxes } = await open()
      await run(a, 'write a.txt one')
      expect(sandboxes[0].open_boxes).toHaveLength(1)
      const { results } = await run(b, 'read a.txt', 'write a.txt two')
      expect(results[0]?.stdout).toBe('one')
      expect(sandboxes[0].open_boxes).toHaveLength(0)
      expect((await run(a, 'read a.txt')).results[0]?.stdout).toBe('two')
      expect(sandboxes[1].open_boxes).toHaveLength(0)
    })

    test('that a command uses elsewhere is not used here', async () => {
      const { a, b, sandboxes } = await open()
      const slow = run(a, 'slow a.txt one')
      await waitUntil(() => sandboxes[0].boxes.length > 0)
      await sandboxes[0].boxes[0]?.hung.promise
      b.warm.longestWait = 300
      await expect(run(b, 'read a.txt')).rejects.toThrow('The container runs at another server')
      expect(sandboxes[1].boxes).toHaveLength(0)
      b.warm.longestWait = 10_000
      const waiting = run(b, 'read a.txt')
      sandboxes[0].boxes[0]?.go.resolve()
      await slow
      expect((await waiting).results[0]?.stdout).toBe('one')
    })

    test('that was used elsewhere meanwhile goes on with what is on record', async () => {
      const { a, b, sandboxes } = await open()
      await run(a, 'write a.txt one')
      // As of one that was cut off from the database for long, and has not ended.
      await postgres.run('delete from gateway.homes')
      await run(b, 'write a.txt two')
      expect(sandboxes[0].open_boxes).toHaveLength(1)
      expect((await run(a, 'read a.txt')).results[0]?.stdout).toBe('two')
    })

    test('whose server is gone begins again elsewhere', async () => {
      const { a, b } = await open()
      await run(a, 'write a.txt one')
      await postgres.run("update gateway.homes set incarnation = 'killed'")
      expect((await run(b, 'read a.txt')).results[0]?.stdout).toBe('one')
    })
  })

  test('what is remembered together is bounded, and removed when it is over', async () => {
    const [{ gateway }] = await start()
    const { shared, nodes } = gateway.store
    const [{ incarnation = '' } = {}] = (await nodes?.list()) ?? []
    const calls = shared?.openCalls(incarnation)
    for (const name of ['a', 'b', 'c']) {
      expect(await calls?.begin({ name, fingerprint: 'f' })).toBeNull()
      if (name !== 'c') await calls?.end(name, 'x'.repeat(100))
    }
    await calls?.trim(100)
    const list = async (table: string, column: string) =>
      (await postgres.run(`select ${column} as name from gateway.${table} order by 1`)).map(
        row => (row as { name: string }).name,
      )
    expect(await list('kept_calls', 'name')).toEqual(['b', 'c'])
    expect(await calls?.begin({ name: 'b', fingerprint: 'f' })).toMatchObject({ is_running: false })
    await postgres.run("update gateway.kept_calls set begun_at = now() - interval '25 hours'")
    expect(await calls?.begin({ name: 'b', fingerprint: 'g' })).toBeNull()
    expect(await calls?.begin({ name: 'b', fingerprint: 'g' })).toMatchObject({ is_running: true })
    await shared?.marks.add('long', 60)
    await shared?.marks.add('short', -1)
    expect(await shared?.marks.add('short', -1)).toBe(true)
    await postgres.run("insert into gateway.homes values ('left', 'killed', false)")
    await shared?.sweep()
    expect(await list('kept_calls', 'name')).toEqual(['b'])
    expect(await list('marks', 'name')).toEqual(['long'])
    expect(await list('homes', 'container_id')).toEqual([])
  })

  describe('servers that differ', () => {
    test('are told apart by their configs, and named by doctor', async () => {
      const [a, b] = (await start()).map(({ gateway }) => gateway) as [Gateway, Gateway]
      const { data } = await listNodes(a)
      expect(data.map(({ state, schema_version }) => [state, schema_version])).toEqual([
        ['serving', VERSION],
        ['serving', VERSION],
      ])
      expect(data[0]?.config_hash).toMatch(/^[0-9a-f]{12}$/)
      expect(await examineNodes(a)).toMatchObject({
        ok: true,
        found: '2 servers are there, all alike',
      })
      await reconfigure(b, { ...b.config, timeouts: { ...b.config.timeouts, total_seconds: 99 } })
      await waitUntil(async () => !(await examineNodes(a)).ok)
      const { found } = await examineNodes(a)
      expect(found).toMatch(/and they differ: .+ has config_hash [0-9a-f]{12}; .+ has config_hash /)
      expect(found).not.toContain('schema_version')
    })

    test('the one that is forgotten is on the audit trail', async () => {
      const [{ gateway: a }, b] = await start()
      await b.gateway.close()
      const operator = getOperator(a)
      const gone = (await listNodes(a)).data.find(({ state }) => state === 'ended')
      // As one that was killed: it has not said that it ends.
      await postgres.run(
        `update gateway.nodes set left_at = null, seen_at = now() - interval '91 seconds'
          where id = '${gone?.id}'`,
      )
      await forgetNode(a, operator, gone?.id ?? '')
      const [entry] = (await listAudit(a, operator, { action: 'nodes.forget' })).data
      expect(entry).toMatchObject({ resource_id: gone?.id, after: null, before: { id: gone?.id } })
    })
  })

  describe('a key that one server disables', () => {
    async function disable({ gateway }: SharingServer) {
      const [key] = gateway.memory.keys.filter(({ kind }) => kind === 'inference')
      await updateKey(gateway, getOperator(gateway), key?.hash ?? '', { disabled: true })
      return performance.now()
    }
    const ask = async (server: SharingServer) => (await server.fetch('/key')).status
    /** How long another server takes it, in milliseconds. */
    async function measure([a, b]: [SharingServer, SharingServer]): Promise<number> {
      expect(await ask(b)).toBe(200)
      const since = await disable(a)
      await waitUntil(async () => (await ask(b)) === 401)
      return performance.now() - since
    }

    test('is refused at another at once', async () => {
      expect(await measure(await start())).toBeLessThan(500)
    })

    test('is refused there also after the database has cut all connections', async () => {
      const servers = await start()
      await postgres.cut()
      await waitUntil(
        async () =>
          await servers[0].gateway.catchUp().then(
            () => true,
            () => false,
          ),
      )
      expect(await measure(servers)).toBeLessThan(2_500)
    })

    test('is refused there within a second where the database tells nothing', async () => {
      await using proxy = openDeafProxy(postgres.url)
      const taken = await measure(await start({}, { urls: [postgres.url, proxy.url] }))
      expect(proxy.dropped).toBeGreaterThan(0)
      expect(taken).toBeLessThan(2_500)
    })

    test('has nobody read again what no server keeps', async () => {
      const [a, b] = await start()
      upstream.plan(completion('Hello'))
      await (await chat(a, 'k1')).text()
      await a.gateway.recorder.flush()
      await a.gateway.rollups.close()
      expect(await b.gateway.catchUp()).toBe(false)
    })
  })
} else
  describe('servers that share a database', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })
