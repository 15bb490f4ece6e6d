import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import type { Json } from '../../src/base/json.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import { testGateway } from '../support/gateway.ts'
import { startMcpServer, textResult } from '../support/mcp-server.ts'
import { head, json, type Script, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * What servers and clients send to /mcp that they should not: an answer in words, and nobody else
 * is harmed.
 */

const PRICE = 0.25
const web = startMcpServer({ tools: [{ name: 'add', run: () => textResult('far away') }] })
let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => Promise.all([web.close(), upstream.close()]))

let gateway: Gateway
let app: ReturnType<typeof createApp>
let secret: string
let hash: string
let generations: Generation[]

async function open(settings: Json = {}, key: { limit?: number } = {}): Promise<void> {
  const config = {
    mcp_servers: {
      bad: { url: upstream.url, usd_per_call: PRICE, timeout_seconds: 10 },
      web: { url: web.url, usd_per_call: PRICE },
    },
    ...settings,
  }
  gateway = await testGateway({ config })
  const made = await createKey(gateway, getOperator(gateway), { name: 'k', ...key })
  secret = made.key
  hash = made.data.hash
  app = createApp(gateway)
  generations = []
  gateway.events.on('generation.finished', generation => generations.push(generation))
}
beforeEach(() => open())

const send = (path: string, init: RequestInit & { key?: string } = {}): Promise<Response> =>
  Promise.resolve(
    app.handle(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        ...init,
        headers: {
          authorization: `Bearer ${init.key ?? secret}`,
          'content-type': 'application/json',
          ...(init.headers as Record<string, string> | undefined),
        },
      }),
    ),
  )

const ask = (path: string, message: object, init: RequestInit & { key?: string } = {}) =>
  send(path, { ...init, body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }) })

/** Calls a tool, and returns its result or error. */
async function call(path: string, name = 'add', args: Json = {}, init: RequestInit = {}) {
  const params = { name, arguments: args }
  return (await (await ask(path, { method: 'tools/call', params }, init)).json()) as Json
}
const textOf = ({ result }: Json) => (result as { content: Json[] }).content[0]?.text
const works = async () => expect(textOf(await call('/mcp/web'))).toBe('far away')

async function initialize(init: { key?: string } = {}): Promise<Record<string, string>> {
  const response = await ask('/mcp', { method: 'initialize', params: {} }, init)
  return { 'mcp-session-id': response.headers.get('mcp-session-id') ?? '' }
}

const account = () => `key ${hash}` as const
/** Nothing is held or counted any more, and so much was charged, in nano-dollars. */
const expectSettled = (spent: bigint) =>
  expect([
    ...[gateway.ledger.getHeld(account(), false), gateway.ledger.getSpent(account(), null, false)],
    gateway.traffic.calls.size,
  ]).toEqual([0n, spent, 0])

type Message = { id: number; method: string; params: Json }
const result = (id: number, value: unknown) => json({ jsonrpc: '2.0', id, result: value })
const TOOLS = { tools: [{ name: 'add', inputSchema: { type: 'object' } }] }
const SSE = { 'content-type': 'text/event-stream' }

/** Has the bad server begin a session and list a tool, and answer the call of it as it is told. */
function lie(answer: (message: Message) => Script, tools: (id: number) => Script = listTools) {
  upstream.answer(({ json: message }) => {
    const { id, method } = message as Message
    const serverInfo = { name: 'liar', version: '1' }
    const capabilities = { tools: {} }
    if (method === 'initialize')
      return result(id, { protocolVersion: '2025-06-18', capabilities, serverInfo })
    if (id === undefined) return head(202, { 'content-length': '0' })
    return method === 'tools/list' ? tools(id) : answer(message as Message)
  })
}
const MANY_VALUES = { content: [], structuredContent: { a: Array(1_000_000).fill(1) } }
const listTools = (id: number) => result(id, TOOLS)

describe('a server', () => {
  test('that hangs fails in its time, and harms no other call', async () => {
    await open({
      mcp_servers: { bad: { url: upstream.url, timeout_seconds: 0.3 }, web: { url: web.url } },
    })
    lie(() => ({ wait: 'never' }))
    const hanging = call('/mcp/bad')
    await works()
    expect(JSON.stringify(await hanging)).toContain('no answer in time')
    lie(
      () => [],
      () => ({ wait: 'never' }),
    )
    await open({
      mcp_servers: { bad: { url: upstream.url, timeout_seconds: 0.3 }, web: { url: web.url } },
    })
    expect(await (await ask('/mcp', { method: 'tools/list' })).json()).toMatchObject({
      result: { tools: [{ name: 'web__add' }] },
    })
    await upstream.emptied()
    expectSettled(0n)
  })

  test('that sends more than it may is not read to its end', async () => {
    await open({ mcp: { max_answer_mib: 1 }, mcp_servers: { bad: { url: upstream.url } } })
    const large = Array.from({ length: 40 }, () => 'x'.repeat(64 * 1024))
    for (const script of [
      (id: number): Script => [
        head(200, { 'content-type': 'application/json' }),
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"`,
        ...large,
        { wait: 'never' },
      ],
      (): Script => [head(200, SSE), 'data: ', ...large, { wait: 'never' }],
    ]) {
      lie(({ id }) => script(id))
      expect(textOf(await call('/mcp/bad'))).toBe('The MCP server sent too much')
      await upstream.emptied()
    }
    expectSettled(0n)
  })

  test.each<[string, Script]>([
    ['breaks off', ['data: {"jsonrpc":', { end: 'rst' }]],
    ['ends with another answer', 'data: {"jsonrpc":"2.0","id":77,"result":{}}\n\n'],
    ['is empty', []],
  ])('whose stream %s fails at once', async (_, script) => {
    lie(() => [head(200, SSE), script])
    expect(await call('/mcp/bad')).toMatchObject({ result: { isError: true } })
    expectSettled(0n)
  })

  test.each<[string, (id: number) => Script]>([
    ['JSON', id => json({ jsonrpc: '2.0', id, result: MANY_VALUES })],
    [
      'a stream',
      id => [
        head(200, SSE),
        `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: MANY_VALUES })}\n\n`,
      ],
    ],
  ])('that answers with a million values in %s is not read', async (_, script) => {
    lie(({ id }) => script(id))
    expect(textOf(await call('/mcp/bad'))).toBe('The MCP server sent too much')
    expectSettled(0n)
  })

  test('whose credential is the name of a member is shown without it', async () => {
    const headers = { 'x-secret': 'hunter2hunter2' }
    await open({ mcp_servers: { bad: { url: upstream.url, headers } } })
    const member = { 'a hunter2hunter2 b': ['hunter2hunter2'] }
    lie(({ id }) => result(id, { content: [], structuredContent: member }))
    const shown = JSON.stringify(await call('/mcp/bad'))
    expect(shown).toContain('a [secret] b')
    expect(shown).not.toContain('hunter2')
  })

  test('whose stream breaks off after its answer has answered', async () => {
    const answer = (id: number, value: unknown): Script => [
      head(200, SSE),
      `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: value })}\n\n`,
      { end: 'rst' },
    ]
    lie(
      ({ id }) => answer(id, textResult('whole')),
      id => answer(id, TOOLS),
    )
    for (let i = 0; i < 5; i++) expect(textOf(await call('/mcp/bad'))).toBe('whole')
  })

  test.each<[string, (id: number) => Script]>([
    ['a redirect into the private network', () => head(307, { location: 'http://10.0.0.1/mcp' })],
    ['a redirect to another port', () => head(307, { location: web.url })],
    ['HTML', () => [head(200, { 'content-type': 'text/html', 'content-length': '3' }), '<p>']],
    ['half JSON', () => [head(200, { 'content-type': 'application/json' }), '{"jsonrpc":']],
    ['content of another form', id => result(id, { content: 'text' })],
    ['endless nesting', id => nest(id, 100_000)],
    ['much nesting', id => nest(id, 5_000)],
  ])('that answers with %s is a result or a failure, and no fault of ours', async (_, script) => {
    const before = web.requests.length
    const failed: unknown[] = []
    gateway.events.on('request.failed', ({ error }) => failed.push(error))
    lie(({ id }) => script(id))
    expect(await call('/mcp/bad')).toMatchObject({ result: { content: expect.anything() } })
    expect([failed, web.requests.length]).toEqual([[], before])
    await works()
  })

  test.each(['sampling/createMessage', 'elicitation/create', 'roots/list'])(
    'that asks the client by %s is refused, and the client hears nothing of it',
    async method => {
      const answers: Json[] = []
      const question = { jsonrpc: '2.0', id: 99, method, params: { message: 'Your password?' } }
      upstream.answer(({ json: message }) => {
        const { id, method: own, error } = message as Message & { error?: Json }
        if (!error) return script(id, own)
        answers.push(error)
        upstream.open(method)
        return head(202, { 'content-length': '0' })
      })
      const script = (id: number | undefined, own: string): Script => {
        const serverInfo = { name: 'liar', version: '1' }
        if (own === 'initialize')
          return result(id as number, {
            ...{ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo },
          })
        if (id === undefined) return head(202, { 'content-length': '0' })
        if (own === 'tools/list') return listTools(id)
        const answer = { jsonrpc: '2.0', id, result: textResult('done') }
        return [
          head(200, SSE),
          `data: ${JSON.stringify(question)}\n\n`,
          { wait: method },
          `data: ${JSON.stringify(answer)}\n\n`,
        ]
      }
      const params = { capabilities: { elicitation: {}, sampling: {}, roots: {} } }
      const opened = await ask('/mcp/bad', { method: 'initialize', params })
      const headers = {
        'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
        accept: 'application/json, text/event-stream',
      }
      expect(textOf(await call('/mcp/bad', 'add', {}, { headers }))).toBe('done')
      expect(answers).toMatchObject([{ code: -32_601 }])
    },
  )

  test('that takes other arguments than it listed is held to its list', async () => {
    let listed = 0
    lie(
      ({ id }) => result(id, textResult('ran')),
      id => {
        const properties = { [`a${++listed}`]: {} }
        return result(id, { tools: [{ name: 'add', inputSchema: { type: 'object', properties } }] })
      },
    )
    const opened = await ask('/mcp/bad', { method: 'initialize', params: {} })
    const headers = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' }
    await ask('/mcp/bad', { method: 'tools/list' }, { headers })
    expect(textOf(await call('/mcp/bad', 'add', {}, { headers }))).toContain('list the tools again')
    expectSettled(0n)
  })
})

/** Nests lists in a result. */
const nest = (id: number, depth: number): Script => {
  const text = `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}}`
  return [
    head(200, { 'content-type': 'application/json', 'content-length': String(text.length) }),
    text,
  ]
}

describe('a client', () => {
  test.each<[string, string, number]>([
    ['half JSON', '{"jsonrpc":"2.0","id":1,', 400],
    ['nothing', '', 400],
    ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400],
    ['an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', 400],
    ['an id that is a fraction', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400],
    ['an id of another size', '{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', 400],
    ['a long id', `{"jsonrpc":"2.0","id":"${'1'.repeat(257)}","method":"ping"}`, 400],
    ['a long method', `{"jsonrpc":"2.0","id":1,"method":"${'p'.repeat(257)}"}`, 400],
    ['parameters that are a list', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400],
    ['40 MB', `{"jsonrpc":"2.0","id":1,"method":"${'p'.repeat(40_000_000)}"}`, 413],
  ])('that sends %s is refused', async (_, body, status) => {
    expect((await send('/mcp', { body })).status).toBe(status)
    await works()
  })

  test.each<[string, Record<string, string>, number]>([
    ['no key', { authorization: '' }, 401],
    ['a key of another form', { authorization: 'Basic azpr' }, 401],
    ['a key in another header', { authorization: '', 'x-api-key': 'sk' }, 401],
    ['a session that is none', { 'mcp-session-id': 'x'.repeat(10_000) }, 404],
    ['an unknown version', { 'mcp-protocol-version': '2023-01-01' }, 400],
    ['the origin of a foreign site', { origin: 'http://evil.example' }, 403],
    ['an origin that is null', { origin: 'null' }, 403],
  ])('that comes with %s is refused', async (_, headers, status) => {
    for (const method of ['POST', 'GET', 'DELETE'] as const)
      for (const path of ['/mcp', '/mcp/web']) {
        const body = method === 'POST' ? '{"jsonrpc":"2.0","id":1,"method":"ping"}' : null
        const answer = await send(path, { method, headers, body })
        expect(answer.status).toBe(status)
      }
  })

  test('that comes from a page of a site that the config allows is answered', async () => {
    const cors = ['https://app.example']
    await open({ server: { cors, site_url: 'https://gateway.example/x' } })
    for (const origin of [...cors, 'https://gateway.example'])
      expect((await ask('/mcp', { method: 'ping' }, { headers: { origin } })).status).toBe(200)
  })

  test('whose arguments are too long is refused before they are looked at', async () => {
    const before = web.requests.length
    const answer = await call('/mcp/web', 'add', { a: '😀'.repeat(600_000) })
    expect(answer).toMatchObject({ error: { message: expect.stringContaining('at most 1048576') } })
    expect(web.requests.length).toBe(before)
    expectSettled(0n)
  })

  test('that nests its arguments 10,000 deep is answered', async () => {
    const args = `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":${args}}}`
    const answer = await send('/mcp/web', { body })
    expect([200, 400]).toContain(answer.status)
    expect(JSON.stringify(await answer.json())).not.toContain('Internal')
    await works()
  })

  test('that leaves in the middle gives back what it has taken', async () => {
    await open({ limits: { concurrent_requests: 1 } }, { limit: 2 * PRICE })
    lie(() => ({ wait: 'never' }))
    const leaving = new AbortController()
    const before = upstream.hits.length
    const asked = call('/mcp/bad', 'add', {}, { signal: leaving.signal })
    // A list of three requests comes before the call, which is the third of its session.
    const hit = await upstream.hit(before + 6)
    expect(gateway.ledger.getHeld(account(), false)).toBe(250_000_000n)
    leaving.abort()
    await hit.clientLeft
    expect(await asked).toMatchObject({ error: { data: { status: 499 } } })
    // Its tool may have done its work all the same.
    expect(generations).toMatchObject([{ total_cost: 250_000_000n, cancelled: true }])
    expectSettled(250_000_000n)
    await works()
  })

  test('that opens sessions without end loses its own, and nobody else’s', async () => {
    const { key } = await createKey(gateway, getOperator(gateway), { name: 'other' })
    const other = await initialize({ key })
    const sessions: Record<string, string>[] = []
    for (let i = 0; i < 1_000; i++) sessions.push(await initialize())
    const ping = async (headers: Record<string, string> | undefined, as = secret) =>
      (await ask('/mcp', { method: 'ping' }, { headers: headers ?? {}, key: as })).status
    expect(await Promise.all([ping(sessions[0]), ping(sessions[899])])).toEqual([404, 404])
    expect(await Promise.all([ping(sessions[900]), ping(sessions[999])])).toEqual([200, 200])
    expect(await ping(other, key)).toBe(200)
  })

  test('that sends notifications, and answers that nobody asked for, gets no more than 202', async () => {
    const headers = await initialize()
    const storm = Array.from({ length: 500 }, (_, i) =>
      i % 2 === 0
        ? ask('/mcp', { method: 'notifications/cancelled', id: undefined }, { headers })
        : ask('/mcp', { id: `question ${i}`, result: { action: 'accept' } }, { headers }),
    )
    const answers = await Promise.all(storm)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
    expect(generations).toEqual([])
    await works()
  })
})

describe('limits', () => {
  test('calls at once are charged to the last cent, and no more go out than are paid', async () => {
    await open({}, { limit: 1 })
    const before = web.requests.length
    const answers = await Promise.all(Array.from({ length: 12 }, () => call('/mcp/web')))
    const refused = answers.filter(({ error }) => error)
    expect(refused).toHaveLength(8)
    for (const { error } of refused)
      expect(error).toMatchObject({
        data: { status: 402 },
        message: expect.stringContaining('limit'),
      })
    const called = web.requests.slice(before).flatMap(({ calls }) => calls)
    expect(called.filter(method => method === 'tools/call')).toHaveLength(4)
    expect(generations.map(({ total_cost }) => total_cost)).toEqual(Array(4).fill(250_000_000n))
    expectSettled(1_000_000_000n)
  })

  test('rates hold for calls, prompts and lists that servers are asked for', async () => {
    await open({ limits: { requests_per_minute: 2 } })
    await works()
    await works()
    const asked = [
      { method: 'tools/call', params: { name: 'add' } },
      { method: 'prompts/get', params: { name: 'greet' } },
      { method: 'resources/read', params: { uri: 'file:///a' } },
    ]
    const before = web.requests.length
    for (const message of asked)
      expect(await (await ask('/mcp/web', message)).json()).toMatchObject({
        error: { data: { status: 429 } },
      })
    expect(web.requests.length).toBe(before)
    expectSettled(500_000_000n)
  })
})
