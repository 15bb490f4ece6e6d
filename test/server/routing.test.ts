import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Clock } from '../../src/base/clock.ts'
import { buildRoutesConfig, readText, sendChat } from '../support/chat.ts'
import { TestClock } from '../support/gateway.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  delta,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

const NAMES = ['first', 'second', 'third'] as const

let upstreams: Upstream[]
let server: LocalServer

beforeAll(async () => {
  upstreams = await Promise.all(NAMES.map(() => startUpstream()))
})

afterAll(() => Promise.all(upstreams.map(upstream => upstream.close())))

const from =
  (name: string) =>
  ({ json }: Hit): Script =>
    (json as { stream?: boolean }).stream ? stream([name]) : completion(name)

const start = async (routing: object = {}, more: object = {}, parts: { clock?: Clock } = {}) => {
  const urls = Object.fromEntries(NAMES.map((name, i) => [name, upstreams[i]?.url ?? '']))
  server = await startLocalServer(
    buildRoutesConfig({ 'acme/small': urls, 'acme/other': urls }, { routing, ...more }),
    parts,
  )
}

beforeEach(() => {
  for (const [i, upstream] of upstreams.entries()) {
    upstream.hits.length = 0
    upstream.answer(from(NAMES[i] ?? ''))
  }
})

afterEach(() => server[Symbol.asyncDispose]())

const hits = () => upstreams.map(upstream => upstream.hits.length)
const total = () => hits().reduce((sum, count) => sum + count, 0)
const ask = (body: object = {}): Promise<Outcome> => sendChat(server, body).outcome()

/** Makes so many calls, some at once. Returns their statuses. */
async function statuses(times: number, atOnce: number, body: object = {}): Promise<number[]> {
  const all: number[] = []
  const one = async () => {
    while (all.length < times) {
      const at = all.push(0) - 1
      all[at] = (await ask(body)).status
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return all
}

const broken = (all: number[]) => all.filter(code => code !== 200).length

describe('U-26 one of three endpoints, half of whose answers are 500', () => {
  const flap = () => {
    let count = 0
    upstreams[0]?.answer(hit => (count++ % 2 === 0 ? status(500) : from('first')(hit)))
  }

  test.each([false, true])(
    'fails at most one call of fifty, and none during its cooldown (streamed: %p)',
    async streamed => {
      await start({ pause_seconds: 600 })
      flap()
      expect(broken(await statuses(50, 8, { stream: streamed }))).toBeLessThanOrEqual(1)
      const before = hits()
      expect(broken(await statuses(50, 8, { stream: streamed }))).toBe(0)
      expect((hits()[0] ?? 0) - (before[0] ?? 0)).toBe(0)
      expect((await endpoints(server.inference_key)).map(one => one.status)).toEqual([-1, 0, 0])
    },
  )
})

describe('when a cooldown is over', () => {
  const PAUSE = 60

  async function rested(body: object = {}): Promise<void> {
    const clock = new TestClock(new Date().toISOString())
    await start({ choice: 'listed', pause_seconds: PAUSE }, {}, { clock })
    upstreams[0]?.answer(() => status(500))
    await statuses(5, 1, body)
    clock.pass(PAUSE * 1000)
    expect((await endpoints(server.inference_key))[0]?.status).toBe(0)
    for (const upstream of upstreams) upstream.hits.length = 0
  }

  test('one of a hundred calls at once tries the endpoint, the others go elsewhere', async () => {
    await rested()
    upstreams[0]?.answer(hit => [{ wait: 'well' }, from('first')(hit)])
    const all = Array.from({ length: 100 }, () => ask())
    await upstreams[1]?.hit(99)
    upstreams[0]?.open('well')
    const texts = (await Promise.all(all)).map(readText)
    expect([texts.filter(text => text === 'first').length, ...hits()]).toEqual([1, 1, 99, 0])
    upstreams[0]?.answer(from('first'))
    expect(readText(await ask())).toBe('first')
  })

  test('all of them go there if no other endpoint is allowed', async () => {
    const provider = { only: ['first'] }
    await rested({ provider })
    upstreams[0]?.answer(from('first'))
    expect(broken(await statuses(100, 100, { provider }))).toBe(0)
    expect(hits()).toEqual([100, 0, 0])
  })
})

test('U-01 a burst of ten calls at a small gateway keeps its fallbacks', async () => {
  await start({ choice: 'listed', failures: 0 })
  upstreams[0]?.answer(() => [{ wait: 'all' }, status(529)])
  const calls = Array.from({ length: 10 }, () => ask())
  await upstreams[0]?.hit(9)
  upstreams[0]?.open('all')
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array(10).fill(200))
  expect(hits()).toEqual([10, 10, 0])
})

describe('U-27 all three endpoints down', () => {
  beforeEach(async () => {
    await start()
    for (const upstream of upstreams) upstream.answer(() => status(503))
  })

  test.each([1, 16])('get at most 1.2 attempts per call, with %d calls at once', async atOnce => {
    expect(broken(await statuses(150, atOnce))).toBe(150)
    expect(total()).toBeWithin(150, 150 * 1.2 + 1)
  })

  test('are tried in turns, so that the first to recover is found', async () => {
    await statuses(30, 1)
    upstreams[1]?.answer(from('second'))
    const again = await statuses(6, 1)
    expect(again.slice(-3)).toEqual([200, 200, 200])
  })
})

describe('an endpoint that asks to wait', () => {
  const soon = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString()
  const WAITS: [given: string, rests: boolean][] = [
    ['60', true],
    ['0.5', true],
    [soon(3_600), true],
    ['99999999999', true],
    ['0', false],
    ['-5', false],
    [soon(-60), false],
    ['soon', false],
    ['', false],
    ['1e9', false],
  ]

  test.each(
    [503, 529].flatMap(code => WAITS.map(([given, rests]) => [code, given, rests] as const)),
  )('U-04 with %d and Retry-After %j cools down: %p', async (code, given, rests) => {
    await start({ choice: 'listed' })
    upstreams[0]?.answer(() => status(code, 'busy', { 'retry-after': given }))
    expect(broken(await statuses(3, 1))).toBe(0)
    expect(hits()).toEqual(rests ? [1, 3, 0] : [3, 3, 0])
  })

  test('with 500 is ignored', async () => {
    await start({ choice: 'listed' })
    upstreams[0]?.answer(() => status(500, 'busy', { 'retry-after': '60' }))
    expect(broken(await statuses(3, 1))).toBe(0)
    expect(hits()).toEqual([3, 3, 0])
  })

  test('is not tried while there are others', async () => {
    await start({ choice: 'listed' })
    upstreams[0]?.answer(() => status(429, 'busy', { 'retry-after': '60' }))
    expect(broken(await statuses(5, 1))).toBe(0)
    expect(hits()).toEqual([1, 5, 0])
  })

  test('is still tried if it is the only one', async () => {
    await start()
    upstreams[0]?.answer(() => status(429, 'busy', { 'retry-after': '60' }))
    expect(await statuses(3, 1, { provider: { only: ['first'] } })).toEqual([429, 429, 429])
    expect(hits()).toEqual([3, 0, 0])
  })
})

test('a request that an endpoint refuses does not affect its health', async () => {
  await start({ choice: 'listed' })
  upstreams[0]?.answer(() => status(400))
  expect(await statuses(20, 1)).toEqual(Array.from({ length: 20 }, () => 400))
  expect(hits()).toEqual([20, 0, 0])
})

test('neither a preference nor a cooldown sends a call where it may not go', async () => {
  await start()
  upstreams[0]?.answer(() => status(500))
  upstreams[1]?.answer(() => status(500))
  const provider = { ignore: ['third'] }
  expect(broken(await statuses(30, 4, { provider }))).toBe(30)
  expect(broken(await statuses(5, 1, { provider: { only: ['first'] } }))).toBe(5)
  expect(hits()[2]).toBe(0)
})

describe('a session', () => {
  const CACHED = { prompt: 0.15, completion: 0.6, cache_read: 0.01 }
  const endpoints = NAMES.map(provider => ({
    provider,
    model: 'm',
    usd_per_million_tokens: CACHED,
  }))
  const models = [{ id: 'acme/small', context_length: 128_000, endpoints }]
  const texts = async (times: number, ask: () => Promise<Outcome>) => {
    const all: string[] = []
    for (let i = 0; i < times; i++) all.push(readText(await ask()))
    return new Set(all).size
  }

  test('sticks to the endpoint that answered first, and moves when that one fails', async () => {
    await start({}, { models })
    expect(await texts(12, () => ask({ session_id: 'body' }))).toBe(1)
    expect(
      await texts(12, () =>
        sendChat(server, {}, { headers: { 'x-session-id': 'header' } }).outcome(),
      ),
    ).toBe(1)
    const at = readText(await ask({ session_id: 'body' }))
    upstreams[NAMES.indexOf(at as 'first')]?.answer(() => status(500))
    const moved = readText(await ask({ session_id: 'body' }))
    expect(moved).not.toBe(at)
    expect(await texts(6, () => ask({ session_id: 'body' }))).toBe(1)
  })

  test('that the caller did not name is spread until a provider reads from its cache', async () => {
    await start({}, { models })
    expect(await texts(30, () => ask())).toBeGreaterThan(1)
  })
})

interface Shown {
  tag: string
  status: number
  uptime_last_5m: number | null
  latency_last_30m: { p50: number } | null
  throughput_last_30m: { p50: number } | null
}

async function endpoints(key: string | null): Promise<Shown[]> {
  const response = await server.fetch('/models/acme/small/endpoints', { key })
  expect(response.status).toBe(200)
  return ((await response.json()) as { data: { endpoints: Shown[] } }).data.endpoints
}

test('A.13 measurements are shown, and the endpoints’ speed only with a key', async () => {
  await start({ choice: 'listed' })
  await statuses(4, 1, { stream: true })
  await statuses(1, 1, { provider: { only: ['second'] } })
  const [first, second, third] = await endpoints(server.inference_key)
  expect(first).toMatchObject({
    status: 0,
    uptime_last_5m: 100,
    latency_last_30m: { p50: expect.any(Number) },
  })
  expect(first?.throughput_last_30m?.p50).toBeGreaterThan(0)
  expect(second).toMatchObject({
    uptime_last_5m: 100,
    latency_last_30m: null,
    throughput_last_30m: { p50: expect.any(Number) },
  })
  expect(third).toMatchObject({
    uptime_last_5m: null,
    latency_last_30m: null,
    throughput_last_30m: null,
  })
  for (const key of [null, 'sk-nobody']) {
    const shown = await endpoints(key)
    expect(shown[0]).toMatchObject({
      uptime_last_5m: 100,
      latency_last_30m: null,
      throughput_last_30m: null,
    })
  }
})

test('an answer that breaks off counts as a failure of its endpoint', async () => {
  await start({ choice: 'listed', pause_seconds: 600 })
  upstreams[0]?.answer(() => [sseHead(), delta('Hello'), { end: 'rst' }])
  await statuses(12, 1, { stream: true })
  expect(hits()).toEqual([5, 7, 0])
})
