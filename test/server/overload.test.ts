import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createLimitedKey, readMetric, waitUntil } from '../support/chat.ts'
import { expectAtRest, expectBooksHold } from '../support/invariants.ts'
import { buildLocalConfig, type LocalServer, startLocalServer } from '../support/server.ts'
import { StubbornClient } from '../support/stubborn-client.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  type Script,
  sseHead,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'

/*
 * Issue: "load is shed, not absorbed": what does not fit beside the calls that run is refused with
 * 503 and `Retry-After` before its body is read, in the form of its dialect, and on record; whoever
 * manages the gateway or asks for its health is answered all the same; and what a call holds is given
 * back, however it ends.
 */

const MIB = 1024 * 1024

let upstream: Upstream
let server: LocalServer

beforeEach(async () => {
  upstream = await startUpstream()
})

afterEach(async () => {
  await expectBooksHold(server)
  await expectAtRest(server.gateway)
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const start = async (limits: object) => {
  const timeouts = { read_on_seconds: 0 }
  server = await startLocalServer(buildLocalConfig(upstream.url, { limits, timeouts }))
}

const text = (stream = false) => ({
  model: 'acme/small',
  stream,
  messages: [{ role: 'user', content: 'Hi' }],
})

const call = (json: object = text(), path = '/chat/completions') => server.fetch(path, { json })

/** What a provider does with calls that are to stay in flight, until it may go on. */
const HELD: Script = [{ wait: 'go' }, completion('Hello')]

/** Makes a call that stays in flight until the provider goes on. */
async function holdCall(key = server.inference_key): Promise<[Promise<Response>]> {
  const before = upstream.hits.length
  const held = server.fetch('/chat/completions', { key, json: text() })
  await upstream.hit(before + 1)
  return [held]
}

/** Lets the provider go on, and waits until nothing is in flight. */
async function letGo(...held: Promise<Response>[]): Promise<void> {
  upstream.open('go')
  for (const response of await Promise.all(held)) expect(response.status).toBe(200)
  await waitUntil(() => countHeld().join() === '0,0')
}

async function askReadiness(): Promise<[status: number, body: unknown]> {
  const answer = await fetch(`${server.url}/ready`)
  return [answer.status, await answer.json()]
}

const countHeld = () => {
  const { calls, memory } = server.gateway.traffic.admission
  return [calls.used, memory.used]
}

describe('O-01 above the calls in flight', () => {
  test.each([
    ['/chat/completions', text(), { code: 503, message: expect.stringContaining('in flight') }],
    ['/completions', { model: 'acme/small', prompt: 'Hi' }, { code: 503 }],
    ['/messages', { ...text(), max_tokens: 5 }, { type: 'api_error' }],
    ['/responses', { model: 'acme/small', input: 'Hi' }, { code: 503 }],
    ['/embeddings', { model: 'acme/small', input: 'Hi' }, { code: 503 }],
  ])('%s is refused in its own form', async (path, json, error) => {
    await start({ in_flight: 1 })
    upstream.plan(HELD)
    const [held] = await holdCall()
    const response = await call(json, path)
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await response.json()).toMatchObject({ error })
    await letGo(held)
  })

  test('health, readiness, metrics and management are answered, and the refusals counted', async () => {
    await start({ in_flight: 1 })
    upstream.plan(HELD)
    const [held] = await holdCall()
    expect((await call()).status).toBe(503)
    for (const path of ['/health', '/ready', '/metrics'])
      expect((await fetch(server.url + path)).status).toBe(200)
    expect(await askReadiness()).toEqual([200, { status: 'ready', overloaded: 'in_flight' }])
    const made = await server.fetch('/keys', { key: server.management_key, json: { name: 'New' } })
    expect(made.status).toBe(201)
    expect(await readMetric(server, 'gateway_calls_shed_total{reason="in_flight"}')).toBe(1)
    expect(await readMetric(server, 'gateway_calls_in_flight')).toBe(1)
    await server.gateway.refusals.flush()
    const [refusal] = await server.gateway.store.refusals.list(1)
    expect(refusal).toMatchObject({ status: 503, error_type: 'unavailable' })
    expect(refusal?.key_hash).not.toBeNull()
    await letGo(held)
    expect(upstream.hits).toHaveLength(1)
    expect(await askReadiness()).toEqual([200, { status: 'ready' }])
  })

  test('C-20 O-05 a key that takes all that it can leaves places to another', async () => {
    await start({ in_flight: 10 })
    upstream.plan(HELD)
    const held: Promise<Response>[] = []
    for (let call = 0; call < 9; call++) held.push(...(await holdCall()))
    expect((await call()).status).toBe(503)
    const key = await createLimitedKey(server, 1)
    held.push(...(await holdCall(key)))
    expect(countHeld()[0]).toBe(10)
    await letGo(...held)
  })
})

describe('C-03 what waits for a reader', () => {
  /** What is counted for one reader at most: what was read ahead, and the copies of a piece. */
  const ONE = MIB
  const flood: Script = [sseHead(), Array.from({ length: 60 }, () => delta('x'.repeat(32_768)))]

  /** Asks for a stream that it does not read. */
  function ask(path: string, json?: object, key = server.inference_key): StubbornClient {
    const body = json ? JSON.stringify(json) : ''
    return new StubbornClient(server.url)
      .sendHead(json ? 'POST' : 'GET', `/api/v1${path}`, {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'content-length': String(body.length),
      })
      .send(body)
      .stopReading()
  }

  const readUsed = () => countHeld()[1] ?? 0

  test.each<[string, object]>([
    ['/chat/completions', text(true)],
    ['/messages', { ...text(true), max_tokens: 50_000 }],
    ['/responses', { model: 'acme/small', input: 'Hi', stream: true }],
  ])('of a stream of %s takes memory, and no more than there is', async (path, json) => {
    await start({ memory: 16 })
    upstream.answer(hit => ((hit.json as { stream: boolean }).stream ? flood : completion('Hi')))
    const { admission } = server.gateway.traffic
    const clients: StubbornClient[] = []
    while (!admission.isFullOfUnread) {
      const before = readUsed()
      clients.push(ask(path, json))
      await waitUntil(() => readUsed() > before)
    }
    const newcomer = await call()
    expect([newcomer.status, await newcomer.text()]).toEqual([
      503,
      expect.stringContaining('"overload":"memory"'),
    ])
    expect(readUsed()).toBeLessThan(16 * MIB + 4 * ONE)
    for (const client of clients) client[Symbol.dispose]()
    await waitUntil(() => countHeld().join() === '0,0')
    expect((await call()).status).toBe(200)
  })

  test('of a download takes memory until it is taken or its reader leaves', async () => {
    await start({ memory: 16 })
    const actor = authenticate(server.gateway, `Bearer ${server.inference_key}`)
    async function* pieces() {
      for (let at = 0; at < 64; at++) yield Buffer.alloc(256 * 1024, 'x')
    }
    const made = { filename: 'out.txt', downloadable: true }
    const { id } = await storeFile(server.gateway, actor, made, pieces())
    const client = ask(`/files/${id}/content`)
    await waitUntil(() => readUsed() > 256 * 1024)
    expect(readUsed()).toBeLessThan(2 * ONE)
    client[Symbol.dispose]()
    await waitUntil(() => countHeld().join() === '0,0')
    const whole = await server.fetch(`/files/${id}/content`)
    expect((await whole.bytes()).length).toBe(16 * MIB)
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('of the stream of activity does, too', async () => {
    await start({ memory: 16 })
    const client = ask('/activity/stream', undefined, server.management_key)
    const { activity, events } = server.gateway
    await waitUntil(() => activity.size > 0)
    const error = new GatewayError('server', 'x'.repeat(60_000))
    await waitUntil(() => {
      events.publish('config.rejected', { error } as never)
      return readUsed() > 0
    })
    expect(readUsed()).toBeLessThan(4 * ONE)
    client[Symbol.dispose]()
    await waitUntil(() => countHeld().join() === '0,0')
  })
})

describe('what a small body names', () => {
  const SIZE = 2 * MIB
  const PIXEL =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
  const PNG = Buffer.concat([Buffer.from(PIXEL, 'base64'), Buffer.alloc(SIZE)])
  const toUrl = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`
  const readUsed = () => countHeld()[1] ?? 0

  /** Asks often for what takes more memory than there is, and lets the provider answer. */
  async function askOften(content: object[]) {
    upstream.answer(() => HELD)
    const json = { model: 'acme/small', messages: [{ role: 'user', content }] }
    const calls = Array.from({ length: 4 }, () => call(json))
    await upstream.hit()
    const [first, most] = [upstream.hits.length, readUsed()]
    upstream.open('go')
    expect(await Promise.all(calls.map(async one => (await one).status))).toEqual(
      Array(4).fill(200),
    )
    await waitUntil(() => countHeld().join() === '0,0')
    expect([first, most >= 4 * SIZE, most < 16 * MIB]).toEqual([1, true, true])
  }

  test('is read from the storage once there is memory for it', async () => {
    await start({ memory: 16 })
    const actor = authenticate(server.gateway, `Bearer ${server.inference_key}`)
    async function* pieces() {
      yield PNG
    }
    const { id } = await storeFile(server.gateway, actor, { filename: 'a.png' }, pieces())
    await askOften([{ type: 'file', file: { file_id: id } }])
  })

  test('of a conversation is read where there is memory for it', async () => {
    await start({ memory: 16 })
    const { responses } = server.gateway.config
    Object.assign(responses, { store: true })
    upstream.answer(() => completion('Hello'))
    const ask = (json: object) => call({ model: 'acme/small', ...json }, '/responses')
    const input = [{ role: 'user', content: [{ type: 'input_image', image_url: toUrl(PNG) }] }]
    const { id } = (await (await ask({ input })).json()) as { id: string }
    await waitUntil(() => countHeld().join() === '0,0')
    upstream.answer(() => HELD)
    const before = upstream.hits.length
    const next = { previous_response_id: id, input: 'More', store: false }
    const held = ask(next)
    await upstream.hit(before + 1)
    const refused = await ask(next)
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('memory')])
    await letGo(held)
    expect((await ask(next)).status).toBe(200)
  })

  test('is fetched once there is memory for it', async () => {
    using site = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(PNG) })
    await start({ memory: 16 })
    server.gateway.config.security.allow_private_urls = [`127.0.0.1:${site.port}`]
    await askOften([{ type: 'image_url', image_url: { url: `${site.url}a.png` } }])
  })
})

describe('O-03 above the memory', () => {
  const SIZE = 8 * MIB
  const head = (client: StubbornClient, path: string, key: string) =>
    client.sendHead('POST', `/api/v1${path}`, {
      authorization: `Bearer ${key}`,
      'content-length': String(SIZE),
    })

  test('a body is refused before it is read, and another one may come when the first has gone', async () => {
    await start({ memory: 40 })
    using first = new StubbornClient(server.url)
    head(first, '/chat/completions', server.inference_key)
    await waitUntil(() => countHeld()[1] === 4 * SIZE)
    using second = new StubbornClient(server.url)
    head(second, '/chat/completions', server.inference_key)
    await second.sees('HTTP/1.1 503')
    await second.sees('"overload":"memory"')
    expect(second.text.toLowerCase()).toContain('connection: close')
    // A small call needs none of it.
    upstream.plan(completion('Hello'))
    expect((await call()).status).toBe(200)
    first[Symbol.dispose]()
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('bodies of management have a reserve, and are refused above it', async () => {
    await start({ memory: 40 })
    using first = new StubbornClient(server.url)
    head(first, '/keys', server.management_key)
    await waitUntil(() => countHeld()[1] === 4 * SIZE)
    using second = new StubbornClient(server.url)
    head(second, '/keys', server.management_key)
    await second.sees('HTTP/1.1 503')
    expect((await fetch(`${server.url}/health`)).status).toBe(200)
    first[Symbol.dispose]()
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('a call under an idempotency key holds its body as well', async () => {
    await start({ memory: 40 })
    using first = new StubbornClient(server.url)
    head(first, '/chat/completions', server.inference_key)
    await waitUntil(() => countHeld()[1] === 4 * SIZE)
    const refused = await fetch(`${server.url}/api/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.inference_key}`, 'idempotency-key': 'one' },
      body: JSON.stringify({ ...text(), user: 'x'.repeat(MIB) }),
    })
    expect(refused.status).toBe(503)
    first[Symbol.dispose]()
    await waitUntil(() => countHeld().join() === '0,0')
  })
})

describe('the answer of a provider', () => {
  const content = 'x'.repeat(MIB)
  const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }]
  const plain = Buffer.from(JSON.stringify({ id: 'a', model: 'm', choices }))

  test.each<[string, string, Uint8Array]>([
    ['large', '', plain],
    ['large once it is unpacked', 'content-encoding: gzip\r\n', Bun.gzipSync(plain)],
  ])('that is %s takes memory before it is read on', async (_, header, body) => {
    await start({ in_flight: 5 })
    const grow = spyOn(server.gateway.traffic.admission, 'growAnswer')
    const length = `content-length: ${body.length}\r\n`
    const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${header}${length}\r\n`
    upstream.plan([head, body])
    const answer = (await (await call()).json()) as { choices: typeof choices }
    expect(answer.choices[0]?.message.content).toBe(content)
    expect(grow).toHaveBeenCalled()
    await waitUntil(() => countHeld().join() === '0,0')
  })
})

describe('what is held of an answer while it streams takes memory', () => {
  const DELTAS = Array.from({ length: 64 }, () => delta('x'.repeat(32 * 1024)))
  const LARGE = 2 * MIB
  /** What it takes at least: the last step has not come whole. */
  const HELD_AT_LEAST = LARGE - MIB / 4
  /** A large answer that goes on when it may, and is followed by nothing else. */
  const script = (): Script => [
    sseHead(),
    DELTAS,
    { wait: 'go' },
    finish('stop'),
    done(),
    chunkedEnd(),
  ]
  const stream = (more: object = {}) => ({ ...text(true), ...more })
  const chat = (json: object, headers: Record<string, string> = {}) =>
    server.fetch('/chat/completions', { json, headers })
  const tools = [{ type: 'gateway:datetime' }]

  /** Whatever holds an answer, with what it takes at least. */
  const BUFFERS: [string, () => Promise<Response>][] = [
    ['under an idempotency key', () => chat(stream(), { 'idempotency-key': 'one' })],
    ['to be given again', () => chat(stream(), { 'x-gateway-cache': 'true' })],
    [
      'to be told whole at its end',
      () =>
        server.fetch('/responses', { json: { model: 'acme/small', stream: true, input: 'Hi' } }),
    ],
    ['for the gateway’s own tools', () => chat(stream({ tools }))],
    ['for a client that wants it whole', () => chat(text())],
  ]

  test.each(BUFFERS)('%s', async (_, ask) => {
    await start({ memory: 256 })
    upstream.plan(script())
    const answer = ask().then(response => response.text())
    await waitUntil(() => (countHeld()[1] ?? 0) >= HELD_AT_LEAST)
    upstream.open('go')
    expect((await answer).length).toBeGreaterThan(LARGE)
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('where its workspace keeps content, and all of them at once', async () => {
    await start({ memory: 256 })
    const { gateway } = server
    await updateWorkspace(gateway, getOperator(gateway), gateway.memory.owner.workspace_id, {
      is_observability_io_logging_enabled: true,
    })
    upstream.answer(script)
    const asked: (() => Promise<Response>)[] = [
      () => chat(stream()),
      ...BUFFERS.map(([, ask]) => ask),
    ]
    const answers = asked.map(ask => ask().then(response => response.text()))
    await waitUntil(() => (countHeld()[1] ?? 0) >= asked.length * HELD_AT_LEAST)
    upstream.open('go')
    for (const answer of await Promise.all(answers)) expect(answer.length).toBeGreaterThan(LARGE)
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('and is not read on while there is none, though each ends some time', async () => {
    await start({ memory: 24 })
    upstream.answer(script)
    upstream.open('go')
    const input = { model: 'acme/small', stream: true, input: 'Hi' }
    let most = 0
    const growth = server.gateway.traffic.admission
    const grow = growth.growAnswer.bind(growth)
    spyOn(growth, 'growAnswer').mockImplementation(async (answer, bytes, copies) => {
      await grow(answer, bytes, copies)
      most = Math.max(most, growth.memory.used)
    })
    const answers = Array.from({ length: 6 }, () =>
      server.fetch('/responses', { json: input }).then(response => response.text()),
    )
    for (const answer of await Promise.all(answers)) expect(answer).toContain('response.completed')
    // Two of them at most: the one that has most is read on beyond the bound.
    expect(most).toBeLessThan(24 * MIB + 2 * 8 * LARGE)
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('under an idempotency key has its place, too, until it has ended', async () => {
    await start({ in_flight: 4 })
    upstream.plan(script())
    const leaving = new AbortController()
    const headers = { 'idempotency-key': 'one' }
    const response = await server.fetch('/chat/completions', {
      ...{ json: stream(), headers, signal: leaving.signal },
    })
    await response.body?.getReader().read()
    leaving.abort()
    await waitUntil(() => (countHeld()[1] ?? 0) >= HELD_AT_LEAST)
    expect(countHeld()[0]).toBe(1)
    upstream.open('go')
    await waitUntil(() => countHeld().join() === '0,0')
    const again = await chat(stream(), headers)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect((await again.text()).length).toBeGreaterThan(LARGE)
    expect(upstream.hits).toHaveLength(1)
  })

  test('and without memory passes, is not kept, and is not made again', async () => {
    await start({ memory: 24 })
    const takeAll = server.gateway.traffic.admission.memory
    takeAll.add('others', 24 * MIB)
    upstream.plan(script())
    upstream.open('go')
    const headers = { 'idempotency-key': 'one' }
    const answer = await (await chat(stream(), headers)).text()
    expect(answer.length).toBeGreaterThan(LARGE)
    const again = await chat(stream(), headers)
    expect([again.status, await again.json()]).toEqual([
      409,
      { error: expect.objectContaining({ message: expect.stringContaining('too long') }) },
    ])
    expect(upstream.hits).toHaveLength(1)
    takeAll.giveBack('others', 24 * MIB)
    await waitUntil(() => countHeld().join() === '0,0')
  })
})

describe('what a call holds is given back', () => {
  test.each<[string, boolean, () => Parameters<Upstream['plan']>[0]]>([
    ['a whole answer', false, () => completion('Hello')],
    ['a failed provider', false, () => ['HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n']],
    ['a stream that breaks off', true, () => [sseHead(), delta('Hel'), { end: 'rst' }]],
  ])('after %s', async (_, stream, script) => {
    await start({ in_flight: 5 })
    upstream.plan(script())
    await (await call(text(stream))).text()
    await waitUntil(() => countHeld().join() === '0,0')
  })

  test('after a call that is refused for its body', async () => {
    await start({ in_flight: 5 })
    expect((await call({ messages: 1 })).status).toBe(400)
    expect(countHeld()).toEqual([0, 0])
  })
})
