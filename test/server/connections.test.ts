import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createLimitedKey, fetchKeyState, readMetric, waitUntil } from '../support/chat.ts'
import { LONG } from '../support/random.ts'
import { buildLocalConfig, type Server, startServer } from '../support/server.ts'
import { frameChunk, StubbornClient } from '../support/stubborn-client.ts'
import {
  completion,
  delta,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/*
 * Issue: "one POST per connection is kept for ever, slow bodies live for hours, 600 MB are
 * swallowed without a key, a stalled reader holds its call without end". Whatever a client does or
 * omits, the server ends its connection, and reads nothing for it that it did not ask for.
 */

/** In seconds. Every limit of the server in these tests. */
const LIMIT = 1
/** In seconds. Bun looks every four seconds, and the machine may be busy. */
const SOON = LIMIT + 4 + 4 + 6
const MIB = 1024 * 1024

let server: Server
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(answer)
  server = await startServer({
    config: buildLocalConfig(upstream.url, {
      server: { idle_seconds: LIMIT },
      timeouts: { body_seconds: LIMIT, reader_seconds: LIMIT, keep_alive_seconds: 0.25 },
    }),
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

/** The provider does what it is told to. */
const PROMPTS: Record<string, Script> = {
  slow: [{ ms: 6_000 }, completion('Hello')],
  'slow stream': [sseHead(), delta('Hel'), { ms: 6_000 }, delta('lo'), stream(['!'])],
  endless: [sseHead(), Array.from({ length: 1_000 }, () => delta('x'.repeat(60_000)))],
}

const readPrompt = ({ json }: Hit): string =>
  (json as { messages: { content: string }[] }).messages[0]?.content ?? ''

const answer = (hit: Hit): Script =>
  PROMPTS[readPrompt(hit)] ??
  ((hit.json as { stream?: boolean }).stream ? stream() : completion('Hello'))

const connect = () => new StubbornClient(server.url)

const CHAT = '/api/v1/chat/completions'
const chatBody = (more: object = {}, content = 'Hi') =>
  JSON.stringify({ model: 'acme/small', messages: [{ role: 'user', content }], ...more })
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const byLength = (length: number) => ({ 'content-length': String(length) })
const post = (client: StubbornClient, path: string, body: string, headers = {}) =>
  client.sendHead('POST', path, { ...byLength(body.length), ...headers }).send(body)
const call = (client: StubbornClient, body: string) =>
  post(client, CHAT, body, bearer(server.inference_key))

describe.concurrent('a connection that is not used any more is closed, after', () => {
  const ENDS: [what: string, send: (client: StubbornClient) => unknown, seen: string][] = [
    ['a GET', client => client.sendHead('GET', '/health'), 'HTTP/1.1 200'],
    ['a POST without a key', client => post(client, CHAT, chatBody()), 'HTTP/1.1 401'],
    ['a POST to nowhere', client => post(client, '/nowhere', '{}'), 'HTTP/1.1 404'],
    ['a whole answer', client => call(client, chatBody()), 'Hello'],
    ['a stream', client => call(client, chatBody({ stream: true })), '[DONE]'],
    ['a call that is refused', client => call(client, '{"messages": 1}'), 'HTTP/1.1 400'],
    [
      'a change by the management key',
      client => post(client, '/api/v1/keys', '{"name":"new"}', bearer(server.management_key)),
      'HTTP/1.1 201',
    ],
  ]
  test.each(ENDS)('%s', async (_, send, seen) => {
    using client = connect()
    send(client)
    await client.sees(seen)
    await client.closes(SOON)
  })
})

describe.concurrent('a connection', () => {
  test('C-15 idle connections hold up nobody, and are closed', async () => {
    const idle = Array.from({ length: LONG ? 5_000 : 200 }, connect)
    for (const client of idle) client.sendHead('GET', '/health')
    await Promise.all(idle.map(client => client.sees('HTTP/1.1 200')))
    expect((await server.fetch('/key')).status).toBe(200)
    await Promise.all(idle.map(client => client.closes(SOON)))
  })

  test('serves further requests, whatever the first one was', async () => {
    using client = connect()
    post(client, CHAT, chatBody())
    await client.sees('HTTP/1.1 401')
    call(client, chatBody())
    await client.sees('Hello')
    call(client, chatBody({ stream: true }))
    await client.sees('[DONE]')
    client.sendHead('GET', '/health')
    await client.sees('{"status":"ok"}')
  })

  test('waits for an answer that takes longer than every limit of connections', async () => {
    using whole = connect()
    using streamed = connect()
    call(streamed, chatBody({ stream: true }, 'slow stream'))
    call(whole, chatBody({}, 'slow'))
    await Promise.all([streamed.sees('"lo"'), whole.sees('Hello')])
  })
})

describe.concurrent('C-11 a slow body is refused with 408 and its connection closed:', () => {
  const chunked = { 'transfer-encoding': 'chunked' }
  const BODIES: [what: string, path: string, framing: object, begin: string, drip: string][] = [
    ['a small one', CHAT, byLength(2_000), '', ' '],
    ['a large one', CHAT, byLength(30_000_000), '', ' '],
    ['a chunked one', CHAT, chunked, '', '1\r\n \r\n'],
    ['one that begins fast', CHAT, byLength(30_000_000), ' '.repeat(20_000_000), ' '],
    ['one of the management API', '/api/v1/keys', byLength(2_000), '', ' '],
  ]
  test.each(BODIES)('%s', async (_, path, framing, begin, drip) => {
    using client = connect()
    const key = path === CHAT ? server.inference_key : server.management_key
    client.sendHead('POST', path, { ...bearer(key), ...framing })
    client.send(begin).drip(drip, 100)
    await client.sees('HTTP/1.1 408')
    await client.closes()
  })

  test('but not one that brings a KiB each second', async () => {
    using client = connect()
    const body = chatBody().padEnd(100_000)
    client.sendHead('POST', CHAT, { ...bearer(server.inference_key), ...byLength(body.length) })
    for (let at = 0; at < body.length; at += 4_000) {
      client.send(body.slice(at, at + 4_000))
      await Bun.sleep(100)
    }
    await client.sees('Hello')
  })
})

describe('C-05 of a body that is refused no more is read than the system buffers:', () => {
  const HUGE = 600_000_000
  const REFUSED: [what: string, method: string, path: string, own: object, status: number][] = [
    ['without a key', 'POST', CHAT, {}, 401],
    ['with a wrong key', 'POST', CHAT, bearer('sk-wrong'), 401],
    ['at nowhere', 'POST', '/nowhere', {}, 404],
    ['without a key for the management API', 'PATCH', '/api/v1/keys/1', {}, 401],
    ['of a GET', 'GET', '/health', {}, 200],
    ['with an invalid host', 'POST', CHAT, { host: 'a b' }, 400],
  ]
  const FRAMINGS: [name: string, framing: object, frame?: typeof frameChunk][] = [
    ['by length', byLength(HUGE)],
    ['chunked', { 'transfer-encoding': 'chunked' }, frameChunk],
  ]
  const cases = REFUSED.flatMap(refused =>
    FRAMINGS.map(([name, ...framing]) => [`${refused[0]}, ${name}`, refused, framing] as const),
  )
  test.each(cases)('%s', async (_, [, method, path, own, status], [framing, frame]) => {
    using client = connect()
    client.sendHead(method, path, { ...own, ...framing })
    await client.sees(`HTTP/1.1 ${status}`)
    await client.flood(HUGE, frame)
    expect(client.sent).toBeLessThan(32 * MIB)
    await client.closes()
  })

  test('larger than allowed, with a key', async () => {
    using client = connect()
    client.sendHead('POST', CHAT, { ...bearer(server.inference_key), ...byLength(HUGE) })
    await client.sees('HTTP/1.1 413')
    await client.flood(HUGE)
    expect(client.sent).toBeLessThan(32 * MIB)
  })

  test('a small and slow one', async () => {
    using client = connect()
    client.sendHead('POST', CHAT, byLength(60_000)).drip(' ', 100)
    await client.sees('HTTP/1.1 401')
    await client.closes()
  })
})

test('C-03 a reader that takes nothing is cut, the provider’s stream closed, the call settled', async () => {
  const key = await createLimitedKey(server)
  using client = connect()
  post(client, CHAT, chatBody({ stream: true, max_tokens: 1_000 }, 'endless'), bearer(key))
  client.stopReading()
  await waitUntil(async () => upstream.hits.some(hit => readPrompt(hit) === 'endless'))
  const hit = upstream.hits.find(hit => readPrompt(hit) === 'endless')
  await waitUntil(async () => hit?.leftAt !== null, SOON)
  await waitUntil(async () => (await fetchKeyState(server, key)).usage > 0)
  const { usage, limit_remaining } = await fetchKeyState(server, key)
  expect(limit_remaining).toBeCloseTo(1 - usage, 9)
})

test('C-03 a reader that takes too little is cut, the provider’s stream closed, the call settled', async () => {
  await using picky = await startServer({
    config: buildLocalConfig(upstream.url, {
      limits: { reader_bytes_per_second: 1_000_000_000 },
      timeouts: { reader_seconds: 1, keep_alive_seconds: 0.25 },
    }),
  })
  // Of a key with a limit no more is read than that pays.
  const key = picky.inference_key
  using client = new StubbornClient(picky.url)
  const hits = upstream.hits.length
  post(client, CHAT, chatBody({ stream: true, max_tokens: 1_000 }, 'endless'), bearer(key))
  client.readSlowly(500)
  await waitUntil(async () => upstream.hits.length > hits)
  const hit = upstream.hits.at(-1)
  await waitUntil(async () => hit?.leftAt !== null, SOON)
  await client.closes(SOON)
  await waitUntil(async () => (await fetchKeyState(picky, key)).usage > 0)
  expect(await readMetric(picky, 'gateway_running_calls')).toBe(0)
})
