import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../src/app/gateway.ts'
import { unavailable } from '../../src/base/errors.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { forgetSecrets, MOST_REMEMBERED } from '../../src/resources/idempotency.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import { withIdempotency } from '../../src/server/idempotency.ts'
import { waitUntil } from '../support/chat.ts'
import { openDatabase } from '../support/database.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildLocalConfig, startLocalServer } from '../support/server.ts'
import { openSlowStore } from '../support/slow-store.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  status,
  type Upstream,
  usageChunk,
} from '../support/upstream.ts'

const DAY = 86_400_000
const CHAT = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }

let upstream: Upstream
const rooms: string[] = []
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(async () => {
  await upstream.close()
  for (const room of rooms) rmSync(room, { recursive: true, force: true })
})

const TEAM = { name: 'Team', slug: 'team' }
const MINUTE = 60_000

/** Asks a gateway, by default as its manager and with the same idempotency key. */
function createAsk(gateway: Gateway, keys: { management: string; inference: string }) {
  const handle = withIdempotency(gateway, createApp(gateway).handle)
  return async (path: string, body: object, more: Record<string, string> = {}) => {
    const { key = 'once', as = keys.management, method = 'POST', ...headers } = more
    const response = await handle(
      new Request(`http://localhost/api/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${as}`,
          'content-type': 'application/json',
          'idempotency-key': key,
          ...headers,
        },
        body: JSON.stringify(body),
      }),
    )
    const text = await response.text()
    return {
      ...{ status: response.status, text, id: response.headers.get('x-generation-id') },
      isReplayed: response.headers.get('idempotency-replayed') === 'true',
    }
  }
}

async function openHouse(parts: object = {}, config: Record<string, unknown> = {}) {
  let count = 0
  upstream.answer(body =>
    (body as { stream?: boolean }).stream
      ? [sseHead(), delta(`answer ${++count}`), finish('stop'), usageChunk(), done(), chunkedEnd()]
      : completion(`answer ${++count}`),
  )
  const clock = new TestClock()
  const gateway = await testGateway({
    ...{ clock, config: buildLocalConfig(upstream.url, config) },
    ...parts,
  })
  const keys = await createTestKeys(gateway)
  const ask = createAsk(gateway, keys)
  return {
    ...{ gateway, keys, clock, ask, count: () => count },
    call: (body: object = CHAT, more: Record<string, string> = {}) =>
      ask('/chat/completions', body, { as: keys.inference, ...more }),
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

describe('C-17 a change', () => {
  test('is made once', async () => {
    await using own = await openHouse()
    const { ask, gateway } = own
    const before = gateway.memory.keys.size
    const first = await ask('/keys', { name: 'ci' })
    const again = await ask('/keys', { name: 'ci' })
    expect([first.status, first.isReplayed]).toEqual([201, false])
    expect(again).toEqual({ ...first, isReplayed: true })
    expect(gateway.memory.keys.size).toBe(before + 1)
    expect((await ask('/keys', { name: 'other' })).status).toBe(422)
    expect((await ask('/keys?x=1', { name: 'ci' })).status).toBe(422)
    expect((await ask('/keys', { name: 'ci' }, { key: 'twice' })).isReplayed).toBe(false)
  })

  test('that comes twice at once is made once', async () => {
    await using own = await openHouse(await openSlowStore())
    const { ask, gateway } = own
    const before = gateway.memory.keys.size
    const both = await Promise.all([ask('/keys', { name: 'ci' }), ask('/keys', { name: 'ci' })])
    expect(both.map(({ status }) => status).sort()).toEqual([201, 409])
    expect(gateway.memory.keys.size).toBe(before + 1)
    expect(await ask('/keys', { name: 'ci' })).toMatchObject({ status: 201, isReplayed: true })
  })

  test('of another key under the same name is another', async () => {
    await using own = await openHouse()
    const { ask, gateway } = own
    const other = await createKey(gateway, getOperator(gateway), { name: 'm' }, 'management')
    await ask('/keys', { name: 'ci' })
    expect(await ask('/keys', { name: 'ci' }, { as: other.key })).toMatchObject({
      ...{ status: 201, isReplayed: false },
    })
  })

  test('that was refused may be made later, and takes no room', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-i-'))
    rooms.push(data)
    await using own = await openHouse({ data })
    const asked = [
      { path: '/keys', body: { name: '' }, status: 400 },
      { path: '/nowhere', body: {}, status: 404 },
      { path: '/keys', body: { name: 'ci' }, as: own.keys.inference, status: 403 },
    ]
    for (const { path, body, as, status } of asked)
      for (const _ of ['first', 'second'])
        expect(await own.ask(path, body, as ? { as } : {})).toMatchObject({
          status,
          isReplayed: false,
        })
    const database = openDatabase(data)
    expect(database.query('select * from idempotency').all()).toEqual([])
    database.close()
    expect((await own.ask('/keys', { name: 'ci' })).status).toBe(201)
  })

  test('is forgotten after 24 hours', async () => {
    await using own = await openHouse()
    await own.ask('/workspaces', TEAM)
    own.clock.pass(DAY - 1)
    expect((await own.ask('/workspaces', TEAM)).isReplayed).toBe(true)
    own.clock.pass(1)
    expect(await own.ask('/workspaces', TEAM)).toMatchObject({ status: 400, isReplayed: false })
  })

  test('whose answer holds a secret is told for ten minutes', async () => {
    await using own = await openHouse()
    const { ask, clock, gateway } = own
    const first = await ask('/keys', { name: 'ci' })
    await ask('/workspaces', TEAM, { key: 'other' })
    const { data, key } = JSON.parse(first.text)
    const before = gateway.memory.keys.size
    clock.pass(9 * MINUTE - 1)
    await forgetSecrets(gateway)
    expect(await ask('/keys', { name: 'ci' })).toEqual({ ...first, isReplayed: true })
    clock.pass(1)
    for (const forget of [() => undefined, () => forgetSecrets(gateway)]) {
      await forget()
      const again = await ask('/keys', { name: 'ci' })
      expect(again).toMatchObject({ status: 409, isReplayed: false })
      expect(JSON.parse(again.text).error.metadata).toMatchObject({ made: data.hash })
      expect(again.text).not.toContain(key)
      expect((await ask('/keys', { name: 'other' })).status).toBe(422)
    }
    expect(gateway.memory.keys.size).toBe(before)
    expect((await ask('/workspaces', TEAM, { key: 'other' })).isReplayed).toBe(true)
  })

  test('finds room however many calls are remembered: the oldest of those are forgotten', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-i-'))
    rooms.push(data)
    await using house = await openHouse({ data })
    const database = openDatabase(data)
    const now = house.clock.now().toISOString()
    database.run(
      `with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < ?)
      insert into idempotency (name, fingerprint, created_at, status, sealed)
      select 'call:' || i, '', case i when 1 then ? else ? end, 200, null from numbers`,
      [MOST_REMEMBERED, now, new Date(Date.parse(now) + 1).toISOString()],
    )
    house.clock.pass(MINUTE)
    expect((await house.ask('/workspaces', TEAM)).status).toBe(201)
    expect((await house.ask('/workspaces', TEAM)).isReplayed).toBe(true)
    const count = database.query('select count(*) as count from idempotency').get()
    expect(count).toEqual({ count: MOST_REMEMBERED })
    database.close()
  })

  test('is remembered by the next process, sealed; one that was interrupted is not made again', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-idempotency-'))
    rooms.push(data)
    const clock = new TestClock()
    const gateway = await testGateway({ data, clock })
    const keys = await createTestKeys(gateway)
    const first = await createAsk(gateway, keys)('/keys', { name: 'ci' })
    const made = JSON.parse(first.text).key as string
    for (const file of ['gateway.db', 'gateway.db-wal'])
      expect(readFileSync(join(data, file), 'latin1')).not.toContain(made)
    // A process that is killed leaves what it had begun.
    const reached = Promise.withResolvers<void>()
    const never = withIdempotency(gateway, () => {
      reached.resolve()
      return new Promise<Response>(() => undefined)
    })
    const begun = new Request('http://localhost/api/v1/keys', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${keys.management}`,
        'content-type': 'application/json',
        'idempotency-key': 'killed',
      },
      body: JSON.stringify({ name: 'ci' }),
    })
    void never(begun)
    await reached.promise
    await gateway.close()
    const next = await testGateway({ data, clock })
    const ask = createAsk(next, keys)
    expect(await ask('/keys', { name: 'ci' })).toEqual({ ...first, isReplayed: true })
    expect((await ask('/keys', { name: 'ci' }, { key: 'killed' })).status).toBe(409)
    await next.close()
  })
})

describe('A-07 a call', () => {
  test.each([false, true])('is made and paid once, streamed: %p', async stream => {
    await using own = await openHouse()
    const first = await own.call({ ...CHAT, stream })
    const again = await own.call({ ...CHAT, stream })
    expect([first.status, first.isReplayed, own.count()]).toEqual([200, false, 1])
    expect(again).toEqual({ ...first, isReplayed: true })
    expect(await own.gateway.store.generations.list({}, 9)).toHaveLength(1)
    expect((await own.call({ ...CHAT, stream, seed: 1 })).status).toBe(422)
    own.clock.pass(DAY)
    expect((await own.call({ ...CHAT, stream })).isReplayed).toBe(false)
  })

  test('that comes twice at once goes out once', async () => {
    await using own = await openHouse()
    const both = await Promise.all([own.call(), own.call()])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
    expect(own.count()).toBe(1)
  })

  test('that failed may be made again', async () => {
    await using own = await openHouse()
    upstream.answer(() => status(500, {}))
    expect((await own.call()).status).toBeGreaterThanOrEqual(500)
    upstream.answer(() => completion('fine'))
    expect(await own.call()).toMatchObject({ status: 200, isReplayed: false })
  })

  test.each(['/v1', '/api/v1/', '//v1'])('at %s streams as it comes', async base => {
    await using server = await startLocalServer(buildLocalConfig(upstream.url))
    const gate = Bun.randomUUIDv7()
    upstream.answer(() => [
      ...[sseHead(), delta('Hel'), { wait: gate }, delta('lo'), finish('stop')],
      ...[usageChunk(), done(), chunkedEnd()],
    ])
    const answer = await fetch(`${server.url}${base}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.inference_key}`,
        'content-type': 'application/json',
        'idempotency-key': 'streamed',
      },
      body: JSON.stringify({ ...CHAT, stream: true }),
    })
    const reader = answer.body?.getReader()
    let text = ''
    while (!text.includes('"Hel"')) text += new TextDecoder().decode((await reader?.read())?.value)
    upstream.open(gate)
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read())
      text += new TextDecoder().decode(read.value)
    expect([answer.status, text.includes('"lo"'), text.includes('[DONE]')]).toEqual([
      200,
      true,
      true,
    ])
  })

  test('whose client leaves goes on, and the next request gets its answer', async () => {
    await using server = await startLocalServer(buildLocalConfig(upstream.url))
    const gate = Bun.randomUUIDv7()
    upstream.answer(() => [
      ...[sseHead(), delta('Hel'), { wait: gate }, delta('lo'), finish('stop')],
      ...[usageChunk(), done(), chunkedEnd()],
    ])
    const leaving = new AbortController()
    const ask = (signal?: AbortSignal) =>
      fetch(`${server.url}/api/v1/chat/completions`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${server.inference_key}`,
          'content-type': 'application/json',
          'idempotency-key': 'lost',
        },
        body: JSON.stringify({ ...CHAT, stream: true }),
        ...(signal ? { signal } : {}),
      })
    const first = await ask(leaving.signal)
    await first.body?.getReader().read()
    leaving.abort()
    expect((await ask()).status).toBe(409)
    upstream.open(gate)
    let answer = await ask()
    await waitUntil(async () => {
      if (answer.status !== 409) return true
      answer = await ask()
      return false
    })
    const text = await answer.text()
    expect([answer.status, text.includes('"lo"'), text.includes('[DONE]')]).toEqual([
      200,
      true,
      true,
    ])
  })

  test('makes room for newer ones', async () => {
    await using own = await openHouse({}, { idempotency: { max_mib: 1 } })
    upstream.answer(() => completion('x'.repeat(400_000)))
    for (const key of ['a', 'b', 'c']) await own.call(CHAT, { key })
    expect((await own.call(CHAT, { key: 'c' })).isReplayed).toBe(true)
    const asked = upstream.hits.length
    const gone = await own.call(CHAT, { key: 'a' })
    expect([gone.status, upstream.hits.length]).toEqual([409, asked])
    expect(gone.text).toContain('was made, and its answer is gone: look at generation gen-')
  })

  test('that another process has begun or made is not made again, at any host', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-idempotency-'))
    rooms.push(data)
    const own = await openHouse({ data })
    const made = await own.call(CHAT, { key: 'made' })
    upstream.answer(() => status(500, {}))
    await own.call(CHAT, { key: 'failed' })
    await own.call({ ...CHAT, model: 'none' }, { key: 'refused' })
    // A process that is killed leaves what it had begun.
    const gone = Promise.withResolvers<string | undefined>()
    const never = withIdempotency(own.gateway, (_, generation) => {
      gone.resolve(generation)
      return new Promise<Response>(() => undefined)
    })
    void never(
      new Request('http://elsewhere/api/v1/chat/completions', {
        method: 'POST',
        headers: { authorization: `Bearer ${own.keys.inference}`, 'idempotency-key': 'killed' },
        body: JSON.stringify(CHAT),
      }),
    )
    const interrupted = await gone.promise
    await own.gateway.close()

    const { clock } = own
    const next = await testGateway({ data, clock, config: buildLocalConfig(upstream.url) })
    upstream.answer(() => completion('fine'))
    const ask = createAsk(next, own.keys)
    const again = (key: string, body: object = CHAT) =>
      ask('/chat/completions', body, { as: own.keys.inference, key })
    const asked = upstream.hits.length
    expect(await again('made')).toMatchObject({
      status: 409,
      text: expect.stringContaining(`answer is gone: look at generation ${made.id}`),
    })
    expect(await again('killed')).toMatchObject({
      status: 409,
      text: expect.stringContaining(`was interrupted: look at generation ${interrupted}`),
    })
    expect((await again('made', { ...CHAT, seed: 1 })).status).toBe(422)
    expect(upstream.hits.length).toBe(asked)
    expect((await again('failed')).status).toBe(200)
    expect((await again('refused')).status).toBe(200)
    clock.pass(DAY)
    expect((await again('made')).status).toBe(200)
    await next.close()
  })

  test('that was paid and not answered is not made again, with such a key or without', async () => {
    await using own = await openHouse()
    const { record } = own.gateway.recorder
    own.gateway.recorder.record = async entry => {
      await record(entry)
      throw unavailable('The call could not be recorded', 5)
    }
    const answer = await createApp(own.gateway).handle(
      new Request('http://localhost/api/v1/chat/completions', {
        method: 'POST',
        headers: {
          authorization: `Bearer ${own.keys.inference}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify(CHAT),
      }),
    )
    const { headers } = answer
    expect([answer.status, headers.get('x-should-retry'), headers.get('retry-after')]).toEqual([
      503,
      'false',
      null,
    ])
    expect((await own.call()).status).toBe(503)
    expect((await own.call()).isReplayed).toBe(true)
    expect(own.count()).toBe(2)
  })
})

describe('a key that is none', () => {
  test.each(['', 'with space', 'ü', 'x'.repeat(256)])('is refused: %p', async key => {
    await using own = await openHouse()
    const { status: code } = await own.ask('/keys', { name: 'ci' }, { key })
    expect(code).toBe(400)
  })

  test('a stranger leaves nothing', async () => {
    await using own = await openHouse()
    expect((await own.ask('/keys', { name: 'ci' }, { as: 'gw-v1-none' })).status).toBe(401)
    expect((await own.ask('/keys', { name: 'ci' })).isReplayed).toBe(false)
  })
})

test.each<[string, Record<string, string>, 'at once' | 'in pieces']>([
  ['with its length', {}, 'at once'],
  ['under a key', { 'idempotency-key': 'large' }, 'at once'],
  ['without its length', {}, 'in pieces'],
  ['without its length, under a key', { 'idempotency-key': 'pieces' }, 'in pieces'],
  ['compressed', { 'content-encoding': 'gzip' }, 'at once'],
])('the body of a large change takes memory, or is refused: %s', async (_, headers, how) => {
  await using server = await startLocalServer(buildLocalConfig(upstream.url))
  const { memory } = server.gateway.traffic.admission
  const text = Buffer.from(JSON.stringify({ name: 'x'.repeat(200_000) }))
  const bytes = headers['content-encoding'] ? Bun.gzipSync(text) : text
  const change = () =>
    server.fetch('/keys', {
      method: 'POST',
      key: server.management_key,
      headers: { ...headers, 'content-type': 'application/json' },
      body: how === 'at once' ? bytes : sendInPieces(bytes),
    })
  memory.add('others', memory.limit)
  const refused = await change()
  const reason = await refused.text()
  memory.giveBack('others', memory.limit)
  expect([refused.status, reason]).toEqual([503, expect.stringContaining('memory')])
  expect((await change()).status).toBe(400)
  expect(memory.used).toBe(0)
})

const sendInPieces = (bytes: Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes.subarray(0, 9))
      controller.enqueue(bytes.subarray(9))
      controller.close()
    },
  })

test('a body that is compressed is read under a key', async () => {
  upstream.answer(() => completion('Hello'))
  await using server = await startLocalServer(buildLocalConfig(upstream.url))
  const call = () =>
    server.fetch('/chat/completions', {
      headers: {
        'idempotency-key': 'coded',
        ...{ 'content-encoding': 'gzip', 'content-type': 'application/json' },
      },
      method: 'POST',
      body: Bun.gzipSync(JSON.stringify(CHAT)),
    })
  const [first, again] = [await call(), await call()]
  expect([first.status, again.status]).toEqual([200, 200])
  expect(again.headers.get('idempotency-replayed')).toBe('true')
})
