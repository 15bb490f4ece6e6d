import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  buildRoutesConfig,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  PRICES,
  readMetric,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { type Server, startServer } from '../support/server.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  ending,
  finish,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  status,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

let upstream: Upstream
let key: string

beforeAll(async () => {
  upstream = await startUpstream()
})

afterAll(() => upstream.close())
afterEach(() => upstream.emptied())

/** Starts a gateway whose provider charges for what nobody reads. */
async function startDraining(more: Record<string, unknown> = {}): Promise<Server> {
  const config = buildRoutesConfig({ 'acme/small': { local: upstream.url } }, more)
  Object.assign(config.providers.local ?? {}, { on_abort: 'drain' })
  return startServer({ config })
}

/** The newest call from the terminal: a client that leaves may never learn its id. */
async function fetchNewest(server: Server) {
  const { stdout } = await runCommand([
    ...['generations', 'list', '--limit', '1', '--json', '--data', server.data],
  ])
  return fetchGeneration(server, JSON.parse(stdout).data[0].id, key)
}

const settled = (server: Server) =>
  waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)

const words = (): Script => [sseHead(), delta('Hel'), delta('lo')]

/** How far an answer is when its client leaves, what follows, and what the client has seen of it. */
const MOMENTS: [
  name: string,
  fields: object,
  said: () => Script,
  rest: () => Script,
  seen: string | null,
][] = [
  [
    'in the middle of a stream',
    { stream: true },
    words,
    () => [delta(' world'), finish(), usageChunk(usage(700, 30)), done(), chunkedEnd()],
    '"lo"',
  ],
  [
    'before the first word of a stream',
    { stream: true },
    () => [sseHead(), delta({ role: 'assistant', content: '' })],
    () => [delta('Hello'), finish(), usageChunk(usage(700, 30)), done(), chunkedEnd()],
    null,
  ],
  [
    'before the first byte of a stream',
    { stream: true },
    () => [],
    () => [words(), finish(), usageChunk(usage(700, 30)), done(), chunkedEnd()],
    null,
  ],
  [
    'before the first byte of a whole answer',
    {},
    () => [],
    () => completion('Hello', { usage: usage(700, 30) }),
    null,
  ],
]

describe('A-10 an answer whose provider charges for all of it is read on', () => {
  let server: Server
  beforeAll(async () => {
    server = await startDraining()
  })
  afterAll(() => server[Symbol.asyncDispose]())
  beforeEach(async () => {
    upstream.hits.length = 0
    key = await createLimitedKey(server, 10)
  })

  test.each(MOMENTS)('%s: charged as counted', async (name, fields, said, rest, seen) => {
    upstream.answer(() => [said(), { wait: `${key} ${name}` }, rest()])
    const call = sendChat(server, fields, { key })
    await upstream.reached(`${key} ${name}`)
    if (seen) await call.sees(seen)
    call.hangUp('fin')
    await call.outcome().catch(() => undefined)
    upstream.open(`${key} ${name}`)
    await settled(server)
    expect(await fetchNewest(server)).toMatchObject({
      cancelled: true,
      usage_source: 'exact',
      native_tokens_prompt: 700,
      native_tokens_completion: 30,
    })
    const cost = (700 * PRICES.prompt + 30 * PRICES.completion) / 1e6
    expect((await fetchKeyState(server, key)).usage).toBeCloseTo(cost, 9)
  })

  test('a provider that fails meanwhile is not paid', async () => {
    upstream.answer(() => [{ wait: `${key} fails` }, status(500)])
    const call = sendChat(server, { stream: true }, { key })
    await upstream.reached(`${key} fails`)
    call.hangUp('rst')
    await call.outcome().catch(() => undefined)
    upstream.open(`${key} fails`)
    await settled(server)
    expect(await fetchNewest(server)).toMatchObject({ usage_source: 'none', total_cost: 0 })
  })

  test('of many clients that leave, 64 answers are read on, and all are charged', async () => {
    upstream.answer(() => [
      words(),
      { wait: 'many' },
      finish(),
      usageChunk(usage(700, 30)),
      done(),
      chunkedEnd(),
    ])
    const calls = Array.from({ length: 200 }, () => sendChat(server, { stream: true }, { key }))
    await Promise.all(calls.map(call => call.sees('"lo"')))
    for (const call of calls) call.hangUp('rst')
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 64)
    // The provider learns of each closed connection a moment later.
    await waitUntil(() => countOpen(upstream.hits) <= 64)
    expect(countOpen(upstream.hits)).toBe(64)
    upstream.open('many')
    await settled(server)
    const { usage: charged } = await fetchKeyState(server, key)
    expect(charged).toBeGreaterThan((64 * (700 * PRICES.prompt + 30 * PRICES.completion)) / 1e6)
  })

  test('clients of one key that leave take no place from another key', async () => {
    const wait = `${key} greedy`
    upstream.answer(() => [words(), { wait }, finish(), usageChunk(usage(700, 30)), done()])
    const calls = Array.from({ length: 80 }, () => sendChat(server, { stream: true }, { key }))
    await Promise.all(calls.map(call => call.sees('"lo"')))
    for (const call of calls) call.hangUp('rst')
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 64)
    const other = await createLimitedKey(server, 10)
    const call = sendChat(server, { stream: true }, { key: other })
    await call.sees('"lo"')
    call.hangUp('rst')
    await waitUntil(() => Promise.resolve(countOpen(upstream.hits) === 64))
    upstream.open(wait)
    await settled(server)
    const { usage: charged } = await fetchKeyState(server, other)
    expect(charged).toBeCloseTo((700 * PRICES.prompt + 30 * PRICES.completion) / 1e6, 9)
  })

  test('clients that stay get their answers', async () => {
    upstream.answer(() => [words(), ending()])
    for (let i = 0; i < 3; i++)
      expect((await sendChat(server, { stream: true }, { key }).outcome()).body).toContain('[DONE]')
  })
})

const countOpen = (hits: Hit[]) => hits.filter(({ leftAt }) => leftAt === null).length

describe('A-10 reading on ends', () => {
  async function leave(server: Server, script: Script) {
    upstream.hits.length = 0
    key = await createLimitedKey(server)
    upstream.answer(() => script)
    const call = sendChat(server, { stream: true }, { key })
    await call.sees('"lo"')
    call.hangUp('fin')
    await call.outcome().catch(() => undefined)
  }

  test('after its seconds: the connection is closed and the rest estimated', async () => {
    await using server = await startDraining({ timeouts: { read_on_seconds: 0.2 } })
    await leave(server, [words(), { wait: 'never' }])
    await upstream.hits[0]?.clientLeft
    await settled(server)
    expect(await fetchNewest(server)).toMatchObject({ cancelled: true, usage_source: 'estimated' })
  })

  test('after its KiB', async () => {
    await using server = await startDraining({ limits: { read_on_kib: 64 } })
    const flood = Array.from({ length: 64 }, () => delta('x'.repeat(64 * 1024)))
    await leave(server, [words(), { wait: 'flood' }, flood, { wait: 'never' }])
    upstream.open('flood')
    await upstream.hits[0]?.clientLeft
    await settled(server)
    expect(await fetchNewest(server)).toMatchObject({ usage_source: 'estimated' })
  })

  test.each<Record<string, object>>([
    { timeouts: { read_on_seconds: 0 } },
    { limits: { read_on_kib: 0 } },
  ])('at once with %j', async more => {
    await using server = await startDraining(more)
    await leave(server, [words(), { wait: 'never' }])
    await upstream.hits[0]?.clientLeft
    await settled(server)
    expect(await fetchNewest(server)).toMatchObject({ usage_source: 'estimated' })
  })

  test('when the gateway stops: what came by then is charged', async () => {
    const server = await startDraining({ timeouts: { read_on_seconds: 600 } })
    await leave(server, [words(), { wait: 'never' }])
    await server.stop()
    await upstream.hits[0]?.clientLeft
    const { stdout } = await runCommand([
      ...['generations', 'list', '--limit', '1', '--json', '--data', server.data],
    ])
    expect(JSON.parse(stdout).data[0]).toMatchObject({ cancelled: true, usage_source: 'estimated' })
    await server[Symbol.asyncDispose]()
  })
})
